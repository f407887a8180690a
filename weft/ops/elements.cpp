// gather_elements(x, ids){dim} -> y:             y[i, k, j] = x[i, ids[i, k, j], j]
// scatter_elements(x, ids, u){dim, reduction}:   y = x, then y[i, ids[i, k, j], j] op= u[i, k, j]
//
// where `dim` is the one between i and j; -1 is the last entry. ids and u have the sizes of x but
// along dim. `reduction` is none (the last of several wins), add or mul. dim stays whole; the other
// dims may be split.
//
// Gradients. A gather scatters dy with addition (gather_elements_backward). A scatter of values
// (none) or sums (add) gathers dy for u; x keeps dy, but none where it was overwritten. For mul
// there is no gradient: it would need the products of the other factors.
#include "weft/ops/scatter.h"

#include "weft/ops/all_ops.h"
#include "weft/ops/builder.h"
#include "weft/ops/rules.h"

namespace weft::ops {
namespace {

int checked_dim(const OpCall& call, const TensorType& x, const TensorType& ids,
                std::string_view op) {
  const int dim = dim_of(attr_int(call.attrs, "dim"), x.rank(), op);
  require(ids.dtype == DType::i64, "{}: ids are {}, but must be i64; cast them first", op,
          format_type(ids));
  bool fits = ids.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    fits = i == dim ? !x.shape[at].batched && !ids.shape[at].batched : x.shape[at] == ids.shape[at];
  }
  require(fits, "{}: ids {} do not fit {}; they may differ in dim {} only, which is not the batch",
          op, format_type(ids), format_type(x), dim);
  return dim;
}

// Letters of a tensor and of one that differs from it in `dim`.
struct Names {
  std::string x;
  std::string ids;
  std::string whole;
};

Names names_of(const OpCall& call, std::string_view op) {
  const int rank = call.inputs[0].rank();
  const int dim = dim_of(attr_int(call.attrs, "dim"), rank, op);
  Letters next;
  Names names;
  for (int i = 0; i < rank; ++i) {
    names.x += next.next(op);
    names.ids += i == dim ? next.next(op) : names.x.back();
  }
  const auto at = static_cast<std::size_t>(dim);
  names.whole = {names.x[at], names.ids[at]};
  return names;
}

TensorTypes infer_gather(const OpCall& call) {
  (void)checked_dim(call, call.inputs[0], call.inputs[1], "gather_elements");
  return {{call.inputs[1].shape, call.inputs[0].dtype}};
}

FactorRule factors_gather(const OpCall& call) {
  const Names names = names_of(call, "gather_elements");
  const std::string ids = spaced(names.ids);
  return {
      .dims = spaced(names.x) + ", " + ids + " -> " + ids, .whole = names.whole, .linear = {{0}}};
}

std::vector<ValueId> gradient_gather(const Backward& b) {
  if (!b.wanted[0]) {
    return {-1, -1};
  }
  return {emit_elements_backward(b.build, b.output_grads[0], b.inputs[1], b.inputs[0],
                                 attr_int(b.node.attrs, "dim")),
          -1};
}

Cost cost_gather(const OpCall& call) {
  const double moved = static_cast<double>(call.outputs[0].bytes());
  return {.flops = 0, .bytes_moved = 2.0 * moved + static_cast<double>(call.inputs[1].bytes())};
}

// ---- gather_elements_backward(dy, ids){dim, length} -> dx

TensorTypes infer_backward(const OpCall& call) {
  require_floating(call, "gather_elements_backward", 0);
  TensorType x = call.inputs[0];
  require(x.shape == call.inputs[1].shape,
          "gather_elements_backward: gradient {} and ids {} differ", format_type(x),
          format_type(call.inputs[1]));
  const int dim = checked_dim(call, x, call.inputs[1], "gather_elements_backward");
  x.shape[static_cast<std::size_t>(dim)] = Dim(attr_int(call.attrs, "length"));
  return {x};
}

FactorRule factors_backward(const OpCall& call) {
  const Names names = names_of(call, "gather_elements_backward");
  const std::string ids = spaced(names.ids);
  return {
      .dims = ids + ", " + ids + " -> " + spaced(names.x), .whole = names.whole, .linear = {{0}}};
}

Cost cost_backward(const OpCall& call) {
  return streaming_cost(call, 1);
}

// ---- scatter_elements

TensorTypes infer_scatter(const OpCall& call) {
  const TensorType& x = call.inputs[0];
  (void)checked_dim(call, x, call.inputs[1], "scatter_elements");
  require_reduction(call, "scatter_elements");
  require(call.inputs[2] == TensorType({call.inputs[1].shape, x.dtype}),
          "scatter_elements: updates {} do not fit ids {} and {}", format_type(call.inputs[2]),
          format_type(call.inputs[1]), format_type(x));
  return {x};
}

FactorRule factors_scatter(const OpCall& call) {
  const Names names = names_of(call, "scatter_elements");
  const std::string x = spaced(names.x);
  const std::string ids = spaced(names.ids);
  FactorRule rule{.dims = x + ", " + ids + ", " + ids + " -> " + x, .whole = names.whole};
  if (attr_text(call.attrs, "reduction") != "mul") {
    rule.linear = {{0, 2}};
  }
  return rule;
}

std::vector<ValueId> gradient_scatter(const Backward& b) {
  return scatter_gradients(b, "scatter_elements", "gather_elements",
                           {{"dim", attr_int(b.node.attrs, "dim")}});
}

}  // namespace

void require_reduction(const OpCall& call, std::string_view op) {
  const std::string& reduction = attr_text(call.attrs, "reduction");
  require(reduction == "none" || reduction == "add" || reduction == "mul",
          "{}: there is no reduction '{}'; known are none, add, mul", op, reduction);
  require_number(call, op, 0);
}

ValueId emit_elements_backward(Builder& build, ValueId dy, ValueId ids, ValueId x,
                               std::int64_t dim) {
  const TensorType& type = build.type(x);
  const int at = dim_of(dim, type.rank(), "gather_elements");
  return build.emit(
      "gather_elements_backward", {dy, ids},
      {{"dim", std::int64_t{at}}, {"length", type.shape[static_cast<std::size_t>(at)].size}});
}

std::vector<ValueId> scatter_gradients(const Backward& b, std::string_view scatter,
                                       std::string_view gather, const Attrs& gather_attrs) {
  const std::string& reduction = attr_text(b.node.attrs, "reduction");
  require(reduction != "mul",
          "node '{}': {} with reduction mul has no gradient; multiply by a "
          "tensor of factors instead",
          b.node.name, scatter);
  const ValueId dy = b.output_grads[0];
  std::vector<ValueId> grads{-1, -1, -1};
  if (b.wanted[0] && reduction == "add") {
    grads[0] = dy;
  } else if (b.wanted[0]) {
    const ValueId zeros = b.build.emit("scale", {b.inputs[2]}, {{"value", 0.0}});
    grads[0] = b.build.emit(scatter, {dy, b.inputs[1], zeros}, b.node.attrs);
  }
  if (b.wanted[2]) {
    grads[2] = b.build.emit(gather, {dy, b.inputs[1]}, gather_attrs);
  }
  return grads;
}

OpDef gather_elements() {
  return {.name = "gather_elements",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_gather,
          .factors = factors_gather,
          .gradient = gradient_gather,
          .cost = cost_gather};
}

OpDef gather_elements_backward() {
  return {.name = "gather_elements_backward",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_backward,
          .factors = factors_backward,
          .no_gradient = "it is itself a gradient",
          .cost = cost_backward};
}

OpDef scatter_elements() {
  return {.name = "scatter_elements",
          .min_inputs = 3,
          .max_inputs = 3,
          .infer = infer_scatter,
          .factors = factors_scatter,
          .gradient = gradient_scatter,
          .cost = cost_backward};
}

}  // namespace weft::ops
