// Convolutions and pools. ONNX has channels first, we have them last; weights are the same.
#include <algorithm>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

namespace {

constexpr std::int64_t kMostWindow = 1 << 18;              // so that no product
constexpr std::int64_t kMostSize = std::int64_t{1} << 44;  // of these two overflows

/// What slides over the spatial dims, an entry each; `padding` has two: before and after.
struct Sliding {
  Ints sizes;
  Ints kernel;
  Ints stride;
  Ints dilation;
  Ints padding;
};

Ints or_ones(const Ints& given, std::size_t dims) {
  return given.empty() ? Ints(dims, 1) : given;
}

// SAME: as many outputs as ceil(inputs / stride); what is missing is padded half before, half
// after.
void pad_same(Sliding& s, bool upper) {
  for (std::size_t d = 0; d < s.sizes.size(); ++d) {
    const std::int64_t outputs = (s.sizes[d] + s.stride[d] - 1) / s.stride[d];
    const std::int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    const std::int64_t missing =
        std::max<std::int64_t>(0, (outputs - 1) * s.stride[d] + reach - s.sizes[d]);
    s.padding[2 * d] = upper ? missing / 2 : missing - missing / 2;
    s.padding[2 * d + 1] = missing - s.padding[2 * d];
  }
}

Sliding sliding_of(const Call& call, Ints kernel) {
  const auto dims = static_cast<std::size_t>(call.rank(0) - 2);
  call.need(call.rank(0) >= 3 && call.rank(0) <= 5, "other than one to three spatial dims");
  Sliding s;
  for (std::size_t d = 0; d < dims; ++d) {
    const Dim size = call.shape(0)[d + 2];
    call.need(!size.batched, "of the batch");
    s.sizes.push_back(size.size);
  }
  s.kernel = std::move(kernel);
  s.stride = or_ones(call.wholes("strides"), dims);
  s.dilation = or_ones(call.wholes("dilations"), dims);
  Ints pads = call.wholes("pads");
  pads = pads.empty() ? Ints(2 * dims, 0) : pads;
  call.need(s.kernel.size() == dims && s.stride.size() == dims && s.dilation.size() == dims &&
                pads.size() == 2 * dims,
            "windows of other dims");
  for (std::size_t d = 0; d < dims; ++d) {
    for (const std::int64_t n : {s.stride[d], s.dilation[d], s.kernel[d]}) {
      call.need(n > 0 && n <= kMostWindow, "an empty or a huge window");
    }
    s.padding.insert(s.padding.end(), {pads[d], pads[dims + d]});
  }
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    pad_same(s, automatic == "SAME_UPPER");
  } else if (automatic == "VALID") {
    s.padding.assign(2 * dims, 0);
  }
  return s;
}

Ints kernel_of(const Call& call) {
  Ints kernel;
  for (std::size_t d = 2; d < call.shape(1).size(); ++d) {
    kernel.push_back(call.shape(1)[d].size);
  }
  return kernel;
}

std::vector<ValueId> operands(const Call& call) {
  std::vector<ValueId> inputs = {call.channels_last(0), call.value(1)};
  if (call.has(2)) {
    inputs.push_back(call.value(2));
  }
  return inputs;
}

void emit_conv(const Call& call) {
  const Sliding s = sliding_of(call, kernel_of(call));
  const ValueId y = call.b.emit("conv", operands(call),
                                {{"stride", s.stride},
                                 {"dilation", s.dilation},
                                 {"padding", s.padding},
                                 {"groups", call.whole("group", 1)}});
  call.give_channels_last(0, y, call.element(0));
}

// outputs = (inputs - 1) stride + reach - padding + output_padding; with output_shape the padding
// follows from it.
void emit_conv_transpose(const Call& call) {
  Sliding s = sliding_of(call, kernel_of(call));
  const std::size_t dims = s.sizes.size();
  Ints extra = call.wholes("output_padding");
  extra = extra.empty() ? Ints(dims, 0) : extra;
  const Ints wanted = call.wholes("output_shape");
  const std::string automatic = call.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  call.need(extra.size() == dims && (wanted.empty() || wanted.size() == dims), "of other dims");
  for (std::size_t d = 0; d < dims && (same || !wanted.empty()); ++d) {
    call.need(wanted.empty() || (wanted[d] > 0 && wanted[d] <= kMostSize), "to no size");
    call.need(extra[d] >= 0 && extra[d] <= kMostSize, "with such an output_padding");
    const std::int64_t target = wanted.empty() ? s.sizes[d] * s.stride[d] : wanted[d];
    const std::int64_t reach = (s.kernel[d] - 1) * s.dilation[d] + 1;
    std::int64_t total = (s.sizes[d] - 1) * s.stride[d] + extra[d] + reach - target;
    if (total < 0) {  // more outputs than windows reach: zeros behind
      extra[d] -= total;
      total = 0;
    }
    const std::int64_t half = total / 2;
    s.padding[2 * d] = automatic == "SAME_UPPER" ? half : total - half;
    s.padding[2 * d + 1] = total - s.padding[2 * d];
  }
  const ValueId y = call.b.emit("conv_transpose", operands(call),
                                {{"stride", s.stride},
                                 {"dilation", s.dilation},
                                 {"padding", s.padding},
                                 {"output_padding", extra},
                                 {"groups", call.whole("group", 1)}});
  call.give_channels_last(0, y, call.element(0));
}

Attrs pool_attrs(const Call& call, const Sliding& s) {
  return {{"kernel", s.kernel},
          {"stride", s.stride},
          {"padding", s.padding},
          {"ceil", call.whole("ceil_mode", 0)}};
}

void emit_max_pool(const Call& call) {
  call.need(!call.wants(1), "with indices");
  const Sliding s = sliding_of(call, call.wholes("kernel_shape"));
  Attrs attrs = pool_attrs(call, s);
  attrs["dilation"] = s.dilation;
  call.give_channels_last(0, call.b.emit("max_pool", {call.channels_last(0)}, attrs),
                          call.element(0));
}

void emit_average_pool(const Call& call) {
  const Sliding s = sliding_of(call, call.wholes("kernel_shape"));
  Attrs attrs = pool_attrs(call, s);
  attrs["count_include_pad"] = call.whole("count_include_pad", 0);
  call.give_channels_last(0, call.b.emit("avg_pool", {call.channels_last(0)}, attrs),
                          call.element(0));
}

void emit_global_pool(const Call& call) {
  const int rank = call.rank(0);
  call.need(rank >= 3, "without spatial dims");
  Ints dims;
  for (int d = 1; d < rank - 1; ++d) {
    dims.push_back(d);
  }
  const std::string_view function = call.node.op == "GlobalMaxPool" ? "max" : "mean";
  const ValueId y = reduce(call.b, function, call.channels_last(0), dims, true);
  call.give_channels_last(0, y, call.element(0));
}

// (sum of |x|^p over the window)^(1/p); sums are averages times the number of places
void emit_lp_pool(const Call& call) {
  const auto p = static_cast<double>(call.whole("p", 2));
  Builder& b = call.b;
  const ValueId powers = with_number(b, "pow", unary(b, "abs", call.channels_last(0)), p);
  ValueId sum = -1;
  if (call.node.op == "GlobalLpPool") {
    Ints dims;
    for (int d = 1; d < call.rank(0) - 1; ++d) {
      dims.push_back(d);
    }
    sum = reduce(b, "sum", powers, dims, true);
  } else {
    const Sliding s = sliding_of(call, call.wholes("kernel_shape"));
    Attrs attrs = pool_attrs(call, s);
    attrs["count_include_pad"] = std::int64_t{1};
    double places = 1;
    for (const std::int64_t k : s.kernel) {
      places *= static_cast<double>(k);
    }
    sum = with_number(b, "mul", b.emit("avg_pool", {powers}, attrs), places);
  }
  call.give_channels_last(0, with_number(b, "pow", sum, 1 / p), call.element(0));
}

}  // namespace

std::vector<OnnxOp> window_ops() {
  return {{"AveragePool", emit_average_pool},
          {"Conv", emit_conv},
          {"ConvTranspose", emit_conv_transpose},
          {"GlobalAveragePool", emit_global_pool, 1},
          {"GlobalLpPool", emit_lp_pool},
          {"GlobalMaxPool", emit_global_pool, 1},
          {"LpPool", emit_lp_pool},
          {"MaxPool", emit_max_pool}};
}

}  // namespace weft::onnx_import
