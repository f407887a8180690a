// gather(x, ids){dim} -> y: along `dim`, the entries that ids name (numpy's take):
//
//   y[i…, k…, j…] = x[i…, ids[k…], j…]          -1 is the last entry
//
// Which entries a device needs is known only when the ids are, so dim stays whole; all other dims
// may be split. The gradient adds dy to the entries it came from; parts of ids give partial sums.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

bool has_batch(const Shape& shape) {
  return !is_bound(shape);
}

TensorTypes infer(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType& ids = call.inputs[1];
  require_i64(call, "gather", 1);
  const int dim = dim_of(attr_int(call.attrs, "dim"), x.rank(), "gather");
  require(!x.shape[static_cast<std::size_t>(dim)].batched,
          "gather: dim {} of {} is the batch; samples cannot be picked", dim, format_type(x));
  require(!has_batch(x.shape) || !has_batch(ids.shape),
          "gather: {} and {} both have a batch; take gather_elements or gather_nd", format_type(x),
          format_type(ids));
  Shape shape(x.shape.begin(), x.shape.begin() + dim);
  shape.insert(shape.end(), ids.shape.begin(), ids.shape.end());
  shape.insert(shape.end(), x.shape.begin() + dim + 1, x.shape.end());
  return {{shape, x.dtype}};
}

// Letters of x, of ids and of y; `dim` of x is 0.
struct Names {
  std::string x;
  std::string ids;
  std::string y;
  std::string whole;
};

Names names_of(int rank, int id_rank, int dim) {
  Letters next;
  Names names;
  for (int i = 0; i < id_rank; ++i) {
    names.ids += next.next("gather");
  }
  for (int i = 0; i < rank; ++i) {
    names.x += next.next("gather");
    names.y += i == dim ? names.ids : std::string(1, names.x.back());
  }
  names.whole = names.x[static_cast<std::size_t>(dim)];
  return names;
}

FactorRule factors(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const int dim = dim_of(attr_int(call.attrs, "dim"), rank, "gather");
  const Names names = names_of(rank, call.inputs[1].rank(), dim);
  return {.dims = spaced(names.x) + ", " + spaced(names.ids) + " -> " + spaced(names.y),
          .whole = names.whole,
          .linear = {{0}}};
}

std::vector<ValueId> gradient(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  const TensorType& x = b.build.type(b.inputs[0]);
  const int dim = dim_of(attr_int(b.node.attrs, "dim"), x.rank(), "gather");
  return {b.build.emit("gather_backward", {b.output_grads[0], b.inputs[1]},
                       {{"dim", std::int64_t{dim}},
                        {"length", x.shape[static_cast<std::size_t>(dim)].size}}),
          -1};
}

// Reads the entries it needs, not all of x.
Cost cost(const OpCall& call) {
  const double moved = static_cast<double>(call.outputs[0].bytes());
  return {.flops = 0, .bytes_moved = 2.0 * moved + static_cast<double>(call.inputs[1].bytes())};
}

TensorTypes infer_backward(const OpCall& call) {
  const TensorType& dy = call.inputs[0];
  const TensorType& ids = call.inputs[1];
  require_floating(call, "gather_backward", 0);
  require_i64(call, "gather_backward", 1);
  const std::int64_t dim = attr_int(call.attrs, "dim");
  const bool fits = dim >= 0 && dim + ids.rank() <= dy.rank() &&
                    Shape(dy.shape.begin() + dim, dy.shape.begin() + dim + ids.rank()) == ids.shape;
  require(fits, "gather_backward: gradient {} does not fit ids {}", format_type(dy),
          format_type(ids));
  Shape shape(dy.shape.begin(), dy.shape.begin() + dim);
  shape.emplace_back(attr_int(call.attrs, "length"));
  shape.insert(shape.end(), dy.shape.begin() + dim + ids.rank(), dy.shape.end());
  return {{shape, dy.dtype}};
}

FactorRule factors_backward(const OpCall& call) {
  const Names names = names_of(call.outputs[0].rank(), call.inputs[1].rank(),
                               static_cast<int>(attr_int(call.attrs, "dim")));
  return {.dims = spaced(names.y) + ", " + spaced(names.ids) + " -> " + spaced(names.x),
          .whole = names.whole,
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 1);
}

}  // namespace

OpDef gather() {
  return {.name = "gather",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer,
          .factors = factors,
          .gradient = gradient,
          .cost = cost};
}

OpDef gather_backward() {
  return {.name = "gather_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

}  // namespace weft::ops
