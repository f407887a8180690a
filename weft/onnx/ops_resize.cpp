// Resize: each output along a dim is a weighted sum of inputs along it, and dims follow one after
// another. Where to look is known now: the weights are a matrix for each dim, or for the nearest
// neighbour a list of places.
#include <algorithm>
#include <cmath>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

namespace {

constexpr double kMostPlace = 1e15;  // of which doubles still know the whole part

struct Rule {
  std::string mode;       // nearest | linear | cubic
  std::string transform;  // from a place of the output to one of the input
  std::string rounding;
  double cubic = -0.75;
  bool exclude_outside = false;
  double outside = 0;  // what stands outside of a crop
};

struct Axis {
  int dim = 0;
  std::int64_t inputs = 0;
  std::int64_t outputs = 0;
  double scale = 1;
  double crop_begin = 0;
  double crop_end = 1;
};

double place_of(const Rule& rule, const Axis& axis, std::int64_t i) {
  const auto x = static_cast<double>(i);
  const auto inputs = static_cast<double>(axis.inputs);
  const double outputs = axis.scale * inputs;
  if (rule.transform == "align_corners") {
    return outputs == 1 ? 0 : x * (inputs - 1) / (outputs - 1);
  }
  if (rule.transform == "asymmetric") {
    return x / axis.scale;
  }
  if (rule.transform == "tf_half_pixel_for_nn") {
    return (x + 0.5) / axis.scale;
  }
  if (rule.transform == "tf_crop_and_resize") {
    return outputs > 1 ? axis.crop_begin * (inputs - 1) +
                             x * (axis.crop_end - axis.crop_begin) * (inputs - 1) / (outputs - 1)
                       : 0.5 * (axis.crop_begin + axis.crop_end) * (inputs - 1);
  }
  if (rule.transform == "pytorch_half_pixel" && outputs <= 1) {
    return -0.5;
  }
  return (x + 0.5) / axis.scale - 0.5;
}

std::int64_t nearest(const Rule& rule, const Axis& axis, double place) {
  double at = std::ceil(place - 0.5);  // round_prefer_floor
  if (rule.rounding == "round_prefer_ceil") {
    at = std::floor(place + 0.5);
  } else if (rule.rounding == "floor") {
    at = std::floor(place);
  } else if (rule.rounding == "ceil") {
    at = std::ceil(place);
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, axis.inputs - 1);
}

// Weights of the neighbours of a place that is `r` behind the second of four, or the first of two.
std::vector<double> weights(const Rule& rule, double r) {
  if (rule.mode == "linear") {
    return {1 - r, r};
  }
  const double a = rule.cubic;
  const auto far = [a](double t) { return ((a * t - 5 * a) * t + 8 * a) * t - 4 * a; };
  const auto near = [a](double t) { return ((a + 2) * t - (a + 3)) * t * t + 1; };
  return {far(r + 1), near(r), near(1 - r), far(2 - r)};
}

bool is_outside(const Rule& rule, const Axis& axis, double place) {
  return rule.transform == "tf_crop_and_resize" &&
         (place < 0 || place > static_cast<double>(axis.inputs - 1));
}

Known matrix(const Call& call, const Rule& rule, const Axis& axis) {
  Known m{
      .element = call.element(0), .dims = {axis.outputs, axis.inputs}, .reals = {}, .wholes = {}};
  const std::int64_t elements = checked_elements(m.dims);
  call.importer.count_read(elements);
  m.reals.assign(static_cast<std::size_t>(elements), 0);
  for (std::int64_t i = 0; i < axis.outputs; ++i) {
    const double place = place_of(rule, axis, i);
    call.need(std::abs(place) < kMostPlace, "to a place out of reach");
    if (is_outside(rule, axis, place)) {
      call.need(rule.outside == 0, "with an extrapolation value");
      continue;
    }
    const double left = std::floor(place);
    std::vector<double> w = weights(rule, place - left);
    const auto first = static_cast<std::int64_t>(left) - (w.size() == 4 ? 1 : 0);
    double sum = 0;
    for (std::size_t k = 0; k < w.size(); ++k) {
      const std::int64_t at = first + static_cast<std::int64_t>(k);
      w[k] = rule.exclude_outside && (at < 0 || at >= axis.inputs) ? 0 : w[k];
      sum += w[k];
    }
    for (std::size_t k = 0; k < w.size(); ++k) {
      const std::int64_t at =
          std::clamp<std::int64_t>(first + static_cast<std::int64_t>(k), 0, axis.inputs - 1);
      m.reals[static_cast<std::size_t>(i * axis.inputs + at)] +=
          rule.exclude_outside ? w[k] / sum : w[k];
    }
  }
  return m;
}

ValueId along(const Call& call, const Rule& rule, const Axis& axis, ValueId x) {
  Builder& b = call.b;
  if (rule.mode == "nearest") {
    std::vector<Whole> places;
    call.importer.count_read(checked_elements({axis.outputs}));
    for (std::int64_t i = 0; i < axis.outputs; ++i) {
      const double place = place_of(rule, axis, i);
      call.need(std::abs(place) < kMostPlace, "to a place out of reach");
      call.need(!is_outside(rule, axis, place), "with an extrapolation value");
      places.push_back({nearest(rule, axis, place), false});
    }
    return b.emit("gather", {x, call.constant(known_wholes(places), "places")},
                  {{"dim", std::int64_t{axis.dim}}});
  }
  const int rank = b.type(x).rank();
  Ints swap;
  for (int d = 0; d < rank; ++d) {
    swap.push_back(d == axis.dim ? rank - 1 : d == rank - 1 ? axis.dim : d);
  }
  x = transpose(b, x, swap);
  const Shape shape = b.type(x).shape;
  Dim rows(1);
  for (int d = 0; d + 1 < rank; ++d) {
    rows = rows * shape[static_cast<std::size_t>(d)];
  }
  const ValueId w = call.constant(matrix(call, rule, axis), "weights");
  const ValueId y = b.emit("linear", {reshape(b, x, {rows, shape.back()}), w});
  Shape result = shape;
  result.back() = Dim(axis.outputs);
  return transpose(b, reshape(b, y, result), swap);
}

// Scales or sizes, as the opsets have had them.
std::vector<Axis> axes_of(const Call& call) {
  const bool early = call.importer.opset() < 11;
  const int scales_input = early ? 1 : 2;
  std::vector<double> scales = call.reals("scales");
  if (call.has(scales_input)) {
    const Known& known = call.known(scales_input, "the scales");
    call.need(known.elements() <= call.rank(0), "with more scales than dims");
    for (std::int64_t i = 0; i < known.elements(); ++i) {
      scales.push_back(known.number(i));
    }
  }
  const Ints sizes = call.has(3) ? whole_list(call.known(3, "the sizes")) : Ints{};
  const auto rank = static_cast<std::size_t>(call.rank(0));
  call.need((sizes.empty() ? scales.size() : sizes.size()) == rank, "without a scale for each dim");
  std::vector<Axis> axes;
  for (std::size_t d = 0; d < rank; ++d) {
    const Dim dim = call.shape(0)[d];
    Axis axis{.dim = static_cast<int>(d), .inputs = dim.size};
    axis.scale =
        sizes.empty() ? scales[d] : static_cast<double>(sizes[d]) / static_cast<double>(dim.size);
    const double exact = axis.scale * static_cast<double>(dim.size);
    call.need(exact >= 1 && exact < 1e9, "to no size");
    axis.outputs = sizes.empty() ? static_cast<std::int64_t>(std::floor(exact)) : sizes[d];
    if (!early && call.has(1) && call.known(1, "the crop").elements() == 2 * call.rank(0)) {
      axis.crop_begin = call.known(1, "the crop").number(static_cast<std::int64_t>(d));
      axis.crop_end = call.known(1, "the crop").number(static_cast<std::int64_t>(d + rank));
    }
    axes.push_back(axis);
  }
  return axes;
}

void emit_resize(const Call& call) {
  const bool early = call.importer.opset() < 11;
  Rule rule{
      .mode = call.text("mode", "nearest"),
      .transform = call.text("coordinate_transformation_mode", early ? "asymmetric" : "half_pixel"),
      .rounding = call.text("nearest_mode", early ? "floor" : "round_prefer_floor"),
      .cubic = call.real("cubic_coeff_a", -0.75),
      .exclude_outside = call.whole("exclude_outside", 0) != 0,
      .outside = call.real("extrapolation_value", 0)};
  rule.mode = rule.mode == "bilinear" ? "linear" : rule.mode;
  call.need(rule.mode == "nearest" || is_real(call.element(0)), "of whole numbers");
  ValueId y = call.value(0);
  for (const Axis& axis : axes_of(call)) {
    const bool crops =
        rule.transform == "tf_crop_and_resize" && (axis.crop_begin != 0 || axis.crop_end != 1);
    if (axis.scale == 1 && !crops) {
      continue;
    }
    call.need(!call.shape(0)[static_cast<std::size_t>(axis.dim)].batched, "of the batch");
    y = along(call, rule, axis, y);
  }
  call.give(0, y, call.element(0));
}

}  // namespace

std::vector<OnnxOp> resize_ops() {
  return {{"Resize", emit_resize}, {"Upsample", emit_resize}};
}

}  // namespace weft::onnx_import
