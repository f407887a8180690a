// Every kernel passes over its tensors once; numbers of channels are small and stay in the cache.

#include "weft/ops/batch_norm.h"

#include "weft/ops/channels.aten.h"

namespace weft::ops {
namespace {

std::int64_t rows_of(const at::Tensor& x) {
  return x.numel() / std::max<std::int64_t>(x.size(-1), 1);
}

// Two sums of each channel, which add(begin, end, sums, sums + c) adds up over runs of rows.
template <typename Add>
std::vector<double> chunked_sums(const at::Tensor& x, const Add& add) {
  const std::int64_t rows = rows_of(x);
  const std::int64_t channels = x.size(-1);
  const std::int64_t chunks = batch_norm_chunks(rows);
  const at::Tensor parts = scratch<double>(chunks * 2 * channels);
  double* const part = parts.data_ptr<double>();
  std::fill(part, part + parts.numel(), 0.0);
  at::parallel_for(0, chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double* const sums = part + c * 2 * channels;
      add(c * rows / chunks, (c + 1) * rows / chunks, sums, sums + channels);
    }
  });
  std::vector<double> total(static_cast<std::size_t>(2 * channels), 0.0);
  for (std::int64_t i = 0; i < parts.numel(); ++i) {
    total[static_cast<std::size_t>(i % (2 * channels))] += part[i];
  }
  return total;
}

void write(const at::Tensor& to, const double* from) {
  if (to.scalar_type() == at::kDouble) {
    convert(to.data_ptr<double>(), from, to.numel());
  } else if (to.scalar_type() == at::kFloat) {
    convert(to.data_ptr<float>(), from, to.numel());
  } else {
    convert(to.data_ptr<at::BFloat16>(), from, to.numel());
  }
}

template <typename T>
Tensors sums(const KernelCall& call) {
  const at::Tensor& x = call.inputs[0];
  const std::int64_t c = x.size(-1);
  const T* const from = x.data_ptr<T>();
  const Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const std::vector<double> total =
      chunked_sums(x, [&](std::int64_t begin, std::int64_t end, double* sum, double* squares) {
        add_moments(from + begin * c, end - begin, c, sum, squares);
      });
  write(outputs[0], total.data());
  write(outputs[1], total.data() + c);
  std::fill_n(outputs[2].data_ptr<double>(), c, static_cast<double>(rows_of(x)));
  return outputs;
}

template <typename T>
Tensors gradient_sums(const KernelCall& call) {
  const at::Tensor& x = call.inputs[1];
  const std::int64_t c = x.size(-1);
  const Tensors outputs = {output_of(call, 0), output_of(call, 1)};
  const auto* const mean = call.inputs[2].data_ptr<Wide<T>>();
  const auto* const rstd = call.inputs[3].data_ptr<Wide<T>>();
  const T* const dy = call.inputs[0].data_ptr<T>();
  const T* const from = x.data_ptr<T>();
  const std::vector<double> total = chunked_sums(x, [&](std::int64_t begin, std::int64_t end,
                                                        double* sum, double* product) {
    add_gradient_sums(dy + begin * c, from + begin * c, end - begin, c, mean, rstd, sum, product);
  });
  write(outputs[0], total.data());
  write(outputs[1], total.data() + c);
  return outputs;
}

// y = (x - mean) rstd w + b
template <typename T>
at::Tensor normalise(const KernelCall& call, const Affine<Wide<T>>& numbers) {
  const at::Tensor& x = call.inputs[0];
  const std::int64_t c = x.size(-1);
  const at::Tensor y = output_of(call, 0);
  const T* const from = x.data_ptr<T>();
  T* const to = y.data_ptr<T>();
  at::parallel_for(0, rows_of(x), grain(c), [&](std::int64_t begin, std::int64_t end) {
    apply(numbers, from + begin * c, end - begin, to + begin * c);
  });
  return y;
}

template <typename T>
at::Tensor input_gradient(const KernelCall& call, const InputGradient<Wide<T>>& numbers) {
  const at::Tensor& x = call.inputs[1];
  const std::int64_t c = x.size(-1);
  const at::Tensor dx = output_of(call, 0);
  const T* const dy = call.inputs[0].data_ptr<T>();
  const T* const from = x.data_ptr<T>();
  T* const to = dx.data_ptr<T>();
  at::parallel_for(0, rows_of(x), grain(c), [&](std::int64_t begin, std::int64_t end) {
    apply(numbers, dy + begin * c, from + begin * c, end - begin, to + begin * c);
  });
  return dx;
}

template <typename T>
Tensors forward(const KernelCall& call) {
  using W = Wide<T>;
  Affine<W> numbers{.centre = channel_numbers<W>(call.inputs[1]),
                    .scale = channel_numbers<W>(call.inputs[4]),
                    .shift = channel_numbers<W>(call.inputs[5])};
  const W* const rstd = call.inputs[2].data_ptr<W>();
  for (std::size_t c = 0; c < numbers.scale.size(); ++c) {
    numbers.scale[c] *= rstd[c];
  }
  return {normalise<T>(call, numbers)};
}

template <typename T>
Tensors input_grad(const KernelCall& call) {
  using W = Wide<T>;
  InputGradient<W> numbers{.centre = channel_numbers<W>(call.inputs[2]),
                           .scale = channel_numbers<W>(call.inputs[4]),
                           .constant = channel_numbers<W>(call.inputs[5]),
                           .slope = channel_numbers<W>(call.inputs[6])};
  const W* const rstd = call.inputs[3].data_ptr<W>();
  const double* const count = call.inputs[7].data_ptr<double>();
  for (std::size_t c = 0; c < numbers.scale.size(); ++c) {
    const W n = static_cast<W>(count[c]);
    numbers.scale[c] *= rstd[c];
    numbers.constant[c] *= numbers.scale[c] / n;
    numbers.slope[c] *= numbers.scale[c] * rstd[c] / n;
  }
  return {input_gradient<T>(call, numbers)};
}

// 1 / sqrt(variance + eps)
template <typename W>
std::vector<W> rstd_of(const KernelCall& call, std::size_t input) {
  std::vector<W> rstd = channel_numbers<W>(call.inputs[input]);
  const W eps = static_cast<W>(attr_number(call.call.attrs, "eps"));
  for (W& value : rstd) {
    value = 1 / std::sqrt(value + eps);
  }
  return rstd;
}

template <typename T>
Tensors inference(const KernelCall& call) {
  using W = Wide<T>;
  Affine<W> numbers{.centre = channel_numbers<W>(call.inputs[1]),
                    .scale = channel_numbers<W>(call.inputs[3]),
                    .shift = channel_numbers<W>(call.inputs[4])};
  const std::vector<W> rstd = rstd_of<W>(call, 2);
  for (std::size_t c = 0; c < rstd.size(); ++c) {
    numbers.scale[c] *= rstd[c];
  }
  return {normalise<T>(call, numbers)};
}

template <typename T>
Tensors inference_backward(const KernelCall& call) {
  using W = Wide<T>;
  const std::int64_t c = call.inputs[1].size(-1);
  const std::vector<W> mean = channel_numbers<W>(call.inputs[2]);
  const std::vector<W> rstd = rstd_of<W>(call, 3);
  InputGradient<W> numbers{.centre = mean,
                           .scale = channel_numbers<W>(call.inputs[4]),
                           .constant = std::vector<W>(mean.size(), W{0}),
                           .slope = std::vector<W>(mean.size(), W{0})};
  for (std::size_t i = 0; i < rstd.size(); ++i) {
    numbers.scale[i] *= rstd[i];
  }
  const Tensors outputs = {input_gradient<T>(call, numbers), output_of(call, 1),
                           output_of(call, 2)};
  const T* const dy = call.inputs[0].data_ptr<T>();
  const T* const x = call.inputs[1].data_ptr<T>();
  const std::vector<double> total = chunked_sums(
      call.inputs[1], [&](std::int64_t begin, std::int64_t end, double* sum, double* product) {
        add_gradient_sums(dy + begin * c, x + begin * c, end - begin, c, mean.data(), rstd.data(),
                          sum, product);
      });
  write(outputs[1], total.data() + c);
  write(outputs[2], total.data());
  return outputs;
}

}  // namespace

Tensors batch_norm_sums_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm_sums", 0, [&](auto t) { return sums<decltype(t)>(call); });
}

Tensors batch_norm_moments_kernel(const KernelCall& call) {
  const Tensors outputs = {output_of(call, 0), output_of(call, 1), output_of(call, 2)};
  const double eps = attr_number(call.call.attrs, "eps");
  const double* const sum = call.inputs[0].data_ptr<double>();
  const double* const squares = call.inputs[1].data_ptr<double>();
  const double* const count = call.inputs[2].data_ptr<double>();
  const auto channels = static_cast<std::size_t>(call.inputs[0].numel());
  std::vector<double> numbers(3 * channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count[c];
    const double variance = std::max(0.0, squares[c] / count[c] - mean * mean);
    numbers[c] = mean;
    numbers[channels + c] = 1 / std::sqrt(variance + eps);
    numbers[2 * channels + c] = variance * count[c] / std::max(1.0, count[c] - 1);
  }
  for (std::size_t i = 0; i < 3; ++i) {
    write(outputs[i], numbers.data() + i * channels);
  }
  return outputs;
}

Tensors batch_norm_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm", 0, [&](auto t) { return forward<decltype(t)>(call); });
}

Tensors batch_norm_grad_sums_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm_grad_sums", 0,
                      [&](auto t) { return gradient_sums<decltype(t)>(call); });
}

Tensors batch_norm_input_grad_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm_input_grad", 0,
                      [&](auto t) { return input_grad<decltype(t)>(call); });
}

Tensors batch_norm_inference_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm_inference", 0,
                      [&](auto t) { return inference<decltype(t)>(call); });
}

Tensors batch_norm_inference_backward_kernel(const KernelCall& call) {
  return with_element(call, "batch_norm_inference_backward", 0,
                      [&](auto t) { return inference_backward<decltype(t)>(call); });
}

}  // namespace weft::ops
