// embedding(table[v,h], ids[…]) -> y[…,h]: row ids[…] of the table.
//
// The gradient adds row dy[…] to row ids[…]. A device with a part of the rows gives zeros for ids
// of others, so y is a partial sum when v is split; its part of the gradient is its own.

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

void require_ids(const OpCall& call, std::string_view op, int i) {
  const TensorType& ids = call.inputs[static_cast<std::size_t>(i)];
  require(ids.dtype == DType::i64 && ids.rank() >= 1 && ids.rank() <= 3,
          "{}: ids are {}, but must be i64 with one to three dims", op, format_type(ids));
}

TensorTypes infer(const OpCall& call) {
  require_floating(call, "embedding", 0);
  require_ids(call, "embedding", 1);
  const TensorType& table = call.inputs[0];
  require(table.rank() == 2, "embedding: the table is {}, but must be [rows, features]",
          format_type(table));
  Shape shape = call.inputs[1].shape;
  shape.push_back(table.shape[1]);
  return {{shape, table.dtype}};
}

FactorRule factors(const OpCall& call) {
  const int n = call.inputs[1].rank();
  return {.dims = "v h, " + letters(n) + " -> " + letters(n, "h"), .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  const Dim rows = b.build.type(b.inputs[0]).shape[0];
  WEFT_CHECK(!rows.batched);
  return {b.build.emit("embedding_weight_grad", {b.output_grads[0], b.inputs[1]},
                       {{"rows", rows.size}}),
          -1};
}

// Reads the rows it needs, not the table.
Cost cost(const OpCall& call) {
  const double moved = static_cast<double>(call.outputs[0].bytes());
  return {.flops = 0, .bytes_moved = 2.0 * moved + static_cast<double>(call.inputs[1].bytes())};
}

// ---- embedding_weight_grad
// -----------------------------------------------------------------------

TensorTypes infer_weight_grad(const OpCall& call) {
  require_floating(call, "embedding_weight_grad", 0);
  require_ids(call, "embedding_weight_grad", 1);
  const TensorType& dy = call.inputs[0];
  const TensorType& ids = call.inputs[1];
  const bool fits =
      dy.rank() == ids.rank() + 1 && Shape(dy.shape.begin(), dy.shape.end() - 1) == ids.shape;
  require(fits, "embedding_weight_grad: gradient {} does not fit ids {}", format_type(dy),
          format_type(ids));
  return {{{attr_int(call.attrs, "rows"), dy.shape.back()}, dy.dtype}};
}

FactorRule factors_weight_grad(const OpCall& call) {
  const int n = call.inputs[1].rank();
  return {.dims = letters(n, "h") + ", " + letters(n) + " -> v h", .linear = {{0}}};
}

Cost cost_weight_grad(const OpCall& call) {
  return streaming_cost(call, 1);
}

// The rows of dy in the order of their ids, and where each id begins.
std::int64_t workspace_weight_grad(const OpCall& call) {
  return (call.inputs[1].elements() + call.outputs[0].size(0) + 1) * element_bytes(DType::i64);
}

}  // namespace

OpDef embedding() {
  return {.name = "embedding",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef embedding_weight_grad() {
  return {.name = "embedding_weight_grad",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_weight_grad,
          .factors = factors_weight_grad,
          .no_gradient = "it is itself a gradient",
          .cost = cost_weight_grad,
          .workspace = workspace_weight_grad};
}

}  // namespace weft::ops
