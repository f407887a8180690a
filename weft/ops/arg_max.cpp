// arg_max(x){dim, keep, function, last} -> i64: where along dim the largest (function max) or
//   smallest (min) entry is; of equal ones the first, or the last if `last` is 1
// top_k(x){k, dim, largest, sorted} -> values, i64 ids: the k largest (or smallest) entries along
// dim
//   in order; of equal ones the first come first. `sorted` 0 allows any order; there is one order.
//
// Both need the whole of dim. The values' gradient goes to the entries they came from.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/scatter.h"

namespace weft::ops {
namespace {

int checked_dim(const OpCall& call, std::string_view op) {
  require_number(call, op, 0);
  const TensorType& x = call.inputs[0];
  const int dim = dim_of(attr_int(call.attrs, "dim"), x.rank(), op);
  require(!x.shape[static_cast<std::size_t>(dim)].batched,
          "{}: dim {} of {} is the batch, which is spread over micro-batches", op, dim,
          format_type(x));
  return dim;
}

TensorTypes infer(const OpCall& call) {
  Shape shape = call.inputs[0].shape;
  const int dim = checked_dim(call, "arg_max");
  const std::string& function = attr_text(call.attrs, "function");
  require(function == "max" || function == "min",
          "arg_max: there is no function '{}'; known are max, min", function);
  (void)attr_int(call.attrs, "last");
  if (attr_int(call.attrs, "keep") == 1) {
    shape[static_cast<std::size_t>(dim)] = Dim(1);
  } else {
    shape.erase(shape.begin() + dim);
  }
  return {{shape, DType::i64}};
}

// "b s v -> b s", v whole; a kept dim of length one is "1".
FactorRule factors(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const auto dim = static_cast<std::size_t>(dim_of(attr_int(call.attrs, "dim"), rank, "arg_max"));
  Letters next;
  std::string x;
  for (int i = 0; i < rank; ++i) {
    x += next.next("arg_max");
  }
  const std::string kept = attr_int(call.attrs, "keep") == 1 ? "1" : "";
  const std::string y = x.substr(0, dim) + kept + x.substr(dim + 1);
  return {.dims = spaced(x) + " -> " + spaced(y), .whole = std::string(1, x[dim])};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- top_k

TensorTypes infer_top_k(const OpCall& call) {
  TensorType values = call.inputs[0];
  const auto dim = static_cast<std::size_t>(checked_dim(call, "top_k"));
  const std::int64_t k = attr_int(call.attrs, "k");
  require(k >= 1 && k <= values.shape[dim].size, "top_k: k = {} of dim {} of {}", k, dim,
          format_type(values));
  (void)attr_int(call.attrs, "largest");
  (void)attr_int(call.attrs, "sorted");
  values.shape[dim] = Dim(k);
  return {values, {values.shape, DType::i64}};
}

FactorRule factors_top_k(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const auto dim = static_cast<std::size_t>(dim_of(attr_int(call.attrs, "dim"), rank, "top_k"));
  Letters next;
  std::string x;
  for (int i = 0; i < rank; ++i) {
    x += next.next("top_k");
  }
  std::string y = x;
  y[dim] = next.next("top_k");
  return {.dims = spaced(x) + " -> " + spaced(y) + ", " + spaced(y), .whole = {x[dim], y[dim]}};
}

std::vector<ValueId> gradient_top_k(const Backward& b) {
  if (!b.wanted[0] || b.output_grads[0] < 0) {
    return {-1};
  }
  return {emit_elements_backward(b.build, b.output_grads[0], b.outputs[1], b.inputs[0],
                                 attr_int(b.node.attrs, "dim"))};
}

Cost cost_top_k(const OpCall& call) {
  return streaming_cost(call, 8);
}

}  // namespace

OpDef arg_max() {
  return {.name = "arg_max",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer,
          .factors = factors,
          .no_gradient = "a place does not change when numbers do a little",
          .cost = cost};
}

OpDef top_k() {
  return {.name = "top_k",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_top_k,
          .factors = factors_top_k,
          .gradient = gradient_top_k,
          .cost = cost_top_k};
}

}  // namespace weft::ops
