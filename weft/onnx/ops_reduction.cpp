// Ops that look along dims: sums and extremes, softmax, places of extremes, running sums.
#include <algorithm>
#include <array>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

std::int64_t flag(bool value) {
  return value ? 1 : 0;
}

/// A tensor and the dims to reduce, in the layout in which the result is given.
struct Reduction {
  ValueId x = -1;
  Ints dims;
  bool keep = true;
  bool channels_last = false;
};

// An image that is reduced to [b,c,1,1], or over all its places, stays as it lies.
Reduction reduction_of(const Call& call) {
  const int rank = call.rank(0);
  Ints axes = call.list("axes", 1);
  Reduction r{.x = -1, .dims = {}, .keep = call.whole("keepdims", 1) != 0, .channels_last = false};
  if (axes.empty() && call.whole("noop_with_empty_axes", 0) == 0) {
    for (int d = 0; d < rank; ++d) {
      axes.push_back(d);
    }
  }
  r.dims = sorted_axes(call, axes, rank);
  const bool image = call.in(0).channels_last >= 0 && call.in(0).plain < 0;
  int places = 0;
  for (const std::int64_t d : r.dims) {
    places += d >= 2 ? 1 : 0;
  }
  if (!image || !(r.keep || places == rank - 2)) {
    r.x = call.value(0);
    return r;
  }
  for (std::int64_t& d : r.dims) {
    d = d == 0 ? 0 : d == 1 ? rank - 1 : d - 1;
  }
  std::ranges::sort(r.dims);
  r.x = call.channels_last(0);
  r.channels_last = r.keep;
  return r;
}

ValueId sum(const Call& call, const Reduction& r, ValueId x) {
  return reduce(call.b, "sum", x, r.dims, r.keep);
}

// log of a sum of exponentials, the largest taken out so that nothing overflows
ValueId log_sum_exp(const Call& call, const Reduction& r) {
  Builder& b = call.b;
  if (r.dims.empty()) {
    return r.x;
  }
  const ValueId top = reduce(b, "max", r.x, r.dims, true);
  const ValueId parts = unary(b, "exp", binary(b, "sub", r.x, top));
  const ValueId logs =
      binary(b, "add", unary(b, "log", reduce(b, "sum", parts, r.dims, true)), top);
  if (r.keep) {
    return logs;
  }
  Shape shape;
  for (int d = 0; d < b.type(logs).rank(); ++d) {
    if (std::ranges::find(r.dims, d) == r.dims.end()) {
      shape.push_back(b.type(logs).shape[static_cast<std::size_t>(d)]);
    }
  }
  return reshape(b, logs, shape);
}

ValueId reduced(const Call& call, const Reduction& r) {
  Builder& b = call.b;
  const std::string& op = call.node.op;
  static const std::map<std::string_view, std::string_view> kDirect = {{"ReduceSum", "sum"},
                                                                       {"ReduceMean", "mean"},
                                                                       {"ReduceMax", "max"},
                                                                       {"ReduceMin", "min"},
                                                                       {"ReduceProd", "prod"}};
  const auto direct = kDirect.find(op);
  if (direct != kDirect.end()) {
    return reduce(b, direct->second, r.x, r.dims, r.keep);
  }
  if (op == "ReduceL1") {
    return sum(call, r, unary(b, "abs", r.x));
  }
  if (op == "ReduceLogSum") {
    return unary(b, "log", sum(call, r, r.x));
  }
  if (op == "ReduceLogSumExp") {
    return log_sum_exp(call, r);
  }
  const ValueId squares = sum(call, r, unary(b, "square", r.x));
  return op == "ReduceL2" ? unary(b, "sqrt", squares) : squares;
}

void emit_reduce(const Call& call) {
  const Reduction r = reduction_of(call);
  const ValueId y = reduced(call, r);
  if (r.channels_last) {
    call.give_channels_last(0, y, call.element(0));
  } else {
    call.give(0, y, call.element(0));
  }
}

// ---- along one dim

// Runs `along` over the last dim: over `axis` since opset 13, over all dims from `axis` on before.
template <typename Along>
void over_axis(const Call& call, Along along) {
  Builder& b = call.b;
  const bool flat = call.importer.opset() < 13;
  const int rank = call.rank(0);
  const int axis = call.axis(call.whole("axis", flat ? 1 : -1), rank);
  ValueId x = call.value(0);
  const Shape shape = b.type(x).shape;
  if (flat) {
    Shape rows = {1, 1};
    for (int d = 0; d < rank; ++d) {
      Dim& part = rows[d < axis ? 0 : 1];
      part = part * shape[static_cast<std::size_t>(d)];
    }
    const bool last = axis == rank - 1 && rank <= 5;
    x = along(last ? x : reshape(b, x, rows));
    call.give(0, reshape(b, x, shape), call.element(0));
    return;
  }
  Ints swap;
  for (int d = 0; d < rank; ++d) {
    swap.push_back(d == axis ? rank - 1 : d == rank - 1 ? axis : d);
  }
  x = transpose(b, x, swap);
  const Shape turned = b.type(x).shape;
  Dim rows(1);
  for (int d = 0; d + 1 < rank; ++d) {
    rows = rows * turned[static_cast<std::size_t>(d)];
  }
  x = along(rank <= 5 ? x : reshape(b, x, {rows, turned.back()}));
  call.give(0, transpose(b, reshape(b, x, turned), swap), call.element(0));
}

void emit_softmax(const Call& call) {
  over_axis(call, [&](ValueId x) { return call.b.emit("softmax", {x}); });
}

void emit_log_softmax(const Call& call) {
  over_axis(call, [&](ValueId x) { return call.b.emit("log_softmax", {x}); });
}

ValueId arg_extreme(Builder& b, ValueId x, std::string_view function, int dim, bool keep,
                    bool last) {
  return b.emit("arg_max", {x},
                {{"dim", std::int64_t{dim}},
                 {"keep", flag(keep)},
                 {"function", std::string(function)},
                 {"last", flag(last)}});
}

// 1 at the first of the largest
void emit_hardmax(const Call& call) {
  over_axis(call, [&](ValueId x) {
    const TensorType type = call.b.type(x);
    const ValueId place = arg_extreme(call.b, x, "max", type.rank() - 1, false, false);
    return call.b.emit("one_hot", {place},
                       {{"depth", type.shape.back().size},
                        {"dtype", std::string(dtype_name(type.dtype))},
                        {"on", 1.0},
                        {"off", 0.0}});
  });
}

void emit_arg(const Call& call) {
  const int axis = call.axis(call.whole("axis", 0), call.rank(0));
  const ValueId y =
      arg_extreme(call.b, call.value(0), call.node.op == "ArgMax" ? "max" : "min", axis,
                  call.whole("keepdims", 1) != 0, call.whole("select_last_index", 0) != 0);
  call.give(0, y, Element::i64);
}

void emit_top_k(const Call& call) {
  const std::int64_t k = call.has(1) ? call.known(1, "k").whole(0) : call.whole("k", 0);
  const int axis = call.axis(call.whole("axis", -1), call.rank(0));
  const std::vector<ValueId> found = call.b.emit_all("top_k", {call.value(0)},
                                                     {{"k", k},
                                                      {"dim", std::int64_t{axis}},
                                                      {"largest", call.whole("largest", 1)},
                                                      {"sorted", call.whole("sorted", 1)}});
  call.give(0, found[0], call.element(0));
  call.give(1, found[1], Element::i64);
}

void emit_cumsum(const Call& call) {
  const int axis = call.axis(call.known(1, "the axis").whole(0), call.rank(0));
  const ValueId y = call.b.emit("cumsum", {call.value(0)},
                                {{"dim", std::int64_t{axis}},
                                 {"exclusive", call.whole("exclusive", 0)},
                                 {"reverse", call.whole("reverse", 0)}});
  call.give(0, y, call.element(0));
}

// x over its norm along an axis
void emit_lp_normalization(const Call& call) {
  const int axis = call.axis(call.whole("axis", -1), call.rank(0));
  const bool first = call.whole("p", 2) == 1;
  Builder& b = call.b;
  const ValueId x = call.value(0);
  ValueId norm = reduce(b, "sum", unary(b, first ? "abs" : "square", x), {axis}, true);
  norm = first ? norm : unary(b, "sqrt", norm);
  call.give(0, binary(b, "div", x, norm), call.element(0));
}

}  // namespace

std::vector<OnnxOp> reduction_ops() {
  std::vector<OnnxOp> ops = {{"ArgMax", emit_arg},
                             {"ArgMin", emit_arg},
                             {"CumSum", emit_cumsum},
                             {"Hardmax", emit_hardmax},
                             {"LogSoftmax", emit_log_softmax},
                             {"LpNormalization", emit_lp_normalization},
                             {"Softmax", emit_softmax},
                             {"TopK", emit_top_k}};
  for (const char* name :
       {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
        "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}) {
    ops.push_back({name, emit_reduce});
  }
  return ops;
}

}  // namespace weft::onnx_import
