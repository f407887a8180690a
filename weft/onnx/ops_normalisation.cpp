// Normalisations: over the batch, over samples, over features.
#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/ops/rules.h"

namespace weft::onnx_import {

namespace {

std::string wide(Builder& b, ValueId x) {
  return std::string(dtype_name(ops::sum_dtype(b.type(x).dtype)));
}

/// The operand with channels last; [b, c] has them last already.
ValueId rows(const Call& call) {
  return call.rank(0) >= 3 ? call.channels_last(0) : call.value(0);
}

void give_rows(const Call& call, ValueId y) {
  if (call.rank(0) >= 3) {
    call.give_channels_last(0, y, call.element(0));
  } else {
    call.give(0, y, call.element(0));
  }
}

// The running statistic moves towards what the whole step saw: each micro-batch adds its part, by
// its share of the samples. Outside of training there is one micro-batch, and no next step.
void update_statistic(const Call& call, int input, int output, ValueId seen, double momentum) {
  Builder& b = call.b;
  const ValueId old = call.importer.statistic(call.in(input));
  const ValueId share = call.importer.sample_share();
  if (share < 0) {
    const ValueId next = binary(b, "add", with_number(b, "mul", call.value(input), 1 - momentum),
                                with_number(b, "mul", seen, momentum));
    call.give(output, next, call.element(input));
    return;
  }
  const std::string dtype(dtype_name(b.type(old).dtype));
  const ValueId part = b.emit("mul", {seen, share});
  const ValueId whole = b.emit("accumulate", {part}, {{"dtype", dtype}}, "statistic");
  b.set_role(Role::update);
  b.graph().next.push_back({old, b.emit("ema", {old, whole}, {{"momentum", momentum}})});
  b.set_role(Role::forward);
}

// Statistics of ONNX are those of the samples themselves; ours are estimates of where they come
// from, n / (n - 1) times as large.
ValueId of_samples(Builder& b, ValueId variance, ValueId count) {
  const ValueId one = scalar(b, 1, b.type(count).dtype);
  const ValueId factor = binary(b, "div", binary(b, "sub", count, one), count);
  return b.emit("mul", {variance, cast(b, factor, b.type(variance).dtype)});
}

void training_batch_norm(const Call& call, double eps) {
  Builder& b = call.b;
  const ValueId x = rows(call);
  const std::vector<ValueId> sums = b.emit_all("batch_norm_sums", {x}, {}, "sums");
  const std::vector<ValueId> moments =
      b.emit_all("batch_norm_moments", sums, {{"eps", eps}, {"dtype", wide(b, x)}}, "moments");
  const ValueId y =
      b.emit("batch_norm", {x, moments[0], moments[1], sums[2], call.value(1), call.value(2)});
  give_rows(call, y);
  const double momentum = 1 - call.real("momentum", 0.9);
  if (call.wants(1)) {
    update_statistic(call, 3, 1, moments[0], momentum);
  }
  if (call.wants(2)) {
    update_statistic(call, 4, 2, of_samples(b, moments[2], sums[2]), momentum);
  }
}

void emit_batch_norm(const Call& call) {
  const double eps = call.real("epsilon", 1e-5);
  const std::int64_t opset = call.importer.opset();
  call.need(call.whole("spatial", 1) == 1, "that is not spatial");
  const bool training = opset >= 14 ? call.whole("training_mode", 0) != 0
                        : opset < 7 ? call.whole("is_test", 0) == 0
                                    : call.wants(1);
  if (training) {
    training_batch_norm(call, eps);
    return;
  }
  Builder& b = call.b;
  const ValueId x = rows(call);
  const ValueId mean = call.importer.statistic(call.in(3));
  const ValueId variance = call.importer.statistic(call.in(4));
  give_rows(call, b.emit("batch_norm_inference", {x, mean, variance, call.value(1), call.value(2)},
                         {{"eps", eps}}));
}

void emit_instance_norm(const Call& call) {
  call.need(call.rank(0) >= 3 && call.rank(0) <= 5, "other than one to three spatial dims");
  const ValueId y =
      call.b.emit_all("group_norm", {call.channels_last(0), call.value(1), call.value(2)},
                      {{"groups", call.shape(0)[1].size}, {"eps", call.real("epsilon", 1e-5)}})[0];
  call.give_channels_last(0, y, call.element(0));
}

// Over all dims from `axis` on, which become one.
void emit_layer_norm(const Call& call) {
  Builder& b = call.b;
  const Shape& shape = call.shape(0);
  const int axis = call.axis(call.whole("axis", -1), call.rank(0));
  Shape flat = {1, 1};
  Shape outer(shape.begin(), shape.begin() + axis);
  for (int d = 0; d < call.rank(0); ++d) {
    Dim& part = flat[d < axis ? 0 : 1];
    part = part * shape[static_cast<std::size_t>(d)];
  }
  const Dim features = flat[1];
  call.need(!features.batched, "over the batch");
  const bool as_is = axis == call.rank(0) - 1 && axis >= 1 && axis <= 3;
  const ValueId x = as_is ? call.value(0) : reshape(b, call.value(0), flat);
  const DType dtype = b.type(x).dtype;
  const ValueId w = reshape(b, call.value(1), {features});
  const ValueId bias = call.has(2) ? reshape(b, call.value(2), {features})
                                   : broadcast(b, scalar(b, 0, dtype), {features});
  const std::vector<ValueId> y =
      b.emit_all("layer_norm", {x, w, bias}, {{"eps", call.real("epsilon", 1e-5)}});
  call.give(0, reshape(b, y[0], shape), call.element(0));
  outer.resize(shape.size(), Dim(1));
  for (int i = 1; i < 3; ++i) {
    if (call.wants(i)) {
      call.give(i, reshape(b, y[static_cast<std::size_t>(i)], outer), Element::f32);
    }
  }
}

// (x - mean) / sqrt(variance) over the axes
void emit_mean_variance(const Call& call) {
  Builder& b = call.b;
  Ints axes = call.wholes("axes");
  axes = axes.empty() ? Ints{0, 2, 3} : axes;
  const ValueId x = call.value(0);
  const ValueId centred = binary(b, "sub", x, reduce(b, "mean", x, axes, true));
  const ValueId variance = reduce(b, "mean", unary(b, "square", centred), axes, true);
  const ValueId deviation = with_number(b, "add", unary(b, "sqrt", variance), 1e-9);
  call.give(0, binary(b, "div", centred, deviation), call.element(0));
}

// x / (bias + alpha / size * sum of squares of `size` channels around)^beta: an average pool over
// channels, as places in a row.
void emit_lrn(const Call& call) {
  Builder& b = call.b;
  const std::int64_t size = call.whole("size", 1);
  call.need(call.rank(0) >= 3 && size > 0 && size < (std::int64_t{1} << 20), "of other dims");
  const ValueId x = call.channels_last(0);
  const Shape shape = b.type(x).shape;
  Dim pixels(1);
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) {
    pixels = pixels * shape[d];
  }
  const ValueId squares = reshape(b, unary(b, "square", x), {pixels, shape.back(), 1});
  const ValueId mean = b.emit("avg_pool", {squares},
                              {{"kernel", Ints{size}},
                               {"stride", Ints{1}},
                               {"padding", Ints{(size - 1) / 2, size - 1 - (size - 1) / 2}},
                               {"ceil", std::int64_t{0}},
                               {"count_include_pad", std::int64_t{1}}});
  ValueId scaled = with_number(b, "mul", reshape(b, mean, shape), call.real("alpha", 1e-4));
  scaled = with_number(b, "add", scaled, call.real("bias", 1));
  const ValueId y = binary(b, "div", x, with_number(b, "pow", scaled, call.real("beta", 0.75)));
  call.give_channels_last(0, y, call.element(0));
}

}  // namespace

std::vector<OnnxOp> normalisation_ops() {
  return {{"BatchNormalization", emit_batch_norm},
          {"InstanceNormalization", emit_instance_norm},
          {"LRN", emit_lrn},
          {"LayerNormalization", emit_layer_norm},
          {"MeanVarianceNormalization", emit_mean_variance}};
}

}  // namespace weft::onnx_import
