// one_hot(ids){depth, dtype, on, off} -> y[…,depth]: `on` at place ids[…], `off` elsewhere;
// negative ids count from the end, and what is outside of -depth … depth - 1 is nowhere `on` (as in
// ONNX). iota(){shape, dim} -> i64: the place along `dim`.
#include "weft/ops/all_ops.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

TensorTypes infer_one_hot(const OpCall& call) {
  require_i64(call, "one_hot", 0);
  const std::int64_t depth = attr_int(call.attrs, "depth");
  require(depth >= 1, "one_hot: depth = {}, but must be at least 1", depth);
  (void)attr_number(call.attrs, "on");
  (void)attr_number(call.attrs, "off");
  Shape shape = call.inputs[0].shape;
  shape.emplace_back(depth);
  return {{shape, parse_dtype(attr_text(call.attrs, "dtype"))}};
}

FactorRule factors_one_hot(const OpCall& call) {
  Letters next;
  std::string ids;
  for (int i = 0; i < call.inputs[0].rank(); ++i) {
    ids += next.next("one_hot");
  }
  const char depth = next.next("one_hot");
  return {.dims = spaced(ids) + " -> " + spaced(ids + depth), .whole = std::string(1, depth)};
}

Cost cost(const OpCall& call) {
  return streaming_cost(call, 0);
}

TensorTypes infer_iota(const OpCall& call) {
  const Shape shape = shape_attr(call, "iota");
  const int dim = dim_of(attr_int(call.attrs, "dim"), static_cast<int>(shape.size()), "iota");
  require(!shape[static_cast<std::size_t>(dim)].batched,
          "iota: dim {} of {} is the batch; samples have no order", dim, format_shape(shape));
  return {{shape, DType::i64}};
}

FactorRule factors_iota(const OpCall& call) {
  const int rank = call.outputs[0].rank();
  const int dim = dim_of(attr_int(call.attrs, "dim"), rank, "iota");
  Letters next;
  std::string y;
  for (int i = 0; i < rank; ++i) {
    y += next.next("iota");
  }
  return {.dims = " -> " + spaced(y), .whole = std::string(1, y[static_cast<std::size_t>(dim)])};
}

}  // namespace

OpDef one_hot() {
  return {.name = "one_hot",
          .min_inputs = 1,
          .max_inputs = 1,
          .infer = infer_one_hot,
          .factors = factors_one_hot,
          .no_gradient = "its input is whole numbers",
          .cost = cost};
}

OpDef iota() {
  return {.name = "iota",
          .min_inputs = 0,
          .max_inputs = 0,
          .infer = infer_iota,
          .factors = factors_iota,
          .no_gradient = "it has no inputs",
          .cost = cost};
}

}  // namespace weft::ops
