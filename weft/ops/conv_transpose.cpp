// conv_transpose(x[b,…,c], w[c,o/groups,…], bias[o]?) -> y[b,…,o]
//
// The gradient of a convolution with respect to its input, as an op of its own: x stands where that
// gradient has dy, y where it has dx. So its own gradients are convolutions:
//
//   dx = conv(dy, w),   dw = conv_weight_grad with x for dy and dy for x
//
// `output_padding` lines are added behind each spatial dim of y; no window of the convolution
// would see them.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/conv.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

std::int64_t groups_of(const OpCall& call) {
  const std::int64_t groups =
      has_attr(call.attrs, "groups") ? attr_int(call.attrs, "groups") : std::int64_t{1};
  require(groups >= 1, "conv_transpose: groups = {}, but must be at least 1", groups);
  return groups;
}

Ints output_sizes(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType& w = call.inputs[1];
  Ints kernel;
  for (int d = 2; d < w.rank(); ++d) {
    kernel.push_back(w.size(d));
  }
  Ints sizes = spatial_sizes(x);
  const Ints extra = has_attr(call.attrs, "output_padding")
                         ? attr_ints(call.attrs, "output_padding")
                         : Ints(sizes.size(), 0);
  require(extra.size() == sizes.size(), "conv_transpose: {} entries of output_padding for {}",
          extra.size(), format_type(x));
  const Windows windows = read_windows(call.attrs, "conv_transpose", sizes, kernel);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const Window& window = windows[3 - sizes.size() + d];
    sizes[d] = window_inputs(window, "conv_transpose", sizes[d], extra[d]);
  }
  return sizes;
}

TensorTypes infer(const OpCall& call) {
  require_image(call, "conv_transpose", 0);
  const TensorType& x = call.inputs[0];
  const TensorType& w = call.inputs[1];
  const std::int64_t groups = groups_of(call);
  require(w.rank() == x.rank() && w.dtype == x.dtype && is_bound(w.shape) &&
              w.shape[0] == x.shape.back() && x.size(-1) % groups == 0,
          "conv_transpose: weight {} does not fit {}; it must be [in, out / groups, kernel…]",
          format_type(w), format_type(x));
  const Dim filters = w.shape[1] * groups;
  if (call.inputs.size() == 3) {
    const TensorType want{{filters}, w.dtype};
    require(call.inputs[2] == want, "conv_transpose: bias {} must be {}",
            format_type(call.inputs[2]), format_type(want));
  }
  return {image_type(x, output_sizes(call), filters)};
}

FactorRule factors(const OpCall& call) {
  const SpatialLetters s = spatial_letters(spatial_dims(call.inputs[0]));
  const bool grouped = groups_of(call) > 1;
  const std::string in = grouped ? "(g c)" : "c";
  const std::string out = grouped ? "(g o)" : "o";
  const bool has_bias = call.inputs.size() == 3;
  FactorRule rule;
  rule.dims = "b " + s.in + " " + in + ", " + in + " o " + s.kernel + (has_bias ? ", " + out : "") +
              " -> b " + s.out + " " + out;
  rule.whole = s.in + s.out + s.kernel + (grouped ? "co" : has_bias ? "c" : "");
  if (!has_bias) {
    rule.linear = {{0}, {1}};
  }
  return rule;
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  std::vector<ValueId> grads(b.inputs.size(), -1);
  Attrs attrs = b.node.attrs;
  attrs.erase("output_padding");
  if (b.wanted[0]) {
    grads[0] = b.build.emit("conv", {dy, b.inputs[1]}, attrs);
  }
  if (b.wanted[1]) {
    const TensorType& w = b.build.type(b.inputs[1]);
    Ints kernel;
    for (int d = 2; d < w.rank(); ++d) {
      kernel.push_back(w.size(d));
    }
    attrs["kernel"] = kernel;
    grads[1] = b.build.emit("conv_weight_grad", {b.inputs[0], dy}, attrs);
  }
  if (b.inputs.size() == 3 && b.wanted[2]) {
    grads[2] = b.build.emit("sum_leading", {dy}, {{"keep", std::int64_t{1}}});
  }
  return grads;
}

ConvSizes sizes_of(const OpCall& call) {
  return conv_sizes(call.outputs[0], call.inputs[1], call.inputs[0], call.attrs, "conv_transpose");
}

Cost cost(const OpCall& call) {
  return conv_cost(call, sizes_of(call));
}

std::int64_t workspace(const OpCall& call) {
  return conv_input_grad_bytes(sizes_of(call), call.inputs[0].dtype);
}

}  // namespace

OpDef conv_transpose() {
  return {.name = "conv_transpose",
          .min_inputs = 2,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

}  // namespace weft::ops
