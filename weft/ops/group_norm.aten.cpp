// A sample is one task: sums of each channel over its pixels, from them those of the groups, then
// numbers for each channel, which are applied in a second pass while the sample is in the cache.

#include "weft/ops/channels.aten.h"

namespace weft::ops {
namespace {

struct Extent {
  std::int64_t samples = 0;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
  std::int64_t groups = 0;

  [[nodiscard]] std::int64_t per_group() const { return channels / groups; }
  [[nodiscard]] std::int64_t elements() const { return pixels * channels; }
  [[nodiscard]] double group_elements() const { return static_cast<double>(pixels * per_group()); }
};

Extent extent_of(const at::Tensor& x, std::int64_t groups) {
  const std::int64_t outer = std::max<std::int64_t>(x.size(0) * x.size(-1), 1);
  return {
      .samples = x.size(0), .pixels = x.numel() / outer, .channels = x.size(-1), .groups = groups};
}

template <typename W>
struct GroupMoments {
  W mean = 0;
  W rstd = 0;
};

// From the sums of x and x² of the group's channels.
template <typename W>
GroupMoments<W> moments(const Extent& e, std::int64_t group, const std::vector<double>& sums,
                        double eps) {
  double sum = 0;
  double squares = 0;
  for (std::int64_t c = group * e.per_group(); c < (group + 1) * e.per_group(); ++c) {
    sum += sums[static_cast<std::size_t>(c)];
    squares += sums[static_cast<std::size_t>(e.channels + c)];
  }
  const double mean = sum / e.group_elements();
  const double variance = std::max(0.0, squares / e.group_elements() - mean * mean);
  return {.mean = static_cast<W>(mean), .rstd = static_cast<W>(1 / std::sqrt(variance + eps))};
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[0];
  const Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const Extent e = extent_of(x, outputs[1].size(1));
  const std::vector<W> w = channel_numbers<W>(call.inputs[1]);
  const std::vector<W> b = channel_numbers<W>(call.inputs[2]);
  const double eps = attr_number(call.call.attrs, "eps");
  at::parallel_for(0, e.samples, grain(e.elements()), [&](std::int64_t begin, std::int64_t end) {
    Affine<W> numbers{.centre = w, .scale = w, .shift = b};
    for (std::int64_t s = begin; s < end; ++s) {
      const T* const from = x.data_ptr<T>() + s * e.elements();
      std::vector<double> sums(static_cast<std::size_t>(2 * e.channels), 0.0);
      add_moments(from, e.pixels, e.channels, sums.data(), sums.data() + e.channels);
      for (std::int64_t g = 0; g < e.groups; ++g) {
        const GroupMoments<W> m = moments<W>(e, g, sums, eps);
        outputs[1].data_ptr<W>()[s * e.groups + g] = m.mean;
        outputs[2].data_ptr<W>()[s * e.groups + g] = m.rstd;
        for (std::int64_t i = g * e.per_group(); i < (g + 1) * e.per_group(); ++i) {
          const auto c = static_cast<std::size_t>(i);
          numbers.centre[c] = m.mean;
          numbers.scale[c] = m.rstd * w[c];
        }
      }
      apply(numbers, from, e.pixels, outputs[0].data_ptr<T>() + s * e.elements());
    }
  });
  return outputs;
}

// The numbers of dx from the sums of dy and dy n of each channel.
template <typename W>
InputGradient<W> gradient_numbers(const Extent& e, const W* mean, const W* rstd, const double* sums,
                                  const std::vector<W>& w) {
  InputGradient<W> numbers{.centre = w, .scale = w, .constant = w, .slope = w};
  for (std::int64_t g = 0; g < e.groups; ++g) {
    double sum_g = 0;
    double sum_gn = 0;
    for (std::int64_t c = g * e.per_group(); c < (g + 1) * e.per_group(); ++c) {
      sum_g += sums[c] * static_cast<double>(w[static_cast<std::size_t>(c)]);
      sum_gn += sums[e.channels + c] * static_cast<double>(w[static_cast<std::size_t>(c)]);
    }
    for (std::int64_t i = g * e.per_group(); i < (g + 1) * e.per_group(); ++i) {
      const auto c = static_cast<std::size_t>(i);
      numbers.centre[c] = mean[g];
      numbers.scale[c] = rstd[g] * w[c];
      numbers.constant[c] = rstd[g] * static_cast<W>(sum_g / e.group_elements());
      numbers.slope[c] = rstd[g] * rstd[g] * static_cast<W>(sum_gn / e.group_elements());
    }
  }
  return numbers;
}

// to[c] = the sum over samples of parts[sample, which, c]
void sum_samples(const Extent& e, const double* parts, std::int64_t which, const at::Tensor& to) {
  std::vector<double> sum(static_cast<std::size_t>(e.channels), 0.0);
  for (std::int64_t s = 0; s < e.samples; ++s) {
    for (std::int64_t c = 0; c < e.channels; ++c) {
      sum[static_cast<std::size_t>(c)] += parts[(2 * s + which) * e.channels + c];
    }
  }
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, to.scalar_type(), "group_norm",
                                 [&] { convert(to.data_ptr<scalar_t>(), sum.data(), e.channels); });
}

template <typename T>
Tensors backward(const KernelCall& call) {
  using W = Wide<T>;
  const at::Tensor& x = call.inputs[1];
  const Extent e = extent_of(x, call.inputs[2].size(1));
  const Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const at::Tensor parts = scratch<double>(e.samples * 2 * e.channels);
  const std::vector<W> w = channel_numbers<W>(call.inputs[4]);
  at::parallel_for(0, e.samples, grain(e.elements()), [&](std::int64_t begin, std::int64_t end) {
    std::vector<W> rstd(w.size());
    std::vector<W> mean(w.size());
    for (std::int64_t s = begin; s < end; ++s) {
      const W* const means = call.inputs[2].data_ptr<W>() + s * e.groups;
      const W* const rstds = call.inputs[3].data_ptr<W>() + s * e.groups;
      for (std::int64_t c = 0; c < e.channels; ++c) {
        mean[static_cast<std::size_t>(c)] = means[c / e.per_group()];
        rstd[static_cast<std::size_t>(c)] = rstds[c / e.per_group()];
      }
      const T* const dy = call.inputs[0].data_ptr<T>() + s * e.elements();
      const T* const from = x.data_ptr<T>() + s * e.elements();
      double* const sums = parts.data_ptr<double>() + s * 2 * e.channels;
      std::fill_n(sums, 2 * e.channels, 0.0);
      add_gradient_sums(dy, from, e.pixels, e.channels, mean.data(), rstd.data(), sums,
                        sums + e.channels);
      apply(gradient_numbers(e, means, rstds, sums, w), dy, from, e.pixels,
            outputs[0].data_ptr<T>() + s * e.elements());
    }
  });
  sum_samples(e, parts.data_ptr<double>(), 1, outputs[1]);
  sum_samples(e, parts.data_ptr<double>(), 0, outputs[2]);
  return outputs;
}

}  // namespace

Tensors group_norm_kernel(const KernelCall& call) {
  return with_element(call, "group_norm", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors group_norm_backward_kernel(const KernelCall& call) {
  return with_element(call, "group_norm_backward", 0,
                      [&](auto t) { return backward<decltype(t)>(call); });
}

}  // namespace weft::ops
