#include "weft/cluster/curve.h"

#include <algorithm>
#include <array>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> kOrigins = {"spec", "catalogue", "measured", "fitted"};

}  // namespace

std::string_view origin_name(Origin origin) {
  return kOrigins[static_cast<std::size_t>(origin)];
}

std::optional<Origin> find_origin(std::string_view name) {
  const auto found = std::ranges::find(kOrigins, name);
  if (found == kOrigins.end()) {
    return std::nullopt;
  }
  return static_cast<Origin>(found - kOrigins.begin());
}

double seconds_at(const Curve& curve, double size) {
  const auto& points = curve.points;
  WEFT_CHECK(!points.empty());
  if (size <= points.front().first) {
    return points.front().second;
  }
  if (points.size() == 1) {
    return points[0].second * size / points[0].first;
  }
  std::size_t right = 1;
  while (right + 1 < points.size() && points[right].first < size) {
    ++right;
  }
  const auto& [x0, y0] = points[right - 1];
  const auto& [x1, y1] = points[right];
  return y0 + (y1 - y0) * (size - x0) / (x1 - x0);
}

}  // namespace weft
