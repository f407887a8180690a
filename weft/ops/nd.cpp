// gather_nd(x, ids[…,k]){batch_dims} -> y: each row of ids is the place of an entry of x,
//
//   y[a…, i…, r…] = x[a…, ids[a…, i…, 0], … ids[a…, i…, k-1], r…]
//
// where a are the first `batch_dims` dims, which x and ids share. scatter_nd(x, ids, u){reduction}
// is the reverse, without shared dims: y = x, then y[ids[i…, :], r…] op= u[i…, r…]. -1 is the last
// entry; reductions are those of scatter_elements.
//
// Dims that ids point into stay whole. The gradient of a gather adds dy to the entries it came
// from (gather_nd_backward, with the `lengths` of the dims pointed into); parts of i give partial
// sums. Those of a scatter: see elements.cpp.
#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"
#include "weft/ops/scatter.h"

namespace weft::ops {
namespace {

/// Dims of one kind: shared ones, those of the list of places, those pointed into, those of an
/// entry.
struct Places {
  int shared = 0;
  int listed = 0;
  int pointed = 0;
  int entry = 0;
};

Places places_of(int rank, const TensorType& ids, std::int64_t batch_dims, std::string_view op) {
  require(ids.dtype == DType::i64 && ids.rank() >= 1 && !ids.shape.back().batched,
          "{}: ids are {}, but must be i64 with at least one dim, the last not the batch", op,
          format_type(ids));
  const std::int64_t columns = ids.shape.back().size;
  require(batch_dims >= 0 && batch_dims < ids.rank() && columns <= rank - batch_dims,
          "{}: ids {} with {} shared dims point into more than the {} dims there are", op,
          format_type(ids), batch_dims, rank);
  const auto shared = static_cast<int>(batch_dims);
  const auto pointed = static_cast<int>(columns);
  return {.shared = shared,
          .listed = ids.rank() - 1 - shared,
          .pointed = pointed,
          .entry = rank - shared - pointed};
}

// Letters of x, ids and y.
struct Names {
  std::string x;
  std::string ids;
  std::string y;
  std::string pointed;
  std::string listed;
  char last = '?';
};

Names names_of(const Places& places, std::string_view op) {
  Letters next;
  const auto take = [&](int count) {
    std::string letters;
    for (int i = 0; i < count; ++i) {
      letters += next.next(op);
    }
    return letters;
  };
  const std::string shared = take(places.shared);
  const std::string listed = take(places.listed);
  const std::string entry = take(places.entry);
  const std::string pointed = take(places.pointed);
  const char last = next.next(op);
  return {.x = shared + pointed + entry,
          .ids = shared + listed + last,
          .y = shared + listed + entry,
          .pointed = pointed,
          .listed = listed,
          .last = last};
}

Places gather_places(const OpCall& call) {
  return places_of(call.inputs[0].rank(), call.inputs[1], attr_int(call.attrs, "batch_dims"),
                   "gather_nd");
}

TensorTypes infer_gather(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType& ids = call.inputs[1];
  const Places places = gather_places(call);
  require(std::equal(x.shape.begin(), x.shape.begin() + places.shared, ids.shape.begin()),
          "gather_nd: {} and {} differ in their first {} dims", format_type(x), format_type(ids),
          places.shared);
  for (int i = 0; i < places.pointed; ++i) {
    require(!x.shape[static_cast<std::size_t>(places.shared + i)].batched,
            "gather_nd: ids point into the batch of {}; make it a shared dim", format_type(x));
  }
  Shape shape(ids.shape.begin(), ids.shape.end() - 1);
  shape.insert(shape.end(), x.shape.end() - places.entry, x.shape.end());
  return {{shape, x.dtype}};
}

FactorRule factors_gather(const OpCall& call) {
  const Names names = names_of(gather_places(call), "gather_nd");
  return {.dims = spaced(names.x) + ", " + spaced(names.ids) + " -> " + spaced(names.y),
          .whole = names.pointed + names.last,
          .linear = {{0}}};
}

std::vector<ValueId> gradient_gather(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  const Shape& x = b.build.type(b.inputs[0]).shape;
  const std::int64_t shared = attr_int(b.node.attrs, "batch_dims");
  Ints lengths;
  for (std::int64_t i = 0; i < b.build.type(b.inputs[1]).shape.back().size; ++i) {
    lengths.push_back(x[static_cast<std::size_t>(shared + i)].size);
  }
  return {b.build.emit("gather_nd_backward", {b.output_grads[0], b.inputs[1]},
                       {{"batch_dims", shared}, {"lengths", lengths}}),
          -1};
}

Cost cost_gather(const OpCall& call) {
  const double moved = static_cast<double>(call.outputs[0].bytes());
  return {.flops = 0, .bytes_moved = 2.0 * moved + static_cast<double>(call.inputs[1].bytes())};
}

// ---- gather_nd_backward(dy, ids) -> dx

Places backward_places(const OpCall& call) {
  const auto pointed = static_cast<int>(attr_ints(call.attrs, "lengths").size());
  const TensorType& ids = call.inputs[1];
  const auto shared = static_cast<int>(attr_int(call.attrs, "batch_dims"));
  const int entry = call.inputs[0].rank() - (ids.rank() - 1);
  require(entry >= 0 && ids.rank() >= 1 && ids.shape.back() == Dim(pointed),
          "gather_nd_backward: gradient {} does not fit ids {} and {} lengths",
          format_type(call.inputs[0]), format_type(ids), pointed);
  return places_of(shared + pointed + entry, ids, shared, "gather_nd_backward");
}

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "gather_nd_backward", 0);
  const TensorType& dy = call.inputs[0];
  const Places places = backward_places(call);
  Shape shape(dy.shape.begin(), dy.shape.begin() + places.shared);
  for (const std::int64_t length : attr_ints(call.attrs, "lengths")) {
    shape.emplace_back(length);
  }
  shape.insert(shape.end(), dy.shape.end() - places.entry, dy.shape.end());
  return {{shape, dy.dtype}};
}

FactorRule factors_backward(const OpCall& call) {
  const Names names = names_of(backward_places(call), "gather_nd_backward");
  return {.dims = spaced(names.y) + ", " + spaced(names.ids) + " -> " + spaced(names.x),
          .whole = names.pointed + names.last,
          .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- scatter_nd

TensorTypes infer_scatter(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  const TensorType& ids = call.inputs[1];
  require_reduction(call, "scatter_nd");
  const Places places = places_of(x.rank(), ids, 0, "scatter_nd");
  Shape shape(ids.shape.begin(), ids.shape.end() - 1);
  shape.insert(shape.end(), x.shape.end() - places.entry, x.shape.end());
  require(call.inputs[2] == TensorType({shape, x.dtype}),
          "scatter_nd: updates are {}, but ids {} and {} ask for {}", format_type(call.inputs[2]),
          format_type(ids), format_type(x), format_type({shape, x.dtype}));
  for (int i = 0; i < places.pointed; ++i) {
    require(!x.shape[static_cast<std::size_t>(i)].batched,
            "scatter_nd: ids point into the batch of {}", format_type(x));
  }
  require(is_bound(ids.shape), "scatter_nd: ids {} have a batch", format_type(ids));
  return {x};
}

FactorRule factors_scatter(const OpCall& call) {
  const Names names =
      names_of(places_of(call.inputs[0].rank(), call.inputs[1], 0, "scatter_nd"), "scatter_nd");
  const std::string x = spaced(names.x);
  FactorRule rule{.dims = x + ", " + spaced(names.ids) + ", " + spaced(names.y) + " -> " + x,
                  .whole = names.pointed + names.listed + names.last};
  if (attr_text(call.attrs, "reduction") != "mul") {
    rule.linear = {{0, 2}};
  }
  return rule;
}

std::vector<ValueId> gradient_scatter(const Backward& b) {
  return scatter_gradients(b, "scatter_nd", "gather_nd", {{"batch_dims", std::int64_t{0}}});
}

}  // namespace

OpDef gather_nd() {
  return {.name = "gather_nd",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_gather,
          .factors = factors_gather,
          .gradient = gradient_gather,
          .cost = cost_gather};
}

OpDef gather_nd_backward() {
  return {.name = "gather_nd_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

OpDef scatter_nd() {
  return {.name = "scatter_nd",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_scatter,
          .factors = factors_scatter,
          .gradient = gradient_scatter,
          .cost = cost_backward};
}

}  // namespace weft::ops
