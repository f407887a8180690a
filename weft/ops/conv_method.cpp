#include <algorithm>

#include "weft/ops/conv.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

// Rows of a block: enough that the product does not spend its time on reading the weights, and few
// enough that the block stays in the cache.
constexpr std::int64_t kBlockElements = 256 * 1024;
constexpr std::int64_t kLeastRows = 256;

bool is_pointwise(const Windows& windows) {
  return std::all_of(windows.begin(), windows.end(), [](const Window& w) {
    return w.kernel == 1 && w.stride == 1 && w.before == 0 && w.after == 0;
  });
}

std::int64_t column_bytes(const ConvSizes& sizes, const ConvMethod& method) {
  return method.pointwise ? 0
                          : method.block_rows * sizes.depth() * sizes.groups * method.element_bytes;
}

std::int64_t weight_bytes(const ConvSizes& sizes, const ConvMethod& method) {
  return method.copies_weights ? sizes.filters * sizes.depth() * method.element_bytes : 0;
}

// A block of y or dy in the wider dtype.
std::int64_t output_bytes(const ConvSizes& sizes, const ConvMethod& method) {
  return method.narrow ? method.block_rows * sizes.filters * method.element_bytes : 0;
}

}  // namespace

ConvSizes conv_sizes(const TensorType& x, const TensorType& w, const TensorType& y,
                     const Attrs& attrs, std::string_view op) {
  Ints kernel;
  for (int d = 2; d < w.rank(); ++d) {
    kernel.push_back(w.size(d));
  }
  ConvSizes sizes{.batch = x.size(0),
                  .channels = x.size(-1),
                  .filters = y.size(-1),
                  .groups = x.size(-1) / std::max<std::int64_t>(w.size(1), 1),
                  .windows = read_windows(attrs, op, spatial_sizes(x), kernel)};
  const Ints out = spatial_sizes(y);
  for (std::size_t d = 0; d < out.size(); ++d) {
    sizes.windows[3 - out.size() + d].out = out[d];
  }
  return sizes;
}

ConvMethod conv_method(const ConvSizes& sizes, DType dtype) {
  ConvMethod method;
  method.narrow = dtype != DType::f32 && dtype != DType::f64;
  method.element_bytes = element_bytes(sum_dtype(dtype));
  method.depthwise = sizes.groups > 1 && sizes.channels == sizes.groups &&
                     sizes.filters == sizes.groups && !method.narrow;
  method.pointwise = !method.narrow && is_pointwise(sizes.windows);
  method.weights_order = sizes.taps() == 1 || sizes.rows() * sizes.groups < sizes.filters;
  method.copies_weights = method.narrow || !method.weights_order;
  const std::int64_t row = std::max<std::int64_t>(sizes.depth() * sizes.groups, 1);
  method.block_rows = std::min(sizes.rows(), std::max(kLeastRows, kBlockElements / row));
  return method;
}

std::int64_t conv_forward_bytes(const ConvSizes& sizes, DType dtype) {
  const ConvMethod method = conv_method(sizes, dtype);
  const std::int64_t weights = weight_bytes(sizes, method);
  return method.depthwise ? weights
                          : column_bytes(sizes, method) + weights + output_bytes(sizes, method);
}

std::int64_t conv_input_grad_bytes(const ConvSizes& sizes, DType dtype) {
  const ConvMethod method = conv_method(sizes, dtype);
  const std::int64_t wide =
      sizes.batch * window_pixels_in(sizes.windows) * sizes.channels * method.element_bytes;
  return conv_forward_bytes(sizes, dtype) + (method.narrow ? wide : 0);
}

std::int64_t conv_weight_grad_bytes(const ConvSizes& sizes, DType dtype) {
  return conv_forward_bytes(sizes, dtype);
}

Cost conv_cost(const OpCall& call, const ConvSizes& sizes) {
  Cost cost = streaming_cost(call, 0);
  cost.flops = 2.0 * static_cast<double>(sizes.rows()) * static_cast<double>(sizes.filters) *
               static_cast<double>(sizes.depth());
  return cost;
}

}  // namespace weft::ops
