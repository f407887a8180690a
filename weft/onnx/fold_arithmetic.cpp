// Arithmetic on known tensors, element by element and along dims.
#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/base/error.h"
#include "weft/onnx/fold.h"

namespace weft::onnx_import {

namespace {

using RealFn = double (*)(double, double);
using WholeFn = Whole (*)(Whole, Whole);

Known elementwise(const Known& a, const Known& b, RealFn reals, WholeFn wholes) {
  require(a.element == b.element, "operands are of {} and {}", element_name(a.element),
          element_name(b.element));
  const Ints dims = broadcast_dims(a.dims, b.dims);
  const Known x = strided(a, dims, broadcast_strides(a.dims, dims));
  const Known y = strided(b, dims, broadcast_strides(b.dims, dims));
  Known result{.element = a.element, .dims = dims, .reals = {}, .wholes = {}};
  for (std::size_t i = 0; i < x.reals.size(); ++i) {
    result.reals.push_back(round_to(reals(x.reals[i], y.reals[i]), a.element));
  }
  for (std::size_t i = 0; i < x.wholes.size(); ++i) {
    const Whole n = wholes(x.wholes[i], y.wholes[i]);
    result.wholes.push_back({n.batched ? n.n : wrap_to(n.n, a.element), n.batched});
  }
  return result;
}

template <RealFn kReals, WholeFn kWholes>
void binary_fold(const Call& call) {
  Known result = call.known(0, "an operand");
  for (int i = 1; i < call.inputs(); ++i) {
    result = elementwise(result, call.known(i, "an operand"), kReals, kWholes);
    call.importer.count_read(result.elements());
  }
  call.give(0, std::move(result));
}

Whole whole_power(Whole a, Whole b) {
  require(!a.batched && !b.batched, "a power depends on the batch size");
  return {cut_to_whole(std::pow(static_cast<double>(a.n), static_cast<double>(b.n))), false};
}

void modulo_fold(const Call& call) {
  const Known& a = call.known(0, "an operand");
  const Known& b = call.known(1, "an operand");
  const bool c_like = call.whole("fmod", 0) != 0;
  call.give(0, elementwise(
                   a, b, [](double x, double y) { return std::fmod(x, y); },
                   c_like ? [](Whole x, Whole y) { return remainder(x, y, false); }
                          : [](Whole x, Whole y) { return remainder(x, y, true); }));
}

// Comparisons give booleans: 1 and 0 computed in the operands' type, then renamed.
template <bool (*kHolds)(int)>
void compare_fold(const Call& call) {
  Known result = elementwise(
      call.known(0, "an operand"), call.known(1, "an operand"),
      [](double x, double y) {
        const bool unordered = std::isnan(x) || std::isnan(y);
        return !unordered && kHolds(x < y ? -1 : x > y ? 1 : 0) ? 1.0 : 0.0;
      },
      [](Whole x, Whole y) {
        return Whole{kHolds(order(x, y)) ? 1 : 0, false};
      });
  call.give(0, converted(result, Element::boolean));
}

template <double (*kReal)(double), std::int64_t (*kWhole)(std::int64_t)>
void unary_fold(const Call& call) {
  Known x = call.known(0, "the operand");
  for (double& value : x.reals) {
    value = round_to(kReal(value), x.element);
  }
  for (Whole& value : x.wholes) {
    value.n = wrap_to(kWhole(value.n), x.element);
  }
  call.give(0, std::move(x));
}

std::int64_t same(std::int64_t x) {
  return x;
}

void real_only(const Call& call) {
  call.need(is_real(call.element(0)), "of whole numbers");
}

template <double (*kReal)(double)>
void real_fold(const Call& call) {
  real_only(call);
  unary_fold<kReal, same>(call);
}

void where_fold(const Call& call) {
  const Known& condition = call.known(0, "the condition");
  const Known& a = call.known(1, "an operand");
  const Known& b = call.known(2, "an operand");
  call.need(a.element == b.element && is_whole(condition.element), "operands of different types");
  const Ints dims = broadcast_dims(condition.dims, broadcast_dims(a.dims, b.dims));
  const Known c = strided(condition, dims, broadcast_strides(condition.dims, dims));
  Known x = strided(a, dims, broadcast_strides(a.dims, dims));
  const Known y = strided(b, dims, broadcast_strides(b.dims, dims));
  for (std::size_t i = 0; i < c.wholes.size(); ++i) {
    if (c.whole(static_cast<std::int64_t>(i)) == 0 && is_real(x.element)) {
      x.reals[i] = y.reals[i];
    } else if (c.whole(static_cast<std::int64_t>(i)) == 0) {
      x.wholes[i] = y.wholes[i];
    }
  }
  call.give(0, std::move(x));
}

void range_fold(const Call& call) {
  const Known& start = call.known(0, "the start");
  const Known& limit = call.known(1, "the limit");
  const Known& delta = call.known(2, "the step");
  const double steps = std::ceil((limit.number(0) - start.number(0)) / delta.number(0));
  call.need(std::isfinite(steps), "a range without end");
  const std::int64_t n =
      checked_elements({static_cast<std::int64_t>(std::clamp(steps, 0.0, 1e15))});
  Known result{.element = start.element, .dims = {n}, .reals = {}, .wholes = {}};
  for (std::int64_t i = 0; i < n; ++i) {
    if (is_real(start.element)) {
      result.reals.push_back(
          round_to(start.reals[0] + static_cast<double>(i) * delta.reals.at(0), start.element));
    } else {
      result.wholes.push_back(start.wholes.at(0) + Whole{i, false} * delta.wholes.at(0));
    }
  }
  call.give(0, std::move(result));
}

// Over all dims or some: elements that agree in the others are combined.
template <RealFn kReals, WholeFn kWholes>
void reduce_fold(const Call& call) {
  const Known& x = call.known(0, "the operand");
  Ints axes = call.list("axes", 1);
  if (axes.empty()) {
    if (call.whole("noop_with_empty_axes", 0) != 0) {
      call.give(0, x);
      return;
    }
    for (int d = 0; d < x.rank(); ++d) {
      axes.push_back(d);
    }
  }
  std::vector<bool> reduced(x.dims.size(), false);
  for (const std::int64_t axis : axes) {
    reduced[static_cast<std::size_t>(call.axis(axis, x.rank()))] = true;
  }
  Ints kept = x.dims;
  Ints final_dims;
  for (std::size_t d = 0; d < reduced.size(); ++d) {
    kept[d] = reduced[d] ? 1 : kept[d];
    if (!reduced[d] || call.whole("keepdims", 1) != 0) {
      final_dims.push_back(kept[d]);
    }
  }
  call.need(x.elements() > 0, "of no elements");
  const Ints into = broadcast_strides(kept, x.dims);
  Known result = strided(x, kept, row_major(x.dims));
  std::vector<bool> begun(static_cast<std::size_t>(result.elements()), false);
  Odometer at(x.dims);
  std::int64_t i = 0;
  do {
    const std::int64_t to = at.offset(into);
    if (!begun[static_cast<std::size_t>(to)]) {
      begun[static_cast<std::size_t>(to)] = true;  // `strided` put the first one there
    } else if (is_real(x.element)) {
      result.reals[to] = round_to(kReals(result.reals[to], x.reals[i]), x.element);
    } else {
      result.wholes[to] = kWholes(result.wholes[to], x.wholes[i]);
    }
    ++i;
  } while (at.advance());
  result.dims = final_dims;
  call.give(0, std::move(result));
}

void cast_fold(const Call& call) {
  const Element to = element_of(call.whole("to", 0));
  call.need(is_real(to) || is_whole(to), fmt::format("to {}", element_name(to)));
  call.give(0, converted(call.known(0, "the operand"), to));
}

// ---- the functions

double add_r(double x, double y) {
  return x + y;
}
double sub_r(double x, double y) {
  return x - y;
}
double mul_r(double x, double y) {
  return x * y;
}
double div_r(double x, double y) {
  return x / y;
}
double pow_r(double x, double y) {
  return std::pow(x, y);
}
double max_r(double x, double y) {
  return x < y ? y : x;
}
double min_r(double x, double y) {
  return y < x ? y : x;
}
double or_r(double, double) {
  throw Error(Blame::input, "a logical operator of reals");
}
Whole add_w(Whole x, Whole y) {
  return x + y;
}
Whole sub_w(Whole x, Whole y) {
  return x - y;
}
Whole mul_w(Whole x, Whole y) {
  return x * y;
}
Whole div_w(Whole x, Whole y) {
  return x / y;
}
Whole max_w(Whole x, Whole y) {
  return order(x, y) < 0 ? y : x;
}
Whole min_w(Whole x, Whole y) {
  return order(y, x) < 0 ? y : x;
}
Whole and_w(Whole x, Whole y) {
  return {x.n != 0 && y.n != 0 ? 1 : 0, false};
}
Whole or_w(Whole x, Whole y) {
  return {x.n != 0 || y.n != 0 ? 1 : 0, false};
}
Whole xor_w(Whole x, Whole y) {
  return {(x.n != 0) != (y.n != 0) ? 1 : 0, false};
}
bool equal(int o) {
  return o == 0;
}
bool less(int o) {
  return o < 0;
}
bool greater(int o) {
  return o > 0;
}
bool at_most(int o) {
  return o <= 0;
}
bool at_least(int o) {
  return o >= 0;
}
double neg_r(double x) {
  return -x;
}
double abs_r(double x) {
  return std::abs(x);
}
double sqrt_r(double x) {
  return std::sqrt(x);
}
double exp_r(double x) {
  return std::exp(x);
}
double log_r(double x) {
  return std::log(x);
}
double floor_r(double x) {
  return std::floor(x);
}
double ceil_r(double x) {
  return std::ceil(x);
}
double round_r(double x) {
  return std::nearbyint(x);
}
double cos_r(double x) {
  return std::cos(x);
}
double sin_r(double x) {
  return std::sin(x);
}
double invert_r(double x) {
  return 1 / x;
}
double sign_r(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}
double never_r(double) {
  throw Error(Blame::input, "Not of reals");
}
std::int64_t neg_w(std::int64_t x) {
  return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(x));
}
std::int64_t abs_w(std::int64_t x) {
  return x < 0 ? neg_w(x) : x;
}
std::int64_t sign_w(std::int64_t x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}
std::int64_t not_w(std::int64_t x) {
  return x == 0 ? 1 : 0;
}

}  // namespace

Known converted(const Known& x, Element to) {
  Known result{.element = to, .dims = x.dims, .reals = {}, .wholes = {}};
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    if (is_real(to)) {
      result.reals.push_back(round_to(x.number(i), to));
    } else if (is_real(x.element)) {
      const double value = x.reals[static_cast<std::size_t>(i)];
      const bool fits = std::abs(value) < 9.2e18;  // what does not fit has no meaning in ONNX
      const std::int64_t cut =
          fits ? static_cast<std::int64_t>(value) : std::numeric_limits<std::int64_t>::min();
      result.wholes.push_back({to == Element::boolean ? (value != 0 ? 1 : 0) : wrap_to(cut, to)});
    } else {
      const Whole value = x.wholes[static_cast<std::size_t>(i)];
      const bool stays = value.batched && to != Element::boolean;
      result.wholes.push_back({stays ? value.n : wrap_to(value.n, to), stays});
    }
  }
  return result;
}

Folders fold_arithmetic() {
  return {{"Add", binary_fold<add_r, add_w>},
          {"Sub", binary_fold<sub_r, sub_w>},
          {"Mul", binary_fold<mul_r, mul_w>},
          {"Div", binary_fold<div_r, div_w>},
          {"Pow", binary_fold<pow_r, whole_power>},
          {"Max", binary_fold<max_r, max_w>},
          {"Min", binary_fold<min_r, min_w>},
          {"And", binary_fold<or_r, and_w>},
          {"Or", binary_fold<or_r, or_w>},
          {"Xor", binary_fold<or_r, xor_w>},
          {"Mod", modulo_fold},
          {"Equal", compare_fold<equal>},
          {"Less", compare_fold<less>},
          {"Greater", compare_fold<greater>},
          {"LessOrEqual", compare_fold<at_most>},
          {"GreaterOrEqual", compare_fold<at_least>},
          {"Neg", unary_fold<neg_r, neg_w>},
          {"Abs", unary_fold<abs_r, abs_w>},
          {"Sign", unary_fold<sign_r, sign_w>},
          {"Not", unary_fold<never_r, not_w>},
          {"Sqrt", real_fold<sqrt_r>},
          {"Exp", real_fold<exp_r>},
          {"Log", real_fold<log_r>},
          {"Floor", real_fold<floor_r>},
          {"Ceil", real_fold<ceil_r>},
          {"Round", real_fold<round_r>},
          {"Cos", real_fold<cos_r>},
          {"Sin", real_fold<sin_r>},
          {"Reciprocal", real_fold<invert_r>},
          {"Where", where_fold},
          {"Range", range_fold},
          {"ReduceSum", reduce_fold<add_r, add_w>},
          {"ReduceProd", reduce_fold<mul_r, mul_w>},
          {"ReduceMax", reduce_fold<max_r, max_w>},
          {"ReduceMin", reduce_fold<min_r, min_w>},
          {"Cast", cast_fold}};
}

}  // namespace weft::onnx_import
