#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/attention_kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/cpu_kernel.h"
#include "weft/ops/gemm.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

// Turns scores x into exp(x - lse) and returns lse, the log of the sum of exp(x).
template <typename T>
T softmax_row(T* x, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    Pack<T> tops = Pack<T>{} + kLowest;
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count, kLowest);
      tops = y > tops ? y : tops;
    });
    const T top = max_lanes<T>(tops);
    Pack<T> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count, kLowest);
      y -= top;
      exp_pack(y);
      store(x + j, y, count);
      sums += y;
    });
    const T sum = sum_lanes<T>(sums);
    const T factor = 1 / sum;
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count);
      y *= factor;
      store(x + j, y, count);
    });
    return top + std::log(sum);
  });
}

template <typename T>
struct Forward {
  AttentionSizes sizes;
  const AttentionDropout& mask;
  const T* q = nullptr;
  const T* k = nullptr;
  const T* v = nullptr;
  T* out = nullptr;
  T* lse = nullptr;

  void run(const AttentionBlock& block, T* scores) const {
    gemm(Gemm<T>{.m = block.rows,
                 .n = block.keys,
                 .k = sizes.d,
                 .a = {q + block.at_q, sizes.stride()},
                 .b = {k + block.at_k, sizes.stride(), true},
                 .c = scores,
                 .c_stride = block.keys,
                 .alpha = static_cast<T>(sizes.scale)});
    for (std::int64_t i = 0; i < block.rows; ++i) {
      softmax(block, block.first + i, scores + i * block.keys);
    }
    gemm(Gemm<T>{.m = block.rows,
                 .n = sizes.d,
                 .k = block.keys,
                 .a = {scores, block.keys},
                 .b = {v + block.at_k, sizes.stride()},
                 .c = out + block.at_q,
                 .c_stride = sizes.stride()});
  }

  void softmax(const AttentionBlock& block, std::int64_t row, T* x) const {
    const std::int64_t seen = sizes.keys(row);
    lse[block.pair * sizes.s + row] = softmax_row(x, seen);
    std::fill(x + seen, x + block.keys, T{0});
    if (mask.active()) {
      mask.for_row(block.pair, row, seen,
                   [x](std::int64_t j, double factor) { x[j] *= static_cast<T>(factor); });
    }
  }
};

template <typename T>
Tensors forward(const KernelCall& call) {
  const AttentionSizes sizes = attention_sizes(call.call, 0);
  const AttentionDropout mask(sizes, call.env);
  const at::Tensor& q = call.inputs[0];
  Tensors outputs = {at::empty_like(q), at::empty({sizes.b, sizes.h, sizes.s}, q.options())};
  const Forward<T> work{.sizes = sizes,
                        .mask = mask,
                        .q = q.data_ptr<T>(),
                        .k = call.inputs[1].data_ptr<T>(),
                        .v = call.inputs[2].data_ptr<T>(),
                        .out = outputs[0].data_ptr<T>(),
                        .lse = outputs[1].data_ptr<T>()};
  for_attention_pairs(sizes, q, 1, [&](std::int64_t pair, void* tile) {
    for (std::int64_t i = 0; i < sizes.blocks(); ++i) {
      work.run(sizes.block(pair, i), static_cast<T*>(tile));
    }
  });
  return outputs;
}

}  // namespace

Tensors attention_kernel(const KernelCall& call) {
  return cpu_dtype(call, "attention", 0) == DType::f32 ? forward<float>(call)
                                                       : forward<double>(call);
}

}  // namespace weft::ops
