// Ops that treat each element alone. Images keep their channels last: a node whose first operand of
// full rank lies so works on that layout, and what joins it is turned.
#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

bool lies_channels_last(const Operand& x) {
  return x.channels_last >= 0 && x.plain < 0;
}

/// The operands of a node in one layout.
struct Aligned {
  std::vector<ValueId> values;
  bool channels_last = false;
};

// A number that fills a tensor is one number here, if another operand has the shape of the result.
ValueId number_of(const Call& call, int i, int rank) {
  Operand& x = call.in(i);
  const Known* known = x.is_constant() && x.plain < 0 ? call.importer.numbers(x) : nullptr;
  if (known == nullptr || x.rank() >= rank) {
    return -1;
  }
  if (!x.is_number) {
    x.is_number = known->is_splat() && !known->mentions_batch() && std::isfinite(known->number(0));
  }
  return *x.is_number ? scalar(call.b, known->number(0), call.importer.dtype(x.element)) : -1;
}

/// `plain` turned to channels last; [c,1,1] is [1,1,c], a shape without the samples.
ValueId turned(const Call& call, ValueId plain, int rank) {
  Shape shape = call.b.type(plain).shape;
  shape.insert(shape.begin(), static_cast<std::size_t>(rank) - shape.size(), Dim(1));
  return transpose(call.b, reshape(call.b, plain, shape), to_channels_last(rank));
}

ValueId operand(const Call& call, int i, int rank, bool channels_last) {
  const ValueId number = number_of(call, i, rank);
  if (number >= 0 || !channels_last) {
    return number >= 0 ? number : call.value(i);
  }
  Operand& x = call.in(i);
  return x.rank() == rank && x.channels_last >= 0 ? x.channels_last
                                                  : turned(call, call.value(i), rank);
}

Aligned aligned(const Call& call, int first, int last) {
  int rank = 0;
  for (int i = first; i < last; ++i) {
    rank = std::max(rank, call.rank(i));
  }
  Aligned result;
  for (int i = first; i < last; ++i) {
    const bool full = call.rank(i) == rank && rank >= 3;
    result.channels_last = result.channels_last || (full && lies_channels_last(call.in(i)));
  }
  for (int i = first; i < last; ++i) {
    result.values.push_back(operand(call, i, rank, result.channels_last));
  }
  return result;
}

void give_aligned(const Call& call, ValueId value, Element element, bool channels_last) {
  if (channels_last) {
    call.give_channels_last(0, value, element);
  } else {
    call.give(0, value, element);
  }
}

// ---- one operand

struct UnaryOp {
  std::string_view onnx;
  std::string_view function;
  std::string_view alpha;  // attribute, or empty
  double alpha_default = 0;
  std::string_view beta;
  double beta_default = 0;
};

constexpr double kSeluAlpha = 1.67326319217681884765625;
constexpr double kSeluGamma = 1.05070102214813232421875;

constexpr auto kUnary = std::to_array<UnaryOp>({
    {"Abs", "abs", "", 0, "", 0},
    {"Acos", "acos", "", 0, "", 0},
    {"Acosh", "acosh", "", 0, "", 0},
    {"Asin", "asin", "", 0, "", 0},
    {"Asinh", "asinh", "", 0, "", 0},
    {"Atan", "atan", "", 0, "", 0},
    {"Atanh", "atanh", "", 0, "", 0},
    {"Ceil", "ceil", "", 0, "", 0},
    {"Celu", "celu", "alpha", 1, "", 0},
    {"Cos", "cos", "", 0, "", 0},
    {"Cosh", "cosh", "", 0, "", 0},
    {"Elu", "elu", "alpha", 1, "", 0},
    {"Erf", "erf", "", 0, "", 0},
    {"Exp", "exp", "", 0, "", 0},
    {"Floor", "floor", "", 0, "", 0},
    {"HardSwish", "hard_swish", "", 0, "", 0},
    {"HardSigmoid", "hard_sigmoid", "alpha", 0.2, "beta", 0.5},
    {"LeakyRelu", "leaky_relu", "alpha", 0.01, "", 0},
    {"Log", "log", "", 0, "", 0},
    {"Neg", "neg", "", 0, "", 0},
    {"Reciprocal", "reciprocal", "", 0, "", 0},
    {"Round", "round", "", 0, "", 0},
    {"Selu", "selu", "alpha", kSeluAlpha, "gamma", kSeluGamma},
    {"Shrink", "shrink", "bias", 0, "lambd", 0.5},
    {"Sigmoid", "sigmoid", "", 0, "", 0},
    {"Sign", "sign", "", 0, "", 0},
    {"Sin", "sin", "", 0, "", 0},
    {"Sinh", "sinh", "", 0, "", 0},
    {"Softplus", "softplus", "", 0, "", 0},
    {"Softsign", "softsign", "", 0, "", 0},
    {"Sqrt", "sqrt", "", 0, "", 0},
    {"Tan", "tan", "", 0, "", 0},
    {"Tanh", "tanh", "", 0, "", 0},
    {"ThresholdedRelu", "thresholded_relu", "alpha", 1, "", 0},
});

void emit_unary(const Call& call) {
  const auto* op = std::ranges::find(kUnary, call.node.op, &UnaryOp::onnx);
  const Aligned x = aligned(call, 0, 1);
  ValueId y = -1;
  if (op->alpha.empty()) {
    y = unary(call.b, op->function, x.values[0]);
  } else {
    const double alpha = call.real(op->alpha, op->alpha_default);
    const double beta = op->beta.empty() ? 0 : call.real(op->beta, op->beta_default);
    y = unary(call.b, op->function, x.values[0], alpha, beta);
  }
  give_aligned(call, y, call.element(0), x.channels_last);
}

void emit_relu(const Call& call) {
  const Aligned x = aligned(call, 0, 1);
  const ValueId y = is_real(call.element(0)) ? call.b.emit("relu", {x.values[0]})
                                             : with_number(call.b, "max", x.values[0], 0);
  give_aligned(call, y, call.element(0), x.channels_last);
}

void emit_flag(const Call& call) {
  const Aligned x = aligned(call, 0, 1);
  if (call.node.op == "IsNaN") {
    give_aligned(call, unary(call.b, "isnan", x.values[0]), Element::boolean, x.channels_last);
    return;
  }
  if (call.node.op == "Not") {
    give_aligned(call, unary(call.b, "not", x.values[0]), Element::boolean, x.channels_last);
    return;
  }
  const bool positive = call.whole("detect_positive", 1) != 0;
  const bool negative = call.whole("detect_negative", 1) != 0;
  ValueId y = unary(call.b, "isinf", x.values[0]);
  if (!(positive && negative)) {
    const ValueId side = positive ? with_number(call.b, "gt", x.values[0], 0)
                                  : with_number(call.b, "lt", x.values[0], 0);
    y = positive || negative ? binary(call.b, "and", y, side) : binary(call.b, "xor", y, y);
  }
  give_aligned(call, y, Element::boolean, x.channels_last);
}

void emit_identity(const Call& call) {
  Operand copy = call.in(0);
  copy.name = call.node.outputs.at(0);
  if (copy.initializer != nullptr && copy.plain < 0) {
    copy.plain = call.value(0);
  }
  copy.is_input = false;
  call.importer.define(std::move(copy));
}

void emit_cast(const Call& call) {
  const Element to = call.node.op == "CastLike" ? call.element(1) : element_of(call.whole("to", 0));
  const Element from = call.element(0);
  call.need(has_dtype(to), fmt::format("to {}", element_name(to)));
  const Aligned x = aligned(call, 0, 1);
  ValueId y = x.values[0];
  if (to == Element::boolean && from != Element::boolean) {
    y = unary(call.b, "not", with_number(call.b, "eq", y, 0));
  } else {
    y = cast(call.b, y, call.importer.dtype(to));
  }
  give_aligned(call, y, to, x.channels_last);
}

// Bounds are attributes until opset 10, scalars that may be left out since.
void emit_clip(const Call& call) {
  const Aligned x = aligned(call, 0, 1);
  ValueId y = x.values[0];
  const auto bound = [&](int i, std::string_view name, std::string_view function) {
    if (call.has(i)) {
      const ValueId limit = call.is_known(i) ? scalar(call.b, call.known(i, name).number(0),
                                                      call.importer.dtype(call.element(0)))
                                             : call.value(i);
      y = binary(call.b, function, y, limit);
    } else if (call.has_attr(name)) {
      y = with_number(call.b, function, y, call.real(name, 0));
    }
  };
  bound(1, "min", "max");
  bound(2, "max", "min");
  give_aligned(call, y, call.element(0), x.channels_last);
}

// Values are kept with probability 1 - p and scaled up; only in training.
void emit_dropout(const Call& call) {
  const Aligned x = aligned(call, 0, 1);
  double p = call.has(1) ? call.known(1, "the ratio").number(0) : call.real("ratio", 0.5);
  const bool training = call.has(2) ? call.known(2, "training_mode").number(0) != 0
                                    : call.importer.opset() < 7 && call.whole("is_test", 0) == 0;
  p = training ? p : 0;
  ValueId y = x.values[0];
  if (p > 0) {
    call.need(!call.wants(1), "with a mask that is used");
    y = call.b.emit("dropout", {y}, {{"p", p}});
  }
  give_aligned(call, y, call.element(0), x.channels_last);
  if (call.wants(1)) {
    Known mask = known_scalar(1, Element::boolean);
    Ints dims;
    bool bound = true;
    for (const Dim dim : call.shape(0)) {
      dims.push_back(dim.size);
      bound = bound && !dim.batched;
    }
    if (bound) {
      call.importer.count_read(checked_elements(dims));
      call.give(1, strided(mask, dims, Ints(dims.size(), 0)));
    }
  }
}

// ---- two operands

// Arithmetic of bytes is that of i32, cut to eight bits.
bool is_byte_arithmetic(const Call& call, std::string_view function) {
  static const std::set<std::string_view> kArithmetic = {"add", "sub",  "mul", "div",
                                                         "mod", "fmod", "pow"};
  return call.element(0) == Element::u8 && kArithmetic.contains(function);
}

ValueId arithmetic(const Call& call, std::string_view function, ValueId x, ValueId y) {
  if (!is_byte_arithmetic(call, function)) {
    return binary(call.b, function, x, y);
  }
  const ValueId wide =
      binary(call.b, function, cast(call.b, x, DType::i32), cast(call.b, y, DType::i32));
  return cast(call.b, wide, DType::u8);
}

struct BinaryOp {
  std::string_view onnx;
  std::string_view function;
  bool gives_flag = false;
};

constexpr auto kBinary = std::to_array<BinaryOp>({
    {"Add", "add"},
    {"And", "and"},
    {"Div", "div"},
    {"Equal", "eq", true},
    {"Greater", "gt", true},
    {"GreaterOrEqual", "ge", true},
    {"Less", "lt", true},
    {"LessOrEqual", "le", true},
    {"Max", "max"},
    {"Mean", "add"},
    {"Min", "min"},
    {"Mul", "mul"},
    {"Or", "or"},
    {"PRelu", "prelu"},
    {"Pow", "pow"},
    {"Sub", "sub"},
    {"Sum", "add"},
    {"Xor", "xor"},
});

// Until opset 6 dims of the second operand began at `axis` of the first, if asked for; the slope of
// PRelu was one of each channel.
bool has_legacy_axis(const Call& call) {
  const bool slopes = call.node.op == "PRelu" && call.rank(1) == 1 && call.shape(1)[0] != Dim(1);
  const bool asked = call.whole("broadcast", 0) != 0 && call.has_attr("axis");
  return call.importer.opset() < 7 && call.inputs() == 2 && (slopes || asked);
}

Aligned legacy_aligned(const Call& call) {
  const int rank = call.rank(0);
  const int axis = call.node.op == "PRelu" ? 1 : call.axis(call.whole("axis", 0), rank);
  Shape shape = call.shape(1);
  call.need(axis + call.rank(1) <= rank, "an axis that does not fit");
  shape.resize(static_cast<std::size_t>(rank - axis), Dim(1));
  const ValueId second = reshape(call.b, call.value(1), shape);
  if (rank >= 3 && lies_channels_last(call.in(0))) {
    return {{call.channels_last(0), turned(call, second, rank)}, true};
  }
  return {{call.value(0), second}, false};
}

void emit_binary(const Call& call) {
  const auto* op = std::ranges::find(kBinary, call.node.op, &BinaryOp::onnx);
  call.need(call.inputs() >= 1, "without operands");
  const Aligned x = has_legacy_axis(call) ? legacy_aligned(call) : aligned(call, 0, call.inputs());
  ValueId y = x.values[0];
  for (std::size_t i = 1; i < x.values.size(); ++i) {
    ValueId next = x.values[i];
    if (op->function == "pow" || op->function == "prelu") {
      next = cast(call.b, next, call.b.type(y).dtype);  // the exponent may be of another type
    }
    y = arithmetic(call, op->function, y, next);
  }
  if (call.node.op == "Mean") {
    y = with_number(call.b, "mul", y, 1.0 / static_cast<double>(x.values.size()));
  }
  give_aligned(call, y, op->gives_flag ? Element::boolean : call.element(0), x.channels_last);
}

void emit_mod(const Call& call) {
  const Aligned x = aligned(call, 0, 2);
  const ValueId y =
      arithmetic(call, call.whole("fmod", 0) != 0 ? "fmod" : "mod", x.values[0], x.values[1]);
  give_aligned(call, y, call.element(0), x.channels_last);
}

void emit_shift(const Call& call) {
  const Aligned x = aligned(call, 0, 2);
  const bool left = call.text("direction", "") == "LEFT";
  const ValueId y = binary(call.b, left ? "shift_left" : "shift_right", x.values[0], x.values[1]);
  give_aligned(call, y, call.element(0), x.channels_last);
}

void emit_where(const Call& call) {
  const Aligned x = aligned(call, 0, 3);
  Builder& b = call.b;
  Shape shape = common_shape(b.type(x.values[0]).shape, b.type(x.values[1]).shape);
  shape = common_shape(shape, b.type(x.values[2]).shape);
  const ValueId y =
      b.emit("where", {broadcast(b, x.values[0], shape), broadcast(b, x.values[1], shape),
                       broadcast(b, x.values[2], shape)});
  give_aligned(call, y, call.element(1), x.channels_last);
}

}  // namespace

std::vector<OnnxOp> elementwise_ops() {
  std::vector<OnnxOp> ops = {
      {"BitShift", emit_shift}, {"Cast", emit_cast},       {"CastLike", emit_cast},
      {"Clip", emit_clip},      {"Dropout", emit_dropout}, {"Identity", emit_identity, 1},
      {"IsInf", emit_flag},     {"IsNaN", emit_flag},      {"Mod", emit_mod},
      {"Not", emit_flag, 1},    {"Relu", emit_relu},       {"Where", emit_where}};
  for (const UnaryOp& op : kUnary) {
    const bool unchanged = op.onnx == "Softplus" || op.onnx == "Softsign";
    ops.push_back({op.onnx, emit_unary, unchanged ? 1 : 6});
  }
  for (const BinaryOp& op : kBinary) {
    ops.push_back({op.onnx, emit_binary});
  }
  return ops;
}

}  // namespace weft::onnx_import
