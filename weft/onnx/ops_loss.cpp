// Losses that stand in the file. x is [n, classes, d…] and labels are [n, d…].
//
//   loss = -w[label] x[label],  then none, the sum, or the sum over the sum of w
//
// A mean over the batch would be one over a micro-batch: graphs for training take --loss instead.
#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

namespace {

/// Classes last: [n, d…, classes].
ValueId classes_last(const Call& call) {
  return call.rank(0) == 2 ? call.value(0) : call.channels_last(0);
}

struct Labels {
  ValueId ids = -1;    // [n, d…], in range
  ValueId valid = -1;  // the same, 1 where the label counts; -1: all do
};

Labels labels_of(const Call& call, DType dtype) {
  Builder& b = call.b;
  Labels labels{.ids = cast(b, call.value(1), DType::i64), .valid = -1};
  if (call.has_attr("ignore_index")) {
    const ValueId ignored =
        with_number(b, "eq", labels.ids, static_cast<double>(call.whole("ignore_index", 0)));
    const ValueId counted = unary(b, "not", ignored);
    labels.ids = b.emit("mask", {labels.ids, counted}, {{"keep", std::int64_t{1}}, {"value", 0.0}});
    labels.valid = cast(b, counted, dtype);
  }
  return labels;
}

Ints all_dims(int rank) {
  Ints dims;
  for (int d = 0; d < rank; ++d) {
    dims.push_back(d);
  }
  return dims;
}

void give_loss(const Call& call, ValueId log_probabilities) {
  Builder& b = call.b;
  const DType dtype = b.type(log_probabilities).dtype;
  const Labels labels = labels_of(call, dtype);
  const Shape shape = b.type(labels.ids).shape;
  call.need(is_bound(shape), "over the batch; name the output with --loss instead");
  Shape column = shape;
  column.emplace_back(1);
  const ValueId picked =
      b.emit("gather_elements", {log_probabilities, reshape(b, labels.ids, column)},
             {{"dim", static_cast<std::int64_t>(shape.size())}});
  ValueId loss = unary(b, "neg", reshape(b, picked, shape));
  ValueId weights = labels.valid;
  if (call.has(2)) {
    const ValueId own = b.emit("gather", {call.value(2), labels.ids}, {{"dim", std::int64_t{0}}});
    weights = weights < 0 ? own : b.emit("mul", {own, weights});
  }
  if (weights >= 0) {
    loss = b.emit("mul", {loss, weights});
  }
  const std::string reduction = call.text("reduction", "mean");
  const Ints dims = all_dims(static_cast<int>(shape.size()));
  if (reduction == "sum" || (reduction == "mean" && weights >= 0)) {
    loss = reduce(b, "sum", loss, dims, false);
  } else if (reduction == "mean") {
    loss = reduce(b, "mean", loss, dims, false);
  }
  if (reduction == "mean" && weights >= 0) {
    loss = binary(b, "div", loss, reduce(b, "sum", weights, dims, false));
  }
  call.give(0, loss, call.element(0));
}

void emit_nll(const Call& call) {
  give_loss(call, classes_last(call));
}

void emit_softmax_cross_entropy(const Call& call) {
  Builder& b = call.b;
  const ValueId x = classes_last(call);
  const Shape shape = b.type(x).shape;
  Dim rows(1);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    rows = rows * shape[d];
  }
  const ValueId flat = shape.size() > 4 ? reshape(b, x, {rows, shape.back()}) : x;
  const ValueId logs = reshape(b, b.emit("log_softmax", {flat}), shape);
  give_loss(call, logs);
  if (call.rank(0) == 2) {
    call.give(1, logs, call.element(0));
  } else {
    call.give_channels_last(1, logs, call.element(0));
  }
}

}  // namespace

std::vector<OnnxOp> loss_ops() {
  return {{"NegativeLogLikelihoodLoss", emit_nll},
          {"SoftmaxCrossEntropyLoss", emit_softmax_cross_entropy}};
}

}  // namespace weft::onnx_import
