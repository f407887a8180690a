#include "weft/kernels/torch_headers.h"

#include "weft/ops/attention_kernel.h"
#include "weft/ops/attention_rows.h"
#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

// A block of queries of one head; its tiles of keys come one after the other.
template <typename T>
struct Block {
  using W = Wide<T>;
  std::int64_t sample = 0;
  std::int64_t head = 0;
  Range queries = {};
  W* scores = nullptr;
  Matrix<W> q = {};
  W* keys_copy = nullptr;  // bf16 only
  W* values_copy = nullptr;
  W* out = nullptr;  // what the tiles are summed into, with rows `out_stride` apart
  std::int64_t out_stride = 0;
  std::array<RunningSoftmax<W>, kAttentionRows> softmax = {};
};

template <typename T>
struct Forward {
  using W = Wide<T>;
  static constexpr W kNothing = -std::numeric_limits<W>::infinity();
  AttentionLayout at;
  const AttentionDropout& mask;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* bias = nullptr;
  T* out = nullptr;
  W* lse = nullptr;

  void run(std::int64_t task, W* scratch) const {
    const AttentionSizes& a = at.sizes;
    const Range rows = a.queries(task % a.blocks());
    const Range seen = {a.keys(rows.begin).begin, a.keys(rows.end - 1).end};
    Block<T> block = make_block(task, scratch);
    if (seen.size() == 0) {
      see_nothing(block);
      return;
    }
    for (std::int64_t key = seen.begin; key < seen.end; key += kAttentionKeys) {
      run_tile(block, {key, std::min(seen.end, key + kAttentionKeys)},
               key == seen.begin && !a.continues);
    }
    for (std::int64_t i = 0; i < block.queries.size(); ++i) {
      const std::int64_t row = block.queries.begin + i;
      const RunningSoftmax<W>& softmax = block.softmax[static_cast<std::size_t>(i)];
      scale_row(out + at.out(block.sample, block.head, row), block.out + i * block.out_stride, a.e,
                softmax.inverse_sum());
      lse[at.lse(block.sample, block.head, row)] =
          a.ring && softmax.sum == 0 ? kNothing : softmax.lse();
    }
  }

  // In a ring another run will see something; lse says that none has so far.
  void see_nothing(const Block<T>& block) const {
    const AttentionSizes& a = at.sizes;
    for (std::int64_t i = block.queries.begin; i < block.queries.end && !a.continues; ++i) {
      T* const row = out + at.out(block.sample, block.head, i);
      std::fill(row, row + a.e, T{});
      lse[at.lse(block.sample, block.head, i)] = a.ring ? kNothing : W{0};
    }
  }

  Block<T> make_block(std::int64_t task, W* scratch) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t pair = task / a.blocks();
    Block<T> block{.sample = pair / a.h,
                   .head = pair % a.h,
                   .queries = a.queries(task % a.blocks()),
                   .scores = scratch};
    const std::int64_t rows = std::min(a.s, kAttentionRows);
    const std::int64_t width = std::min(a.t, kAttentionKeys);
    W* const queries_copy = scratch + rows * width;
    block.keys_copy = queries_copy + rows * a.d;
    block.values_copy = block.keys_copy + width * a.d;
    const std::int64_t first = block.queries.begin;
    if constexpr (std::is_same_v<T, W>) {
      block.out = out + at.out(block.sample, block.head, first);
      block.out_stride = a.h * a.e;
    } else {
      block.out = block.values_copy + width * a.e;
      block.out_stride = a.e;
    }
    block.q = wide_rows(q + at.q(block.sample, block.head, first), a.h * a.d, block.queries.size(),
                        a.d, queries_copy);
    if (a.continues) {
      go_on(block);
    }
    return block;
  }

  // What runs before have made is one more part of the row: its largest score is lse, its sum 1.
  void go_on(Block<T>& block) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t first = block.queries.begin;
    wide_rows(out + at.out(block.sample, block.head, first), a.h * a.e, block.queries.size(), a.e,
              block.out);
    for (std::int64_t i = 0; i < block.queries.size(); ++i) {
      const W so_far = lse[at.lse(block.sample, block.head, first + i)];
      if (so_far != kNothing) {
        block.softmax[static_cast<std::size_t>(i)] = {.top = so_far, .sum = 1};
      }
    }
  }

  void run_tile(Block<T>& block, Range keys, bool first) const {
    const AttentionSizes& a = at.sizes;
    const std::int64_t group = block.head / a.heads_per_group();
    Gemm<W> product{.m = block.queries.size(),
                    .n = keys.size(),
                    .k = a.d,
                    .a = block.q,
                    .b = wide_rows(k + at.k(block.sample, group, keys.begin), a.g * a.d,
                                   keys.size(), a.d, block.keys_copy),
                    .c = block.scores,
                    .c_stride = keys.size(),
                    .alpha = static_cast<W>(a.scale)};
    product.b.transposed = true;
    gemm(product);
    for (std::int64_t i = 0; i < block.queries.size(); ++i) {
      const W shrink = run_row(block, i, keys, block.scores + i * keys.size());
      if (!first && shrink != 1) {
        W* const sum = block.out + i * block.out_stride;
        scale_row(sum, sum, a.e, shrink);
      }
    }
    gemm(Gemm<W>{.m = block.queries.size(),
                 .n = a.e,
                 .k = keys.size(),
                 .a = {block.scores, keys.size()},
                 .b = wide_rows(v + at.v(block.sample, group, keys.begin), a.g * a.e, keys.size(),
                                a.e, block.values_copy),
                 .c = block.out,
                 .c_stride = block.out_stride,
                 .beta = first ? W{0} : W{1}});
  }

  // Weights of the keys of one row, still without the division by their sum.
  W run_row(Block<T>& block, std::int64_t i, Range keys, W* x) const {
    const std::int64_t row = block.queries.begin + i;
    const Range all = at.sizes.keys(row);
    const Range seen = {std::clamp(all.begin, keys.begin, keys.end),
                        std::clamp(all.end, keys.begin, keys.end)};
    std::fill(x, x + (seen.begin - keys.begin), W{0});
    std::fill(x + (seen.end - keys.begin), x + keys.size(), W{0});
    if (seen.size() == 0) {
      return 1;
    }
    W* const from = x + (seen.begin - keys.begin);
    if (bias != nullptr) {
      add_row(from, bias + at.bias(block.sample, block.head, row, seen.begin), seen.size());
    }
    const W shrink = block.softmax[static_cast<std::size_t>(i)].add(from, seen.size());
    if (mask.active()) {
      std::array<W, kAttentionKeys> factors;
      mask.factors(block.sample, block.head, row, seen, factors.data());
      multiply_row(from, factors.data(), seen.size());
    }
    return shrink;
  }
};

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const AttentionSizes sizes = attention_sizes(call.call, 0, 3);
  const AttentionLayout layout = attention_layout(sizes, call.env, 1);
  const AttentionDropout mask(layout, call.env);
  Tensors outputs = {output_of(call, 0), output_of(call, 1)};
  const Forward<T> work{.at = layout,
                        .mask = mask,
                        .q = data_of<T>(call.inputs[0]),
                        .k = data_of<T>(call.inputs[1]),
                        .v = data_of<T>(call.inputs[2]),
                        .bias = sizes.n > 0 ? data_of<T>(call.inputs[3]) : nullptr,
                        .out = data_of<T>(outputs[0]),
                        .lse = data_of<W>(outputs[1])};
  for_attention_tasks(
      sizes.forward_tasks(), sizes.forward_scratch(), outputs[1],
      [&](std::int64_t task, void* scratch) { work.run(task, static_cast<W*>(scratch)); });
  return outputs;
}

}  // namespace

Tensors attention_kernel(const KernelCall& call) {
  return for_floating(call, "attention", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

}  // namespace weft::ops
