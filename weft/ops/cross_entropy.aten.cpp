// One pass over the logits for lse and loss, one for the gradient. The losses of the rows are
// summed in order and in f64, so the loss is the same for any number of threads.

#include "weft/kernels/torch_headers.h"

#include "weft/kernels/kernel.h"
#include "weft/ops/coded.h"
#include "weft/ops/cpu_kernel.h"
#include "weft/ops/simd.h"

namespace weft::ops {
namespace {

template <typename T>
T max_of(const T* x, std::int64_t n) {
  return run_simd([=]() WEFT_INLINE {
    constexpr T kLowest = -std::numeric_limits<T>::infinity();
    Pack<T> tops = Pack<T>{} + kLowest;
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count, kLowest);
      tops = y > tops ? y : tops;
    });
    return max_lanes<T>(tops);
  });
}

template <typename T>
T sum_exp(const T* x, std::int64_t n, T top) {
  return run_simd([=]() WEFT_INLINE {
    Pack<T> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count, -std::numeric_limits<T>::infinity());
      y -= top;
      exp_pack(y);
      sums += y;
    });
    return sum_lanes<T>(sums);
  });
}

// Sums of a few hundred classes, then the sum of these in f64: f32 would lose digits over many
// classes.
template <typename T>
T log_sum_exp(const T* x, std::int64_t n) {
  constexpr std::int64_t kRun = 512;
  const T top = max_of(x, n);
  double sum = 0;
  for (std::int64_t j = 0; j < n; j += kRun) {
    sum += static_cast<double>(sum_exp(x + j, std::min(kRun, n - j), top));
  }
  return static_cast<T>(static_cast<double>(top) + std::log(sum));
}

// to = factor · exp(x - lse)
template <typename T>
void softmax_row(T* to, const T* x, std::int64_t n, T lse, T factor) {
  run_simd([=]() WEFT_INLINE {
    for_packs<T>(n, [=](std::int64_t j, int count) WEFT_INLINE {
      Pack<T> y;
      load(y, x + j, count);
      y -= lse;
      exp_pack(y);
      y *= factor;
      store(to + j, y, count);
    });
  });
}

// The labels of a call, checked as they are read.
struct Labels {
  const std::int64_t* data = nullptr;
  std::int64_t classes = 0;
  std::int64_t ignore = -100;

  // -1 if the row counts nothing.
  [[nodiscard]] std::int64_t at(std::int64_t row) const {
    const std::int64_t label = data[row];
    require(
        label == ignore || (label >= 0 && label < classes),
        "cross_entropy: label {} of row {} is neither one of {} classes nor {}, which is ignored",
        label, row, classes, ignore);
    return label == ignore ? -1 : label;
  }
};

Labels labels_of(const KernelCall& call, std::size_t logits) {
  return {.data = call.inputs[logits + 1].data_ptr<std::int64_t>(),
          .classes = call.inputs[logits].size(-1),
          .ignore = attr_int(call.call.attrs, "ignore")};
}

template <typename T>
Tensors forward(const KernelCall& call) {
  const at::Tensor& logits = call.inputs[0];
  const Labels labels = labels_of(call, 0);
  const std::int64_t rows = call.inputs[1].numel();
  Tensors outputs = {at::empty({}, logits.options()),
                     at::empty(call.inputs[1].sizes(), logits.options())};
  const at::Tensor losses = at::empty({rows}, logits.options().dtype(at::kDouble));
  const T* const x = logits.data_ptr<T>();
  T* const lse = outputs[1].data_ptr<T>();
  double* const loss = losses.data_ptr<double>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const row = x + i * labels.classes;
      const std::int64_t label = labels.at(i);
      lse[i] = log_sum_exp(row, labels.classes);
      loss[i] = label < 0 ? 0.0 : static_cast<double>(lse[i]) - static_cast<double>(row[label]);
    }
  });
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    sum += loss[i];
  }
  *outputs[0].data_ptr<T>() =
      static_cast<T>(sum * static_cast<double>(*call.inputs[2].data_ptr<T>()));
  return outputs;
}

template <typename T>
Tensors backward(const KernelCall& call) {
  const at::Tensor& logits = call.inputs[1];
  const Labels labels = labels_of(call, 1);
  const at::Tensor grad = output_of(call, 0);
  const T factor = *call.inputs[0].data_ptr<T>() * *call.inputs[3].data_ptr<T>();
  const T* const x = logits.data_ptr<T>();
  const T* const lse = call.inputs[4].data_ptr<T>();
  T* const out = grad.data_ptr<T>();
  at::parallel_for(0, call.inputs[2].numel(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* const row = out + i * labels.classes;
      const std::int64_t label = labels.at(i);
      if (label < 0) {
        std::fill(row, row + labels.classes, T{0});
        continue;
      }
      softmax_row(row, x + i * labels.classes, labels.classes, lse[i], factor);
      row[label] -= factor;
    }
  });
  return {grad};
}

}  // namespace

Tensors cross_entropy_kernel(const KernelCall& call) {
  return cpu_dtype(call, "cross_entropy", 0) == DType::f32 ? forward<float>(call)
                                                           : forward<double>(call);
}

Tensors cross_entropy_backward_kernel(const KernelCall& call) {
  return cpu_dtype(call, "cross_entropy_backward", 1) == DType::f32 ? backward<float>(call)
                                                                    : backward<double>(call);
}

}  // namespace weft::ops
