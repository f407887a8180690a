#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/attention.h"
#include "weft/ops/attention_kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/cpu_kernel.h"
#include "weft/ops/gemm.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

// A row of scores becomes P, and one of dout·vᵀ becomes dS.
template <typename T>
struct RowGrad {
  T* p = nullptr;
  T* ds = nullptr;
  std::int64_t n = 0;
  T lse = 0;
  T delta = 0;

  void run() const {
    run_simd([row = *this]() WEFT_INLINE {
      for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<T> probability;
        Pack<T> grad;
        load(probability, row.p + j, count);
        load(grad, row.ds + j, count);
        probability -= row.lse;
        exp_pack(probability);
        grad = probability * (grad - row.delta);
        store(row.p + j, probability, count);
        store(row.ds + j, grad, count);
      });
    });
  }
  // With dropout P is left behind multiplied by the mask.
  void run(const AttentionDropout& mask, std::int64_t pair, std::int64_t index) const {
    mask.for_row(pair, index, n, [row = *this](std::int64_t j, double factor) {
      const T m = static_cast<T>(factor);
      const T probability = std::exp(row.p[j] - row.lse);
      row.ds[j] = probability * (row.ds[j] * m - row.delta);
      row.p[j] = probability * m;
    });
  }
};

template <typename T>
T dot(const T* a, const T* b, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    Pack<T> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> x;
      Pack<T> y;
      load(x, a + j, count);
      load(y, b + j, count);
      sums += x * y;
    });
    return sum_lanes<T>(sums);
  });
}

template <typename T>
struct Gradient {
  AttentionSizes sizes;
  const AttentionDropout& mask;
  const T* dout = nullptr;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  const T* out = nullptr;
  const T* lse = nullptr;
  T* dq = nullptr;
  T* dk = nullptr;
  T* dv = nullptr;

  // From the last block, which sees every key: it writes dk and dv, the others add to them.
  void run(std::int64_t pair, T* p) const {
    T* const ds = p + attention_tile_size(sizes.s, sizes.t);
    for (std::int64_t i = sizes.blocks() - 1; i >= 0; --i) {
      const AttentionBlock block = sizes.block(pair, i);
      scores(block, q, k, static_cast<T>(sizes.scale), p);
      scores(block, dout, v, T{1}, ds);
      for (std::int64_t row = 0; row < block.rows; ++row) {
        differentiate_row(block, row, p + row * block.keys, ds + row * block.keys);
      }
      products(block, p, ds, i == sizes.blocks() - 1 ? T{0} : T{1});
    }
  }

  // to = alpha · rows of `queries` times rows of `keys`
  void scores(const AttentionBlock& block, const T* queries, const T* keys, T alpha, T* to) const {
    gemm(Gemm<T>{.m = block.rows,
                 .n = block.keys,
                 .k = sizes.d,
                 .a = {queries + block.at_q, sizes.stride()},
                 .b = {keys + block.at_k, sizes.stride(), true},
                 .c = to,
                 .c_stride = block.keys,
                 .alpha = alpha});
  }

  void differentiate_row(const AttentionBlock& block, std::int64_t i, T* p, T* ds) const {
    const std::int64_t at_row = block.at_q + i * sizes.stride();
    const std::int64_t row = block.first + i;
    const RowGrad<T> grad{.p = p,
                          .ds = ds,
                          .n = sizes.keys(row),
                          .lse = lse[block.pair * sizes.s + row],
                          .delta = dot(dout + at_row, out + at_row, sizes.d)};
    if (mask.active()) {
      grad.run(mask, block.pair, row);
    } else {
      grad.run();
    }
    std::fill(p + grad.n, p + block.keys, T{0});
    std::fill(ds + grad.n, ds + block.keys, T{0});
  }

  void products(const AttentionBlock& block, const T* p, const T* ds, T beta) const {
    const std::int64_t stride = sizes.stride();
    const T scale = static_cast<T>(sizes.scale);
    gemm(Gemm<T>{.m = block.rows,
                 .n = sizes.d,
                 .k = block.keys,
                 .a = {ds, block.keys},
                 .b = {k + block.at_k, stride},
                 .c = dq + block.at_q,
                 .c_stride = stride,
                 .alpha = scale});
    Gemm<T> product{.m = block.keys,
                    .n = sizes.d,
                    .k = block.rows,
                    .a = {p, block.keys, true},
                    .b = {dout + block.at_q, stride},
                    .c = dv + block.at_k,
                    .c_stride = stride,
                    .beta = beta};
    gemm(product);
    product.a.data = ds;
    product.b.data = q + block.at_q;
    product.c = dk + block.at_k;
    product.alpha = scale;
    gemm(product);
  }
};

template <typename T>
Tensors backward(const KernelCall& call) {
  const AttentionSizes sizes = attention_sizes(call.call, 1);
  const AttentionDropout mask(sizes, call.env);
  const auto data = [&](std::size_t i) { return call.inputs[i].data_ptr<T>(); };
  Tensors outputs = {at::empty_like(call.inputs[1]), at::empty_like(call.inputs[2]),
                     at::empty_like(call.inputs[3])};
  const Gradient<T> work{.sizes = sizes,
                         .mask = mask,
                         .dout = data(0),
                         .q = data(1),
                         .k = data(2),
                         .v = data(3),
                         .out = data(4),
                         .lse = data(5),
                         .dq = outputs[0].data_ptr<T>(),
                         .dk = outputs[1].data_ptr<T>(),
                         .dv = outputs[2].data_ptr<T>()};
  for_attention_pairs(sizes, call.inputs[1], 2, [&](std::int64_t pair, void* tile) {
    work.run(pair, static_cast<T*>(tile));
  });
  return outputs;
}

}  // namespace

Tensors attention_backward_kernel(const KernelCall& call) {
  return cpu_dtype(call, "attention_backward", 0) == DType::f32 ? backward<float>(call)
                                                                : backward<double>(call);
}

}  // namespace weft::ops
