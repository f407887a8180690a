// Why not at::native_layer_norm: its backward keeps one dw and db a thread, so its memory and
// rounding depend on the number of threads. Here runs of rows do (see layer_norm.h).

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/cpu_kernel.h"
#include "weft/ops/layer_norm.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

template <typename T>
struct Row {
  const T* x = nullptr;
  const T* w = nullptr;
  std::int64_t n = 0;
  T mean = 0;
  T rstd = 0;
};

template <typename T>
T mean_of(const T* x, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    Pack<T> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count);
      sums += y;
    });
    return sum_lanes<T>(sums) / static_cast<T>(n);
  });
}

// One pass more than sums of x and x², but without their cancellation.
template <typename T>
T variance_of(const T* x, std::int64_t n, T mean) {
  return run_simd([=]() WEFT_INLINE {
    Pack<T> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count, mean);
      y -= mean;
      sums += y * y;
    });
    return sum_lanes<T>(sums) / static_cast<T>(n);
  });
}

template <typename T>
void normalise(const Row<T>& target, const T* bias, T* to) {
  run_simd([row = target, bias, to]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      Pack<T> w;
      Pack<T> b;
      load(y, row.x + j, count);
      load(w, row.w + j, count);
      load(b, bias + j, count);
      y = (y - row.mean) * row.rstd * w + b;
      store(to + j, y, count);
    });
  });
}

// Adds dy n to dw and dy to db; gives the means of g and g n.
template <typename T>
struct GradientMeans {
  T g = 0;
  T gn = 0;
};

template <typename T>
GradientMeans<T> add_weight_gradient(const Row<T>& target, const T* dy, T* dw, T* db) {
  return run_simd([row = target, dy, dw, db]() WEFT_INLINE {
    Pack<T> sum_g = {};
    Pack<T> sum_gn = {};
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> d;
      Pack<T> n;
      Pack<T> w;
      load(d, dy + j, count);
      load(n, row.x + j, count, row.mean);
      load(w, row.w + j, count);
      n = (n - row.mean) * row.rstd;
      w *= d;  // g
      sum_g += w;
      sum_gn += w * n;
      Pack<T> to;
      load(to, dw + j, count);
      to += d * n;
      store(dw + j, to, count);
      load(to, db + j, count);
      to += d;
      store(db + j, to, count);
    });
    const T n = static_cast<T>(row.n);
    return GradientMeans<T>{.g = sum_lanes<T>(sum_g) / n, .gn = sum_lanes<T>(sum_gn) / n};
  });
}

template <typename T>
void input_gradient(const Row<T>& target, const GradientMeans<T>& of, const T* dy, T* dx) {
  run_simd([row = target, mean = of, dy, dx]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> d;
      Pack<T> n;
      Pack<T> w;
      load(d, dy + j, count);
      load(n, row.x + j, count, row.mean);
      load(w, row.w + j, count);
      n = (n - row.mean) * row.rstd;
      d = row.rstd * (d * w - mean.g - n * mean.gn);
      store(dx + j, d, count);
    });
  });
}

template <typename T>
Tensors forward(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const std::int64_t n = x.size(-1);
  Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const T eps = static_cast<T>(attr_number(call.call.attrs, "eps"));
  const T* const from = x.data_ptr<T>();
  const T* const w = call.inputs[1].data_ptr<T>();
  const T* const bias = call.inputs[2].data_ptr<T>();
  T* const y = outputs[0].data_ptr<T>();
  T* const mean = outputs[1].data_ptr<T>();
  T* const rstd = outputs[2].data_ptr<T>();
  at::parallel_for(0, outputs[1].numel(), 1 + kGrain / (n + 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       Row<T> row{.x = from + i * n, .w = w, .n = n};
                       row.mean = mean_of(row.x, n);
                       row.rstd = 1 / std::sqrt(variance_of(row.x, n, row.mean) + eps);
                       normalise(row, bias, y + i * n);
                       mean[i] = row.mean;
                       rstd[i] = row.rstd;
                     }
                   });
  return outputs;
}

// dw[j] = sum over the chunks c of part[c, 0, j], and db from part[c, 1, j].
template <typename T>
void sum_chunks(const at::Tensor& parts, T* dw, T* db) {
  const std::int64_t n = parts.size(2);
  const T* const part = parts.data_ptr<T>();
  std::fill(dw, dw + n, T{0});
  std::fill(db, db + n, T{0});
  for (std::int64_t c = 0; c < parts.size(0); ++c) {
    for (std::int64_t j = 0; j < n; ++j) {
      dw[j] += part[2 * c * n + j];
      db[j] += part[(2 * c + 1) * n + j];
    }
  }
}

template <typename T>
Tensors backward(const KernelCall& call) {
  const at::Tensor& x = call.inputs[1];
  const std::int64_t n = x.size(-1);
  const std::int64_t rows = call.inputs[2].numel();
  const std::int64_t chunks = layer_norm_chunks(rows);
  Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const at::Tensor parts = at::zeros({chunks, 2, n}, x.options());
  const auto data = [&](std::size_t i) { return call.inputs[i].data_ptr<T>(); };
  T* const dx = outputs[0].data_ptr<T>();
  T* const part = parts.data_ptr<T>();
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t i = c * rows / chunks; i < (c + 1) * rows / chunks; ++i) {
        const Row<T> row{
            .x = data(1) + i * n, .w = data(4), .n = n, .mean = data(2)[i], .rstd = data(3)[i]};
        const T* const dy = data(0) + i * n;
        const GradientMeans<T> means =
            add_weight_gradient(row, dy, part + 2 * c * n, part + (2 * c + 1) * n);
        input_gradient(row, means, dy, dx + i * n);
      }
    }
  });
  sum_chunks(parts, outputs[1].data_ptr<T>(), outputs[2].data_ptr<T>());
  return outputs;
}

}  // namespace

Tensors layer_norm_kernel(const KernelCall& call) {
  return cpu_dtype(call, "layer_norm", 0) == DType::f32 ? forward<float>(call)
                                                        : forward<double>(call);
}

Tensors layer_norm_backward_kernel(const KernelCall& call) {
  return cpu_dtype(call, "layer_norm_backward", 0) == DType::f32 ? backward<float>(call)
                                                                 : backward<double>(call);
}

}  // namespace weft::ops
