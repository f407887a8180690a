// One pass over the logits for lse and loss, one for the gradient. The losses of the rows are
// summed in order and in f64, so the loss is the same for any number of threads.

#include "weft/kernels/torch_headers.h"

#include "weft/ops/dtypes.aten.h"

namespace weft::ops {
namespace {

template <typename T>
Wide<T> max_of(const T* x, std::int64_t n) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    constexpr W kLowest = -std::numeric_limits<W>::infinity();
    Pack<W> tops = Pack<W>{} + kLowest;
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count, kLowest);
      tops = y > tops ? y : tops;
    });
    return max_lanes<W>(tops);
  });
}

template <typename T>
Wide<T> sum_exp(const T* x, std::int64_t n, Wide<T> top) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count, -std::numeric_limits<W>::infinity());
      y -= top;
      exp_pack(y);
      sums += y;
    });
    return sum_lanes<W>(sums);
  });
}

template <typename T>
Wide<T> sum_of(const T* x, std::int64_t n) {
  using W = Wide<T>;
  return run_simd([=]() WEFT_INLINE {
    Pack<W> sums = {};
    for_packs<T>(n, [&](std::int64_t j, int count) WEFT_INLINE {
      Pack<W> y;
      load(y, x + j, count);
      sums += y;
    });
    return sum_lanes<W>(sums);
  });
}

// Sums of a few hundred classes, then the sum of these in f64: f32 would lose digits over many
// classes.
template <typename Sum>
double sum_of_runs(std::int64_t n, const Sum& sum) {
  constexpr std::int64_t kRun = 512;
  double total = 0;
  for (std::int64_t j = 0; j < n; j += kRun) {
    total += static_cast<double>(sum(j, std::min(kRun, n - j)));
  }
  return total;
}

template <typename T>
Wide<T> log_sum_exp(const T* x, std::int64_t n) {
  const Wide<T> top = max_of(x, n);
  const double sum = sum_of_runs(
      n, [=](std::int64_t j, std::int64_t count) { return sum_exp(x + j, count, top); });
  return static_cast<Wide<T>>(static_cast<double>(top) + std::log(sum));
}

template <typename T>
double mean_of(const T* x, std::int64_t n) {
  return sum_of_runs(n, [=](std::int64_t j, std::int64_t count) { return sum_of(x + j, count); }) /
         static_cast<double>(n);
}

// to = factor · (exp(x - lse) - less); they may be the same.
template <typename T>
struct SoftmaxRow {
  const T* x = nullptr;
  T* to = nullptr;
  std::int64_t n = 0;
  Wide<T> lse = 0;
  Wide<T> factor = 1;
  Wide<T> less = 0;

  void run() const {
    run_simd([row = *this]() WEFT_INLINE {
      for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<Wide<T>> y;
        load(y, row.x + j, count);
        y -= row.lse;
        exp_pack(y);
        y = (y - row.less) * row.factor;
        store(row.to + j, y, count);
      });
    });
  }
};

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

double smoothing_of(const KernelCall& call) {
  const Attrs& attrs = call.call.attrs;
  return has_attr(attrs, "smoothing") ? attr_number(attrs, "smoothing") : 0.0;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& logits = call.inputs[0];
  const Labels labels = labels_of(call, 0);
  const double smoothing = smoothing_of(call);
  const std::int64_t rows = call.inputs[1].numel();
  Tensors outputs = {at::empty({}, options_of<W>()),
                     at::empty(call.inputs[1].sizes(), options_of<W>())};
  const at::Tensor losses = at::empty({rows}, at::kDouble);
  const T* const x = data_of<T>(logits);
  W* const lse = data_of<W>(outputs[1]);
  double* const loss = data_of<double>(losses);
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const row = x + i * labels.classes;
      const std::int64_t label = labels.at(i);
      lse[i] = log_sum_exp(row, labels.classes);
      if (label < 0) {
        loss[i] = 0;
        continue;
      }
      loss[i] = static_cast<double>(lse[i]) -
                (1 - smoothing) * static_cast<double>(widen(row[label])) -
                (smoothing > 0 ? smoothing * mean_of(row, labels.classes) : 0.0);
    }
  });
  double sum = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    sum += loss[i];
  }
  *data_of<W>(outputs[0]) = static_cast<W>(sum * static_cast<double>(*data_of<W>(call.inputs[2])));
  return outputs;
}

// The logit of the label is read before its row is written: dlogits may lie where logits do.
template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& logits = call.inputs[1];
  const Labels labels = labels_of(call, 1);
  const W smoothing = static_cast<W>(smoothing_of(call));
  const at::Tensor grad = output_of(call, 0);
  const W factor = *data_of<W>(call.inputs[0]) * *data_of<W>(call.inputs[3]);
  const T* const x = data_of<T>(logits);
  const W* const lse = data_of<W>(call.inputs[4]);
  T* const out = data_of<T>(grad);
  at::parallel_for(0, call.inputs[2].numel(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const SoftmaxRow<T> row{.x = x + i * labels.classes,
                              .to = out + i * labels.classes,
                              .n = labels.classes,
                              .lse = lse[i],
                              .factor = factor,
                              .less = smoothing / static_cast<W>(labels.classes)};
      const std::int64_t label = labels.at(i);
      if (label < 0) {
        std::fill(row.to, row.to + row.n, T{});
        continue;
      }
      const W probability = std::exp(widen(row.x[label]) - row.lse);
      row.run();
      row.to[label] = narrow<T>(factor * (probability - row.less - (1 - smoothing)));
    }
  });
  return {grad};
}

}  // namespace

Tensors cross_entropy_kernel(const KernelCall& call) {
  return for_floating(call, "cross_entropy", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors cross_entropy_backward_kernel(const KernelCall& call) {
  return for_floating(call, "cross_entropy_backward", 1,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
