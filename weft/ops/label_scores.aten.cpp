// One pass over the logits for lse and score, one for the gradient.

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
double sum_of_row(const T* x, std::int64_t n) {
  return sum_of_runs(n, [=](std::int64_t j, std::int64_t count) { return sum_of(x + j, count); });
}

// to = factor · exp(x - lse) + more; they may be the same.
template <typename T>
struct SoftmaxRow {
  const T* x = nullptr;
  T* to = nullptr;
  std::int64_t n = 0;
  Wide<T> lse = 0;
  Wide<T> factor = 1;
  Wide<T> more = 0;

  void run() const {
    run_simd([row = *this]() WEFT_INLINE {
      for_packs<T>(row.n, [&](std::int64_t j, int count) WEFT_INLINE {
        Pack<Wide<T>> y;
        load(y, row.x + j, count);
        y -= row.lse;
        exp_pack(y);
        y = y * row.factor + row.more;
        store(row.to + j, y, count);
      });
    });
  }
};

// The labels of a call, checked as they are read. The tensors have `here` of all classes.
struct Labels {
  const std::int64_t* data = nullptr;
  Range here = {};
  std::int64_t classes = 0;
  std::int64_t ignore = -100;
  double smoothing = 0;

  [[nodiscard]] bool counts(std::int64_t row) const {
    const std::int64_t label = data[row];
    require(
        label == ignore || (label >= 0 && label < classes),
        "label_scores: label {} of row {} is neither one of {} classes nor {}, which is ignored",
        label, row, classes, ignore);
    return label != ignore;
  }
  // Where the label is in the row, -1 if it is not there.
  [[nodiscard]] std::int64_t at(std::int64_t row) const {
    const std::int64_t label = data[row];
    return label != ignore && label >= here.begin && label < here.end ? label - here.begin : -1;
  }
};

Labels labels_of(const KernelCall& call, std::size_t logits) {
  const Attrs& attrs = call.call.attrs;
  Labels labels{.data = data_of<std::int64_t>(call.inputs[logits + 1]),
                .here = {0, call.inputs[logits].size(-1)},
                .classes = call.inputs[logits].size(-1),
                .ignore = attr_int(attrs, "ignore"),
                .smoothing = has_attr(attrs, "smoothing") ? attr_number(attrs, "smoothing") : 0.0};
  if (!call.env.inputs.empty()) {
    labels.here = call.env.inputs[logits].back();
    labels.classes = call.env.whole_inputs[logits].back().size;
  }
  return labels;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const Labels labels = labels_of(call, 0);
  const std::int64_t width = labels.here.size();
  Tensors outputs = {output_of(call, 0), output_of(call, 1)};
  const T* const x = data_of<T>(call.inputs[0]);
  W* const lse = data_of<W>(outputs[0]);
  W* const score = data_of<W>(outputs[1]);
  const double share = labels.smoothing / static_cast<double>(labels.classes);
  at::parallel_for(0, call.inputs[1].numel(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const T* const row = x + i * width;
      lse[i] = log_sum_exp(row, width);
      score[i] = 0;
      if (!labels.counts(i)) {
        continue;
      }
      const std::int64_t label = labels.at(i);
      const double own = label < 0 ? 0.0 : static_cast<double>(widen(row[label]));
      score[i] = static_cast<W>((1 - labels.smoothing) * own +
                                (share > 0 ? share * sum_of_row(row, width) : 0.0));
    }
  });
  return outputs;
}

// The logit of the label is read before its row is written: dlogits may lie where logits do.
template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const Labels labels = labels_of(call, 2);
  const std::int64_t width = labels.here.size();
  const at::Tensor grad = output_of(call, 0);
  const W* const dlse = data_of<W>(call.inputs[0]);
  const W* const dscore = data_of<W>(call.inputs[1]);
  const T* const x = data_of<T>(call.inputs[2]);
  const W* const lse = data_of<W>(call.inputs[4]);
  T* const out = data_of<T>(grad);
  at::parallel_for(0, call.inputs[3].numel(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const bool counts = labels.counts(i);
      const W factor = counts ? dscore[i] : W{0};
      const SoftmaxRow<T> row{
          .x = x + i * width,
          .to = out + i * width,
          .n = width,
          .lse = lse[i],
          .factor = dlse[i],
          .more = factor * static_cast<W>(labels.smoothing / static_cast<double>(labels.classes))};
      if (row.factor == 0 && factor == 0) {
        std::fill(row.to, row.to + row.n, T{});
        continue;
      }
      const std::int64_t label = labels.at(i);
      const W own = label < 0 ? W{0} : std::exp(widen(row.x[label]) - row.lse) * row.factor;
      row.run();
      if (label >= 0) {
        row.to[label] = narrow<T>(own + row.more + factor * static_cast<W>(1 - labels.smoothing));
      }
    }
  });
  return {grad};
}

}  // namespace

Tensors label_scores_kernel(const KernelCall& call) {
  return for_floating(call, "label_scores", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors label_scores_backward_kernel(const KernelCall& call) {
  return for_floating(call, "label_scores_backward", 2,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
