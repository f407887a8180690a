// attention(q[b,s,h,d], k[b,t,h,d], v[b,t,h,d]) -> out[b,s,h,d], lse[b,h,s]
//
// For each sample and head:
//
//   S = scale q kᵀ,   lse_i = log sum_j exp(S_ij),   P_ij = exp(S_ij - lse_i),   out = P v
//
// `causal`: query i sees keys 0 … i only (so s = t). `dropout`: entries of P are set to zero with
// that probability, the others scaled by 1/(1 - p), after the normalisation.
//
// Only lse is kept for the gradient, which computes P again, tile by tile. With D_i = sum_c dout_ic
// out_ic, which is sum_j P_ij dP_ij with and without dropout, and m the dropout factor of an entry:
//
//   dv = (P m)ᵀ dout,   dP = (dout vᵀ) m,   dS = P (dP - D),   dq = scale dS k,   dk = scale dSᵀ q

#include "weft/ops/attention.h"

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_operands(const OpCall& call, std::string_view op, std::size_t first) {
  const TensorType& q = call.inputs[first];
  const TensorType& k = call.inputs[first + 1];
  require_floating(call, op, static_cast<int>(first));
  require_same_type(call, op, static_cast<int>(first) + 1, static_cast<int>(first) + 2);
  const bool fits = q.rank() == 4 && k.rank() == 4 && q.shape[0] == k.shape[0] &&
                    q.shape[2] == k.shape[2] && q.shape[3] == k.shape[3] && q.dtype == k.dtype;
  require(fits, "{}: queries {} and keys {} do not fit; they must be [b,s,h,d] and [b,t,h,d]", op,
          format_type(q), format_type(k));
  require(attr_int(call.attrs, "causal") == 0 || q.shape[1] == k.shape[1],
          "{}: causal attention needs as many keys as queries, not {} and {}", op, format_type(k),
          format_type(q));
  const double p = attr_number(call.attrs, "dropout");
  require(p >= 0 && p < 1, "{}: dropout is {}, but must be in [0, 1)", op, p);
}

TensorType lse_type(const TensorType& q) {
  return {{q.shape[0], q.shape[2], q.shape[1]}, sum_dtype(q.dtype)};
}

TensorTypes infer(const OpCall& call) {
  require_operands(call, "attention", 0);
  return {call.inputs[0], lse_type(call.inputs[0])};
}

FactorRule factors(const OpCall& /*call*/) {
  return {.dims = "b s h d, b t h d, b t h d -> b s h d, b h s", .whole = "std"};
}

std::vector<ValueId> gradient(const Backward& b) {
  require(b.output_grads[1] < 0, "attention: lse of node {} must not be used by the loss",
          b.node.name);
  std::vector<ValueId> grads = b.build.emit_all(
      "attention_backward",
      {b.output_grads[0], b.inputs[0], b.inputs[1], b.inputs[2], b.outputs[0], b.outputs[1]},
      b.node.attrs);
  for (std::size_t i = 0; i < grads.size(); ++i) {
    grads[i] = b.wanted[i] ? grads[i] : -1;
  }
  return grads;
}

// `products` of s × t × d for each sample and head; causal ones skip half of them.
Cost product_cost(const OpCall& call, const TensorType& q, const TensorType& k, double products) {
  const double scores = static_cast<double>(q.elements()) / static_cast<double>(q.size(3)) *
                        static_cast<double>(k.size(1)) *
                        (attr_int(call.attrs, "causal") != 0 ? 0.5 : 1.0);
  Cost cost = streaming_cost(call, 0);
  cost.flops = scores * (products * 2.0 * static_cast<double>(q.size(3)) + 8.0);
  return cost;
}

Cost cost(const OpCall& call) {
  return product_cost(call, call.inputs[0], call.inputs[1], 2);
}

std::int64_t tile_bytes(const TensorType& q, const TensorType& k) {
  return attention_tiles(q.size(0) * q.size(2)) * attention_tile_size(q.size(1), k.size(1)) *
         element_bytes(q.dtype);
}

std::int64_t workspace(const OpCall& call) {
  return tile_bytes(call.inputs[0], call.inputs[1]);
}

// ---- attention_backward
// --------------------------------------------------------------------------

TensorTypes infer_backward(const OpCall& call) {
  const std::string_view op = "attention_backward";
  require_operands(call, op, 1);
  require_same_type(call, op, 0, 1);
  require_same_type(call, op, 4, 1);
  require(call.inputs[5] == lse_type(call.inputs[1]), "{}: lse {} does not fit queries {}", op,
          format_type(call.inputs[5]), format_type(call.inputs[1]));
  return {call.inputs[1], call.inputs[2], call.inputs[3]};
}

FactorRule factors_backward(const OpCall& /*call*/) {
  return {.dims = "b s h d, b s h d, b t h d, b t h d, b s h d, b h s -> b s h d, b t h d, b t h d",
          .whole = "std"};
}

Cost cost_backward(const OpCall& call) {
  return product_cost(call, call.inputs[1], call.inputs[2], 5);
}

// A tile of P and one of dS.
std::int64_t workspace_backward(const OpCall& call) {
  return 2 * tile_bytes(call.inputs[1], call.inputs[2]);
}

}  // namespace

OpDef attention() {
  return {.name = "attention",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost,
          .workspace = workspace};
}

OpDef attention_backward() {
  return {.name = "attention_backward",
          .min_inputs = 6,
          .max_inputs = 6,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward,
          .workspace = workspace_backward};
}

}  // namespace weft::ops
