// dropout(x) -> y: each element is zero with probability p, else x / (1 - p).
//
// Element i of the tensor of the whole step is kept if the i-th number of the node's random stream
// is at least p, so the mask depends neither on the split nor on micro-batches, and the gradient
// draws the same mask again. Kernels: dropout.aten.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer_named(const OpCall& call, std::string_view op) {
  require_floating(call, op, 0);
  const double p = attr_number(call.attrs, "p");
  require(p >= 0 && p < 1, "{}: p = {}, but must be at least 0 and below 1", op, p);
  return {call.inputs[0]};
}

TensorTypes infer(const OpCall& call) {
  return infer_named(call, "dropout");
}

TensorTypes infer_backward(const OpCall& call) {
  return infer_named(call, "dropout_backward");
}

FactorRule factors(const OpCall& call) {
  return {.dims = elementwise_dims(call), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  return {b.build.emit("dropout_backward", {b.output_grads[0]}, b.node.attrs)};
}

// Ten rounds of Philox for four elements, a few operations each.
Cost cost(const OpCall& call) {
  return streaming_cost(call, 20);
}

OpDef define(std::string name, TensorTypes (*infer_rule)(const OpCall&)) {
  return {.name = std::move(name),
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_rule,
          .factors = factors,
          .cost = cost,
          .may_overwrite = {{0, 0}}};
}

}  // namespace

OpDef dropout() {
  OpDef def = define("dropout", infer);
  def.gradient = gradient;
  return def;
}

OpDef dropout_backward() {
  OpDef def = define("dropout_backward", infer_backward);
  def.no_gradient = "second derivatives are not supported";
  return def;
}

}  // namespace weft::ops
