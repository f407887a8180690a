#include "weft/kernels/torch_headers.h"

#include "weft/ops/attention_gradient.aten.h"
#include "weft/ops/attention_kernel.h"
#include "weft/ops/attention_rows.h"
#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

template <typename W>
struct HeadBlock {
  std::int64_t sample = 0;
  std::int64_t head = 0;
  std::int64_t group = 0;
  Range queries = {};
  bool writes = false;  // it is the first to touch dk and dv
  Matrix<W> q = {};
  Matrix<W> dout = {};
  Target<W> dq = {};
  Target<W> dk = {};  // of the whole group
  Target<W> dv = {};
};

template <typename T>
struct Gradient {
  using W = Wide<T>;
  AttentionLayout at;
  const AttentionDropout& mask;
  const T* dout = nullptr;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* out = nullptr;
  const W* lse = nullptr;
  const T* bias = nullptr;
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;
  W* dbias = nullptr;

  // A task with a gradient of the bias takes all samples that share a row of it, in order.
  void run(std::int64_t task, W* memory) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t group = task % a.g;
    if (dbias == nullptr) {
      run_group(task / a.g, group, Scratch<W>(a, memory));
      return;
    }
    const std::int64_t skipped = (task / a.g - at.first_sample % a.n + a.n) % a.n;
    for (std::int64_t sample = skipped; sample < a.b; sample += a.n) {
      run_group(sample, group, Scratch<W>(a, memory));
    }
  }

  // From the last block. If it sees every key, it writes dk and dv of the group, and the others add
  // to them.
  void run_group(std::int64_t sample, std::int64_t group, const Scratch<W>& scratch) const {
    const AttentionSizes& a = at.sizes;
    T* const dk_group = dk + at.k(sample, group, 0);
    T* const dv_group = dv + at.v(sample, group, 0);
    HeadBlock<W> block{.sample = sample, .group = group};
    block.dk = target(dk_group, a.g * a.d, scratch.dk, a.d);
    block.dv = target(dv_group, a.g * a.e, scratch.dv, a.e);
    block.writes = !a.continues && a.window == 0 && a.s > 0 && a.keys(a.s - 1).end == a.t;
    if (a.continues) {
      wide_rows(dk_group, a.g * a.d, a.t, a.d, scratch.dk);
      wide_rows(dv_group, a.g * a.e, a.t, a.e, scratch.dv);
    } else if (!block.writes) {
      clear(block);
    }
    for (std::int64_t j = 0; j < a.heads_per_group(); ++j) {
      block.head = group * a.heads_per_group() + j;
      for (std::int64_t i = a.blocks() - 1; i >= 0; --i) {
        block.queries = a.queries(i);
        run_block(block, scratch);
        block.writes = false;
      }
    }
    write_rows(dk_group, a.g * a.d, scratch.dk, a.t, a.d);
    write_rows(dv_group, a.g * a.e, scratch.dv, a.t, a.e);
  }

  void clear(const HeadBlock<W>& block) const {
    for (std::int64_t i = 0; i < at.sizes.t; ++i) {
      std::fill(block.dk.row(i), block.dk.row(i) + at.sizes.d, W{0});
      std::fill(block.dv.row(i), block.dv.row(i) + at.sizes.e, W{0});
    }
  }

  void run_block(HeadBlock<W>& block, const Scratch<W>& scratch) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t first = block.queries.begin;
    const std::int64_t at_q = at.q(block.sample, block.head, first);
    const std::int64_t rows = block.queries.size();
    block.q = wide_rows(q + at_q, a.h * a.d, rows, a.d, scratch.q);
    block.dout = wide_rows(dout + at.out(block.sample, block.head, first), a.h * a.e, rows, a.e,
                           scratch.dout);
    block.dq = target(dq + at_q, a.h * a.d, scratch.dq, a.d);
    const Range seen = {a.keys(first).begin, a.keys(block.queries.end - 1).end};
    if (a.continues) {
      wide_rows(dq + at_q, a.h * a.d, rows, a.d, scratch.dq);
    } else if (seen.size() == 0) {
      for (std::int64_t i = 0; i < rows; ++i) {
        std::fill(block.dq.row(i), block.dq.row(i) + a.d, W{0});
      }
    }
    std::array<W, kAttentionRows> delta;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at_row = at.out(block.sample, block.head, first + i);
      delta[static_cast<std::size_t>(i)] = dot(dout + at_row, out + at_row, a.e);
    }
    for (std::int64_t key = seen.begin; key < seen.end; key += kAttentionKeys) {
      run_tile(block, scratch, {key, std::min(seen.end, key + kAttentionKeys)}, delta.data(),
               key == seen.begin && !a.continues);
    }
    write_rows(dq + at_q, a.h * a.d, scratch.dq, rows, a.d);
  }

  void run_tile(const HeadBlock<W>& block, const Scratch<W>& scratch, Range keys, const W* delta,
                bool first) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t width = keys.size();
    const Matrix<W> k_tile = wide_rows(k + at.k(block.sample, block.group, keys.begin), a.g * a.d,
                                       width, a.d, scratch.k);
    const Matrix<W> v_tile = wide_rows(v + at.v(block.sample, block.group, keys.begin), a.g * a.e,
                                       width, a.e, scratch.v);
    scores(block.q, k_tile, {.m = block.queries.size(), .n = width, .k = a.d, .c = scratch.p},
           static_cast<W>(a.scale));
    scores(block.dout, v_tile, {.m = block.queries.size(), .n = width, .k = a.e, .c = scratch.ds},
           W{1});
    for (std::int64_t i = 0; i < block.queries.size(); ++i) {
      differentiate_row(block, i, keys, delta[i], scratch.p + i * width, scratch.ds + i * width);
    }
    products(block, scratch, keys, k_tile, first);
  }

  // c = alpha · rows of a times rows of b
  static void scores(const Matrix<W>& rows, const Matrix<W>& columns, Gemm<W> product, W alpha) {
    product.a = rows;
    product.b = columns;
    product.b.transposed = true;
    product.c_stride = product.n;
    product.alpha = alpha;
    gemm(product);
  }

  void differentiate_row(const HeadBlock<W>& block, std::int64_t i, Range keys, W delta, W* p,
                         W* ds) const {
    const std::int64_t row = block.queries.begin + i;
    const Range all = at.sizes.keys(row);
    const Range seen = {std::clamp(all.begin, keys.begin, keys.end),
                        std::clamp(all.end, keys.begin, keys.end)};
    const std::int64_t skipped = seen.begin - keys.begin;
    for (W* const x : {p, ds}) {
      std::fill(x, x + skipped, W{0});
      std::fill(x + (seen.end - keys.begin), x + keys.size(), W{0});
    }
    const RowGrad<W> grad{.p = p + skipped,
                          .ds = ds + skipped,
                          .n = seen.size(),
                          .lse = lse[at.lse(block.sample, block.head, row)],
                          .delta = delta};
    if (bias != nullptr) {
      add_row(grad.p, bias + at.bias(block.sample, block.head, row, seen.begin), grad.n);
    }
    if (mask.active()) {
      std::array<W, kAttentionKeys> factors;
      mask.factors(block.sample, block.head, row, seen, factors.data());
      grad.run(factors.data());
    } else {
      grad.run();
    }
    if (dbias != nullptr) {
      add_row(dbias + at.bias(block.sample, block.head, row, seen.begin), grad.ds, grad.n);
    }
  }

  void products(const HeadBlock<W>& block, const Scratch<W>& scratch, Range keys,
                const Matrix<W>& k_tile, bool first) const {
    const AttentionSizes& a = at.sizes;
    const W scale = static_cast<W>(a.scale);
    const std::int64_t width = keys.size();
    gemm(Gemm<W>{.m = block.queries.size(),
                 .n = a.d,
                 .k = width,
                 .a = {scratch.ds, width},
                 .b = k_tile,
                 .c = block.dq.data,
                 .c_stride = block.dq.stride,
                 .alpha = scale,
                 .beta = first ? W{0} : W{1}});
    const W beta = block.writes ? W{0} : W{1};
    gemm(Gemm<W>{.m = width,
                 .n = a.e,
                 .k = block.queries.size(),
                 .a = {scratch.p, width, true},
                 .b = block.dout,
                 .c = block.dv.row(keys.begin),
                 .c_stride = block.dv.stride,
                 .beta = beta});
    gemm(Gemm<W>{.m = width,
                 .n = a.d,
                 .k = block.queries.size(),
                 .a = {scratch.ds, width, true},
                 .b = block.q,
                 .c = block.dk.row(keys.begin),
                 .c_stride = block.dk.stride,
                 .alpha = scale,
                 .beta = beta});
  }
};

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const AttentionSizes sizes = attention_sizes(call.call, 1, 6);
  const AttentionLayout layout = attention_layout(sizes, call.env, 2);
  const AttentionDropout mask(layout, call.env);
  const auto data = [&](std::size_t i) { return data_of<T>(call.inputs[i]); };
  Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  at::Tensor bias_sum;  // dbias itself, but in bf16
  if (sizes.bias_gradient) {
    outputs.push_back(output_of(call, 3));
    bias_sum = sizes.narrow ? at::empty(outputs[3].sizes(), options_of<W>()) : outputs[3];
    bias_sum.zero_();
  }
  if (call.inputs[1].numel() == 0 && call.call.ring_step <= 0) {
    // A device without queries adds nothing to the gradients of keys and values.
    outputs[1].zero_();
    outputs[2].zero_();
    return outputs;
  }
  const Gradient<T> work{.at = layout,
                         .mask = mask,
                         .dout = data(0),
                         .q = data(1),
                         .k = data(2),
                         .v = data(3),
                         .out = data(4),
                         .lse = data_of<W>(call.inputs[5]),
                         .bias = sizes.n > 0 ? data(6) : nullptr,
                         .dq = data_of<T>(outputs[0]),
                         .dk = data_of<T>(outputs[1]),
                         .dv = data_of<T>(outputs[2]),
                         .dbias = sizes.bias_gradient ? data_of<W>(bias_sum) : nullptr};
  for_attention_tasks(
      sizes.backward_tasks(), sizes.backward_scratch(), call.inputs[5],
      [&](std::int64_t task, void* scratch) { work.run(task, static_cast<W*>(scratch)); });
  if (sizes.bias_gradient && sizes.narrow) {
    outputs[3].copy_(bias_sum);
  }
  return outputs;
}

}  // namespace

Tensors attention_backward_kernel(const KernelCall& call) {
  return for_floating(call, "attention_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
