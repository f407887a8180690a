#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"
#include "weft/ops/rms_norm.h"

namespace weft::ops {
namespace {

constexpr std::int64_t kGrain = 32768;  // elements that are worth a thread

template <typename T>
struct Row {
  const T* x = nullptr;
  const T* w = nullptr;
  std::int64_t n = 0;
  Wide<T> rstd = 0;
  Wide<T> offset = 0;
};

// Two packs of sums: one would wait for itself.
template <typename T>
Wide<T> mean_square(const T* x, std::int64_t n) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    constexpr std::int64_t kStep = 2 * kLanes<T>;
    Pack<W> sums[2] = {};
    const std::int64_t even = n / kStep * kStep;
    for (std::int64_t j = 0; j < even; j += kStep) {
      for (int k = 0; k < 2; ++k) {
        Pack<W> y;
        load(y, x + j + k * kLanes<T>, kLanes<T>);
        sums[k] += y * y;
      }
    }
    for_packs<T>(n - even, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + even + j, count);
      sums[0] += y * y;
    });
    return sum_lanes<W>(sums[0] + sums[1]) / static_cast<W>(n);
  });
}

template <typename T>
void normalise(const Row<T>& target, T* to) {
  using W = Wide<T>;
  run_simd([row = target, to]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      Pack<W> w;
      load(y, row.x + j, count);
      load(w, row.w + j, count);
      y *= row.rstd * (w + row.offset);
      store(to + j, y, count);
    });
  });
}

// Adds dy n to dw; gives the mean of g n.
template <typename T>
Wide<T> add_weight_gradient(const Row<T>& target, const T* dy, Wide<T>* dw) {
  using W = Wide<T>;
  return run_simd([row = target, dy, dw]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> dn;
      Pack<W> x;
      Pack<W> w;
      Pack<W> to;
      load(dn, dy + j, count);
      load(x, row.x + j, count);
      load(w, row.w + j, count);
      load(to, dw + j, count);
      dn *= x * row.rstd;
      sums += dn * (w + row.offset);
      to += dn;
      store(dw + j, to, count);
    });
    return sum_lanes<W>(sums) / static_cast<W>(row.n);
  });
}

template <typename T>
void input_gradient(const Row<T>& target, Wide<T> mean_gn, const T* dy, T* dx) {
  using W = Wide<T>;
  run_simd([row = target, mean_gn, dy, dx]() WEFT_INLINE {
    for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> d;
      Pack<W> x;
      Pack<W> w;
      load(d, dy + j, count);
      load(x, row.x + j, count);
      load(w, row.w + j, count);
      d = row.rstd * (d * (w + row.offset) - x * (row.rstd * mean_gn));
      store(dx + j, d, count);
    });
  });
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[0];
  const std::int64_t n = x.size(-1);
  Tensors outputs = {output_of(call, 0), output_of(call, 1)};
  const W eps = static_cast<W>(attr_number(call.call.attrs, "eps"));
  const Row<T> first{.x = data_of<T>(x),
                     .w = data_of<T>(call.inputs[1]),
                     .n = n,
                     .offset = static_cast<W>(attr_number(call.call.attrs, "offset"))};
  T* const y = data_of<T>(outputs[0]);
  W* const rstd = data_of<W>(outputs[1]);
  at::parallel_for(0, outputs[1].numel(), 1 + kGrain / (n + 1),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       Row<T> row = first;
                       row.x += i * n;
                       row.rstd = 1 / std::sqrt(mean_square(row.x, n) + eps);
                       normalise(row, y + i * n);
                       rstd[i] = row.rstd;
                     }
                   });
  return outputs;
}

template <typename T>
void sum_chunks(const at::Tensor& parts, T* dw) {
  const std::int64_t n = parts.size(1);
  const Wide<T>* const part = data_of<Wide<T>>(parts);
  for (std::int64_t j = 0; j < n; ++j) {
    Wide<T> sum = 0;
    for (std::int64_t c = 0; c < parts.size(0); ++c) {
      sum += part[c * n + j];
    }
    dw[j] = narrow<T>(sum);
  }
}

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[1];
  const std::int64_t n = x.size(-1);
  const std::int64_t rows = call.inputs[2].numel();
  const std::int64_t chunks = rms_norm_chunks(rows);
  Tensors outputs = {output_of(call, 0), output_of(call, 1)};
  const at::Tensor parts = at::zeros({chunks, n}, options_of<W>());
  const Row<T> first{.x = data_of<T>(x),
                     .w = data_of<T>(call.inputs[3]),
                     .n = n,
                     .offset = static_cast<W>(attr_number(call.call.attrs, "offset"))};
  const T* const dy = data_of<T>(call.inputs[0]);
  const W* const rstd = data_of<W>(call.inputs[2]);
  T* const dx = data_of<T>(outputs[0]);
  W* const part = data_of<W>(parts);
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      for (std::int64_t i = c * rows / chunks; i < (c + 1) * rows / chunks; ++i) {
        Row<T> row = first;
        row.x += i * n;
        row.rstd = rstd[i];
        const W mean_gn = add_weight_gradient(row, dy + i * n, part + c * n);
        input_gradient(row, mean_gn, dy + i * n, dx + i * n);
      }
    }
  });
  sum_chunks(parts, data_of<T>(outputs[1]));
  return outputs;
}

}  // namespace

Tensors rms_norm_kernel(const KernelCall& call) {
  return for_floating(call, "rms_norm", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors rms_norm_backward_kernel(const KernelCall& call) {
  return for_floating(call, "rms_norm_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
