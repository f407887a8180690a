// Why not at::native_layer_norm: its backward keeps one dw and db a thread, so its memory and
// rounding depend on the number of threads. Here runs of rows do (see layer_norm.h).

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/layer_norm.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

template <typename T>
struct Row {
  const T* x = nullptr;
  const T* w = nullptr;
  std::int64_t n = 0;
  Wide<T> mean = 0;
  Wide<T> rstd = 0;
};

template <typename T>
Wide<T> mean_of(const T* x, std::int64_t n) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count);
      sums += y;
    });
    return sum_lanes<W>(sums) / static_cast<W>(n);
  });
}

// One pass more than sums of x and x², but without their cancellation.
template <typename T>
Wide<T> variance_of(const T* x, std::int64_t n, Wide<T> mean) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count, mean);
      y -= mean;
      sums += y * y;
    });
    return sum_lanes<W>(sums) / static_cast<W>(n);
  });
}

template <typename T>
void normalise(const Row<T>& target, const T* bias, T* to) {
  using W = Wide<T>;
  run_simd([row = target, bias, to]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      Pack<W> w;
      Pack<W> b;
      load(y, row.x + j, count);
      load(w, row.w + j, count);
      load(b, bias + j, count);
      y = (y - row.mean) * row.rstd * w + b;
      store(to + j, y, count);
    });
  });
}

// Adds dy n to dw and dy to db; gives the means of g and g n.
template <typename W>
struct GradientMeans {
  W g = 0;
  W gn = 0;
};

template <typename T>
GradientMeans<Wide<T>> add_weight_gradient(const Row<T>& target, const T* dy, Wide<T>* dw,
                                           Wide<T>* db) {
  using W = Wide<T>;
  return run_simd([row = target, dy, dw, db]() WEFT_INLINE {
    Pack<W> sum_g = {};
    Pack<W> sum_gn = {};
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> d;
      Pack<W> n;
      Pack<W> w;
      load(d, dy + j, count);
      load(n, row.x + j, count, row.mean);
      load(w, row.w + j, count);
      n = (n - row.mean) * row.rstd;
      w *= d;  // g
      sum_g += w;
      sum_gn += w * n;
      Pack<W> to;
      load(to, dw + j, count);
      to += d * n;
      store(dw + j, to, count);
      load(to, db + j, count);
      to += d;
      store(db + j, to, count);
    });
    const W n = static_cast<W>(row.n);
    return GradientMeans<W>{.g = sum_lanes<W>(sum_g) / n, .gn = sum_lanes<W>(sum_gn) / n};
  });
}

template <typename T>
void input_gradient(const Row<T>& target, const GradientMeans<Wide<T>>& of, const T* dy, T* dx) {
  using W = Wide<T>;
  run_simd([row = target, mean = of, dy, dx]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> d;
      Pack<W> n;
      Pack<W> w;
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
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[0];
  const std::int64_t n = x.size(-1);
  Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const W eps = static_cast<W>(attr_number(call.call.attrs, "eps"));
  const T* const from = data_of<T>(x);
  const T* const w = data_of<T>(call.inputs[1]);
  const T* const bias = data_of<T>(call.inputs[2]);
  T* const y = data_of<T>(outputs[0]);
  W* const mean = data_of<W>(outputs[1]);
  W* const rstd = data_of<W>(outputs[2]);
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

// out[0][j] = sum over the chunks c of part[c, 0, j], and out[1] from part[c, 1, j].
template <typename T>
void sum_chunks(const at::Tensor& parts, const std::array<T*, 2>& out) {
  const std::int64_t n = parts.size(2);
  const Wide<T>* const part = data_of<Wide<T>>(parts);
  for (std::int64_t k = 0; k < 2; ++k) {
    for (std::int64_t j = 0; j < n; ++j) {
      Wide<T> sum = 0;
      for (std::int64_t c = 0; c < parts.size(0); ++c) {
        sum += part[(2 * c + k) * n + j];
      }
      out[static_cast<std::size_t>(k)][j] = narrow<T>(sum);
    }
  }
}

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[1];
  const std::int64_t n = x.size(-1);
  const std::int64_t rows = call.inputs[2].numel();
  const std::int64_t chunks = layer_norm_chunks(rows);
  Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const at::Tensor parts = at::zeros({chunks, 2, n}, options_of<W>());
  const T* const dy = data_of<T>(call.inputs[0]);
  const T* const from = data_of<T>(x);
  const W* const mean = data_of<W>(call.inputs[2]);
  const W* const rstd = data_of<W>(call.inputs[3]);
  const T* const w = data_of<T>(call.inputs[4]);
  T* const dx = data_of<T>(outputs[0]);
  W* const part = data_of<W>(parts);
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t i = c * rows / chunks; i < (c + 1) * rows / chunks; ++i) {
        const Row<T> row{.x = from + i * n, .w = w, .n = n, .mean = mean[i], .rstd = rstd[i]};
        const GradientMeans<W> means =
            add_weight_gradient(row, dy + i * n, part + 2 * c * n, part + (2 * c + 1) * n);
        input_gradient(row, means, dy + i * n, dx + i * n);
      }
    }
  });
  sum_chunks<T>(parts, {data_of<T>(outputs[1]), data_of<T>(outputs[2])});
  return outputs;
}

}  // namespace

Tensors layer_norm_kernel(const KernelCall& call) {
  return for_floating(call, "layer_norm", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors layer_norm_backward_kernel(const KernelCall& call) {
  return for_floating(call, "layer_norm_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
