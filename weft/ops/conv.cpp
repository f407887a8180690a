// conv(x[b,…,c], w[o,c/groups,…], bias[o]?) -> y[b,…,o], with one to three spatial dims
//
//   y[b,i,j,o] = bias[o] + sum over p, q, c of x[b, i stride + p dilation - before, …, c]
//   w[o,c,p,q]
//
// where x is zero outside. Groups: filters and channels are cut into as many runs, and filters see
// the channels of their run only. As with linear the gradients are nodes of their own, and a device
// with a part of c holds a partial sum of y. With groups these are what can be split: "(g c)".
// Kernels: conv.aten.cpp, conv_depthwise.aten.cpp.

#include "weft/ops/conv.h"

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

std::int64_t groups_of(const OpCall& call, std::string_view op) {
  const std::int64_t groups =
      has_attr(call.attrs, "groups") ? attr_int(call.attrs, "groups") : std::int64_t{1};
  require(groups >= 1, "{}: groups = {}, but must be at least 1", op, groups);
  return groups;
}

void require_weight(const TensorType& w, const TensorType& image, std::string_view op) {
  require(w.rank() == image.rank() && w.dtype == image.dtype && is_bound(w.shape),
          "{}: weight {} does not fit {}; it must be [out, in / groups, kernel…] of the same dtype",
          op, format_type(w), format_type(image));
}

Ints kernel_sizes(const TensorType& w) {
  Ints kernel;
  for (int d = 2; d < w.rank(); ++d) {
    kernel.push_back(w.size(d));
  }
  return kernel;
}

// Letters of x, w and y; only b and channels can be split.
struct Operands {
  std::string x;
  std::string w;
  std::string y;
  std::string filter;  // of a bias
  std::string whole;
};

Operands operands(int dims, std::int64_t groups) {
  const SpatialLetters s = spatial_letters(dims);
  const std::string in = groups == 1 ? "c" : "(g c)";
  const std::string out = groups == 1 ? "o" : "(g o)";
  return {.x = "b " + s.in + " " + in,
          .w = out + " c " + s.kernel,
          .y = "b " + s.out + " " + out,
          .filter = out,
          .whole = s.in + s.out + s.kernel + (groups == 1 ? "" : "co")};
}

// ---- conv
// ----------------------------------------------------------------------------------------

TensorTypes infer(const OpCall& call) {
  const std::string_view op = "conv";
  require_image(call, op, 0);
  const TensorType& x = call.inputs[0];
  const TensorType& w = call.inputs[1];
  require_weight(w, x, op);
  const std::int64_t groups = groups_of(call, op);
  require(x.size(-1) % groups == 0 && w.size(1) == x.size(-1) / groups && w.size(0) % groups == 0,
          "conv: weight {} and groups = {} do not fit {}", format_type(w), groups, format_type(x));
  if (call.inputs.size() == 3) {
    const TensorType want{{w.shape[0]}, w.dtype};
    require(call.inputs[2] == want, "conv: bias {} does not fit weight {}; it must be {}",
            format_type(call.inputs[2]), format_type(w), format_type(want));
  }
  const Windows windows = read_windows(call.attrs, op, spatial_sizes(x), kernel_sizes(w));
  Ints sizes;
  for (int d = 0; d < spatial_dims(x); ++d) {
    sizes.push_back(
        window_outputs(windows[static_cast<std::size_t>(3 - spatial_dims(x) + d)], op, false));
  }
  return {image_type(x, sizes, w.shape[0])};
}

FactorRule factors(const OpCall& call) {
  const Operands l = operands(spatial_dims(call.inputs[0]), groups_of(call, "conv"));
  if (call.inputs.size() == 3) {
    return {.dims = l.x + ", " + l.w + ", " + l.filter + " -> " + l.y, .whole = l.whole + "c"};
  }
  return {.dims = l.x + ", " + l.w + " -> " + l.y, .whole = l.whole, .linear = {{0}, {1}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  const ValueId dy = b.output_grads[0];
  std::vector<ValueId> grads(b.inputs.size(), -1);
  if (b.wanted[0]) {
    Attrs attrs = b.node.attrs;
    attrs["sizes"] = spatial_sizes(b.build.type(b.inputs[0]));
    grads[0] = b.build.emit("conv_input_grad", {dy, b.inputs[1]}, attrs);
  }
  if (b.wanted[1]) {
    Attrs attrs = b.node.attrs;
    attrs["kernel"] = kernel_sizes(b.build.type(b.inputs[1]));
    grads[1] = b.build.emit("conv_weight_grad", {dy, b.inputs[0]}, attrs);
  }
  if (b.inputs.size() == 3 && b.wanted[2]) {
    grads[2] = b.build.emit("sum_leading", {dy}, {{"keep", std::int64_t{1}}});
  }
  return grads;
}

ConvSizes forward_sizes(const OpCall& call) {
  return conv_sizes(call.inputs[0], call.inputs[1], call.outputs[0], call.attrs, "conv");
}

Cost cost(const OpCall& call) {
  return conv_cost(call, forward_sizes(call));
}

std::int64_t workspace(const OpCall& call) {
  return conv_forward_bytes(forward_sizes(call), call.inputs[0].dtype);
}

// ---- conv_input_grad
// -----------------------------------------------------------------------------

TensorTypes infer_input_grad(const OpCall& call) {
  const std::string_view op = "conv_input_grad";
  require_image(call, op, 0);
  const TensorType& dy = call.inputs[0];
  const TensorType& w = call.inputs[1];
  require_weight(w, dy, op);
  require(w.shape[0] == dy.shape.back(), "{}: weight {} does not fit gradient {}", op,
          format_type(w), format_type(dy));
  const Ints& sizes = attr_ints(call.attrs, "sizes");
  require(static_cast<int>(sizes.size()) == spatial_dims(dy), "{}: sizes does not fit {}", op,
          format_type(dy));
  return {image_type(dy, sizes, w.shape[1] * groups_of(call, op))};
}

FactorRule factors_input_grad(const OpCall& call) {
  const Operands l = operands(spatial_dims(call.inputs[0]), groups_of(call, "conv_input_grad"));
  return {.dims = l.y + ", " + l.w + " -> " + l.x, .whole = l.whole, .linear = {{0}, {1}}};
}

ConvSizes input_grad_sizes(const OpCall& call) {
  return conv_sizes(call.outputs[0], call.inputs[1], call.inputs[0], call.attrs, "conv_input_grad");
}

Cost cost_input_grad(const OpCall& call) {
  return conv_cost(call, input_grad_sizes(call));
}

std::int64_t workspace_input_grad(const OpCall& call) {
  return conv_input_grad_bytes(input_grad_sizes(call), call.inputs[0].dtype);
}

// ---- conv_weight_grad
// ----------------------------------------------------------------------------

TensorTypes infer_weight_grad(const OpCall& call) {
  const std::string_view op = "conv_weight_grad";
  require_image(call, op, 0);
  require_image(call, op, 1);
  const TensorType& dy = call.inputs[0];
  const TensorType& x = call.inputs[1];
  const std::int64_t groups = groups_of(call, op);
  const Ints& kernel = attr_ints(call.attrs, "kernel");
  require(dy.rank() == x.rank() && dy.shape[0] == x.shape[0] && dy.dtype == x.dtype &&
              x.size(-1) % groups == 0 && static_cast<int>(kernel.size()) == spatial_dims(x),
          "{}: gradient {} does not fit input {}", op, format_type(dy), format_type(x));
  TensorType dw{{dy.shape.back(), x.size(-1) / groups}, x.dtype};
  dw.shape.insert(dw.shape.end(), kernel.begin(), kernel.end());
  return {dw};
}

FactorRule factors_weight_grad(const OpCall& call) {
  const Operands l = operands(spatial_dims(call.inputs[0]), groups_of(call, "conv_weight_grad"));
  return {.dims = l.y + ", " + l.x + " -> " + l.w, .whole = l.whole, .linear = {{0}, {1}}};
}

ConvSizes weight_grad_sizes(const OpCall& call) {
  return conv_sizes(call.inputs[1], call.outputs[0], call.inputs[0], call.attrs,
                    "conv_weight_grad");
}

Cost cost_weight_grad(const OpCall& call) {
  return conv_cost(call, weight_grad_sizes(call));
}

std::int64_t workspace_weight_grad(const OpCall& call) {
  return conv_weight_grad_bytes(weight_grad_sizes(call), call.inputs[0].dtype);
}

}  // namespace

OpDef conv() {
  return {.name = "conv",
          .min_inputs = 2,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

OpDef conv_input_grad() {
  return {.name = "conv_input_grad",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_input_grad,
          .factors = factors_input_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost_input_grad,
          .workspace = workspace_input_grad};
}

OpDef conv_weight_grad() {
  return {.name = "conv_weight_grad",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_weight_grad,
          .factors = factors_weight_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost_weight_grad,
          .workspace = workspace_weight_grad};
}

}  // namespace weft::ops
