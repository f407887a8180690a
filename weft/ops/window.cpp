#include "weft/ops/window.h"

#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

// The attribute, or `missing` for each entry if there is none.
Ints ints_or(const Attrs& attrs, std::string_view name, std::size_t count, std::int64_t missing) {
  return has_attr(attrs, name) ? attr_ints(attrs, name) : Ints(count, missing);
}

std::string join(const char* const* letters, int dims) {
  std::string text;
  for (int i = 0; i < dims; ++i) {
    text += std::string(i == 0 ? "" : " ") + letters[i];
  }
  return text;
}

template <typename Size>
std::int64_t product(const Windows& windows, const Size& size) {
  std::int64_t all = 1;
  for (const Window& window : windows) {
    all *= size(window);
  }
  return all;
}

}  // namespace

void require_image(const OpCall& call, std::string_view op, int i) {
  const TensorType& x = call.inputs.at(static_cast<std::size_t>(i));
  require_floating(call, op, i);
  bool fits = x.rank() >= 3 && x.rank() <= 5;
  for (int d = 1; fits && d < x.rank(); ++d) {
    fits = !x.shape[static_cast<std::size_t>(d)].batched;
  }
  require(fits, "{}: input {} is {}; it must be [batch, one to three spatial dims, channels]", op,
          i, format_type(x));
}

int spatial_dims(const TensorType& image) {
  return image.rank() - 2;
}

Ints spatial_sizes(const TensorType& image) {
  Ints sizes;
  for (int d = 1; d + 1 < image.rank(); ++d) {
    sizes.push_back(image.size(d));
  }
  return sizes;
}

Windows read_windows(const Attrs& attrs, std::string_view op, const Ints& sizes,
                     const Ints& kernel) {
  const std::size_t dims = sizes.size();
  const Ints stride = ints_or(attrs, "stride", dims, 1);
  const Ints dilation = ints_or(attrs, "dilation", dims, 1);
  const Ints padding = ints_or(attrs, "padding", 2 * dims, 0);
  require(kernel.size() == dims && stride.size() == dims && dilation.size() == dims &&
              padding.size() == 2 * dims,
          "{}: {} spatial dims need as many entries of kernel, stride and dilation, and two of "
          "padding (before, after) for each; given are {}, {}, {} and {}",
          op, dims, kernel.size(), stride.size(), dilation.size(), padding.size());
  Windows windows;
  for (std::size_t d = 0; d < dims; ++d) {
    const Window window{.in = sizes[d],
                        .out = 1,
                        .kernel = kernel[d],
                        .stride = stride[d],
                        .before = padding[2 * d],
                        .after = padding[2 * d + 1],
                        .dilation = dilation[d]};
    constexpr std::int64_t kMost = std::int64_t{1} << 30U;  // so that no product overflows
    for (const std::int64_t n : {window.kernel, window.stride, window.dilation}) {
      require(n >= 1 && n <= kMost, "{}: kernel, stride and dilation must be at least 1", op);
    }
    require(
        window.before >= 0 && window.after >= 0 && window.before <= kMost && window.after <= kMost,
        "{}: padding must not be negative", op);
    windows[3 - dims + d] = window;
  }
  return windows;
}

std::int64_t window_outputs(const Window& window, std::string_view op, bool ceil) {
  const std::int64_t span = window.dilation * (window.kernel - 1) + 1;
  const std::int64_t room = window.in + window.before + window.after - span;
  require(room >= 0, "{}: a window of {} does not fit into {} with padding {} and {}", op, span,
          window.in, window.before, window.after);
  std::int64_t outputs = room / window.stride + 1;
  if (ceil && room % window.stride != 0 && outputs * window.stride < window.in + window.before) {
    ++outputs;
  }
  return outputs;
}

std::int64_t window_inputs(const Window& window, std::string_view op, std::int64_t outputs,
                           std::int64_t extra) {
  require(extra >= 0 && extra < window.stride,
          "{}: output_padding {} must be at least 0 and below the stride {}", op, extra,
          window.stride);
  std::int64_t inputs = 0;
  require(!__builtin_mul_overflow(outputs - 1, window.stride, &inputs) &&
              !__builtin_add_overflow(inputs, window.dilation * (window.kernel - 1), &inputs) &&
              !__builtin_add_overflow(inputs, 1 + extra - window.before - window.after, &inputs),
          "{}: {} outputs with stride {} are too many", op, outputs, window.stride);
  require(inputs >= 1, "{}: padding {} and {} leaves nothing", op, window.before, window.after);
  return inputs;
}

TensorType image_type(const TensorType& like, const Ints& sizes, Dim channels) {
  TensorType type{{like.shape.front()}, like.dtype};
  for (const std::int64_t size : sizes) {
    type.shape.emplace_back(size);
  }
  type.shape.push_back(channels);
  return type;
}

SpatialLetters spatial_letters(int dims) {
  static constexpr const char* kIn[] = {"h", "w", "d"};
  static constexpr const char* kOut[] = {"i", "j", "k"};
  static constexpr const char* kKernel[] = {"p", "q", "r"};
  return {.in = join(kIn, dims), .out = join(kOut, dims), .kernel = join(kKernel, dims)};
}

std::int64_t window_taps(const Windows& windows) {
  return product(windows, [](const Window& w) { return w.kernel; });
}

std::int64_t window_pixels_in(const Windows& windows) {
  return product(windows, [](const Window& w) { return w.in; });
}

std::int64_t window_pixels_out(const Windows& windows) {
  return product(windows, [](const Window& w) { return w.out; });
}

}  // namespace weft::ops
