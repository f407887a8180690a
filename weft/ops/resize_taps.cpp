// Where an output of resize looks, as ONNX's Resize defines it: its place in the source is given
// by `coordinates`, the entries around that place and their weights by `mode`. Places outside are
// those of the nearest entry inside, or with `exclude_outside` they weigh nothing.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "weft/ops/resize.h"
#include "weft/ops/rules.h"
#include "weft/ops/window.h"

namespace weft::ops {
namespace {

std::string text_or(const Attrs& attrs, const char* name, const char* missing) {
  return has_attr(attrs, name) ? attr_text(attrs, name) : missing;
}

struct Axis {
  std::int64_t in = 1;
  std::int64_t out = 1;
  double scale = 1;
};

double place(const Axis& axis, std::int64_t output, const std::string& coordinates) {
  const auto i = static_cast<double>(output);
  if (coordinates == "half_pixel") {
    return (i + 0.5) / axis.scale - 0.5;
  }
  if (coordinates == "pytorch_half_pixel") {
    return axis.out > 1 ? (i + 0.5) / axis.scale - 0.5 : 0.0;
  }
  if (coordinates == "align_corners") {
    return axis.out > 1 ? i * static_cast<double>(axis.in - 1) / static_cast<double>(axis.out - 1)
                        : 0.0;
  }
  if (coordinates == "tf_half_pixel_for_nn") {
    return (i + 0.5) / axis.scale;
  }
  require(coordinates == "asymmetric",
          "resize: coordinates '{}' are not known; take half_pixel, pytorch_half_pixel, "
          "align_corners, asymmetric or tf_half_pixel_for_nn",
          coordinates);
  return i / axis.scale;
}

double rounded(double x, const std::string& rounding) {
  if (rounding == "floor") {
    return std::floor(x);
  }
  if (rounding == "ceil") {
    return std::ceil(x);
  }
  if (rounding == "round_prefer_ceil") {
    return std::floor(x + 0.5);
  }
  require(rounding == "round_prefer_floor",
          "resize: rounding '{}' is not known; take round_prefer_floor, round_prefer_ceil, floor "
          "or ceil",
          rounding);
  return std::ceil(x - 0.5);
}

// Keys' kernel with parameter a.
std::vector<double> cubic_weights(double t, double a) {
  const auto near = [a](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [a](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(1 + t), near(t), near(1 - t), far(2 - t)};
}

// Entries first, first + 1, … around a place and their weights.
struct Around {
  std::int64_t first = 0;
  std::vector<double> weights;
};

Around around(double x, const Attrs& attrs, const std::string& mode) {
  if (mode == "nearest") {
    const std::string rounding = text_or(attrs, "rounding", "round_prefer_floor");
    return {.first = static_cast<std::int64_t>(rounded(x, rounding)), .weights = {1.0}};
  }
  const auto left = static_cast<std::int64_t>(std::floor(x));
  const double t = x - std::floor(x);
  if (mode == "linear") {
    return {.first = left, .weights = {1 - t, t}};
  }
  require(mode == "cubic", "resize: mode '{}' is not known; take nearest, linear or cubic", mode);
  const double a = has_attr(attrs, "cubic_a") ? attr_number(attrs, "cubic_a") : -0.75;
  return {.first = left - 1, .weights = cubic_weights(t, a)};
}

ResizeTaps axis_taps(const Axis& axis, const Attrs& attrs) {
  const std::string mode = text_or(attrs, "mode", "nearest");
  const std::string coordinates = text_or(attrs, "coordinates", "half_pixel");
  const bool exclude =
      has_attr(attrs, "exclude_outside") && attr_int(attrs, "exclude_outside") == 1;
  ResizeTaps taps;
  for (std::int64_t o = 0; o < axis.out; ++o) {
    Around look = around(place(axis, o, coordinates), attrs, mode);
    double sum = 0;
    for (std::size_t k = 0; k < look.weights.size(); ++k) {
      const std::int64_t at = look.first + static_cast<std::int64_t>(k);
      look.weights[k] *= exclude && (at < 0 || at >= axis.in) ? 0.0 : 1.0;
      sum += look.weights[k];
    }
    for (std::size_t k = 0; k < look.weights.size(); ++k) {
      if (look.weights[k] != 0) {
        const std::int64_t at = look.first + static_cast<std::int64_t>(k);
        taps.at.push_back(std::clamp<std::int64_t>(at, 0, axis.in - 1));
        taps.weight.push_back(exclude ? look.weights[k] / sum : look.weights[k]);
      }
    }
    taps.begin.push_back(static_cast<std::int64_t>(taps.at.size()));
  }
  return taps;
}

// "1.5,2": the scales as the user gave them, which sizes do not tell.
std::vector<double> given_scales(const Attrs& attrs) {
  std::vector<double> scales;
  const std::string text = text_or(attrs, "scales", "");
  for (const char* at = text.c_str(); *at != 0;) {
    char* end = nullptr;
    scales.push_back(std::strtod(at, &end));
    require(end != at && scales.back() > 0 && std::isfinite(scales.back()) &&
                (*end == ',' || *end == 0),
            "resize: scales '{}' are not positive numbers with commas between", text);
    at = *end == ',' ? end + 1 : end;
  }
  return scales;
}

}  // namespace

ResizeDims resize_dims(const TensorType& from, const TensorType& to, const Attrs& attrs) {
  const Ints in = spatial_sizes(from);
  const Ints out = spatial_sizes(to);
  const std::vector<double> scales = given_scales(attrs);
  require(scales.empty() || scales.size() == in.size(), "resize: {} scales for {}", scales.size(),
          format_type(from));
  ResizeDims dims;
  for (std::size_t d = 0; d < 3; ++d) {
    const std::size_t missing = 3 - in.size();
    if (d < missing) {
      dims[d] = {.begin = {0, 1}, .at = {0}, .weight = {1.0}};
      continue;
    }
    const std::size_t i = d - missing;
    const Axis axis{.in = in[i],
                    .out = out[i],
                    .scale = scales.empty()
                                 ? static_cast<double>(out[i]) / static_cast<double>(in[i])
                                 : scales[i]};
    dims[d] = axis_taps(axis, attrs);
  }
  return dims;
}

ResizeTaps transposed(const ResizeTaps& taps, std::int64_t source) {
  std::vector<std::vector<std::pair<std::int64_t, double>>> given(static_cast<std::size_t>(source));
  for (std::int64_t o = 0; o < taps.size(); ++o) {
    for (std::int64_t k = taps.begin[static_cast<std::size_t>(o)];
         k < taps.begin[static_cast<std::size_t>(o) + 1]; ++k) {
      const auto entry = static_cast<std::size_t>(k);
      given[static_cast<std::size_t>(taps.at[entry])].emplace_back(o, taps.weight[entry]);
    }
  }
  ResizeTaps result;
  for (const auto& entries : given) {
    for (const auto& [output, weight] : entries) {
      result.at.push_back(output);
      result.weight.push_back(weight);
    }
    result.begin.push_back(static_cast<std::int64_t>(result.at.size()));
  }
  return result;
}

}  // namespace weft::ops
