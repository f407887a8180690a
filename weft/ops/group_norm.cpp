// group_norm(x[b,…,c], w[c], b[c]) -> y, mean[b,groups], rstd[b,groups]
//
// Channels are cut into `groups` runs of equal length; each run of each sample is normalised over
// its pixels and channels:
//
//   n = (x - mean) rstd,   y = n w + b
//
// With g = dy w, and means over the run:
//
//   dx = rstd (g - mean(g) - n mean(g n)),   dw = sum of dy n,   db = sum of dy
//
// Samples and whole groups may be split: "(g c)". Instance norm has as many groups as channels.
// Kernels: group_norm.aten.cpp.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/window.h"

namespace weft::ops {
namespace {

void require_vector(const OpCall& call, std::string_view op, const TensorType& x, int i) {
  const TensorType& got = call.inputs[static_cast<std::size_t>(i)];
  const TensorType want{{x.shape.back()}, x.dtype};
  require(got == want || got == TensorType{want.shape, sum_dtype(x.dtype)},
          "{}: input {} is {}, but must be {} to fit {}", op, i, format_type(got),
          format_type(want), format_type(x));
}

TensorType group_type(const TensorType& x, std::int64_t groups) {
  return {{x.shape.front(), groups}, sum_dtype(x.dtype)};
}

// Rows of x, its channels being (g c).
std::string image(const OpCall& call, std::string* spatial) {
  *spatial = spatial_letters(spatial_dims(call.inputs[0])).in;
  return "b " + *spatial + " (g c)";
}

TensorTypes infer(const OpCall& call) {
  require_image(call, "group_norm", 0);
  const TensorType& x = call.inputs[0];
  require_vector(call, "group_norm", x, 1);
  require_vector(call, "group_norm", x, 2);
  const std::int64_t groups = attr_int(call.attrs, "groups");
  require(groups >= 1 && x.size(-1) % groups == 0,
          "group_norm: {} channels cannot be cut into {} groups", x.size(-1), groups);
  require(attr_number(call.attrs, "eps") >= 0, "group_norm: eps must not be negative");
  return {x, group_type(x, groups), group_type(x, groups)};
}

FactorRule factors(const OpCall& call) {
  std::string spatial;
  const std::string x = image(call, &spatial);
  return {.dims = x + ", (g c), (g c) -> " + x + ", b g, b g", .whole = spatial + "c"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0 && b.output_grads[2] < 0,
          "group_norm: mean and rstd of node {} must not be used by the loss", b.node.name);
  std::vector<ValueId> grads =
      b.build.emit_all("group_norm_backward",
                       {b.output_grads[0], b.inputs[0], b.outputs[1], b.outputs[2], b.inputs[1]});
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 6);
}

// ---- group_norm_backward
// -------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "group_norm_backward";
  require_image(call, op, 0);
  require_same_type(call, op, 0, 1);
  require_same_type(call, op, 2, 3);
  const TensorType& x = call.inputs[1];
  const TensorType& mean = call.inputs[2];
  require(mean.rank() == 2 && mean == group_type(x, mean.size(1)) && mean.size(1) >= 1 &&
              x.size(-1) % mean.size(1) == 0,
          "{}: mean {} does not fit {}", op, format_type(mean), format_type(x));
  require_vector(call, op, x, 4);
  return {x, call.inputs[4], call.inputs[4]};
}

FactorRule factors_backward(const OpCall& call) {
  std::string spatial;
  const std::string x = image(call, &spatial);
  return {.dims = x + ", " + x + ", b g, b g, (g c) -> " + x + ", (g c), (g c)",
          .whole = spatial + "c"};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 11);
}

// dw and db of each sample.
std::int64_t workspace_backward(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  return x.size(0) * 2 * x.size(-1) * element_bytes(DType::f64);
}

}  // namespace

OpDef group_norm() {
  return {.name = "group_norm",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef group_norm_backward() {
  return {.name = "group_norm_backward",
          .min_inputs = 5,
          .max_inputs = 5,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward};
}

}  // namespace weft::ops
