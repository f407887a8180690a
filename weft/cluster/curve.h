#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace weft {

/// Where a number comes from.
enum class Origin : std::uint8_t {
  spec,       // written by the user, from a data sheet
  catalogue,  // weft's own list of devices
  measured,   // on the device itself
  fitted,     // to times of whole steps
};
[[nodiscard]] std::string_view origin_name(Origin origin);
[[nodiscard]] std::optional<Origin> find_origin(std::string_view name);

/// Origins of the numbers of one thing: one for all, and exceptions by key.
struct Origins {
  Origin all = Origin::spec;
  std::map<std::string, Origin> exceptions = {};
  [[nodiscard]] Origin of(const std::string& key) const {
    const auto found = exceptions.find(key);
    return found == exceptions.end() ? all : found->second;
  }
  bool operator==(const Origins&) const = default;
};

/// Measured points (size, seconds), sizes ascending.
struct Curve {
  std::vector<std::pair<double, double>> points = {};
  [[nodiscard]] bool empty() const { return points.empty(); }
  bool operator==(const Curve&) const = default;
};

/// Linear between points. Below the first it is the first: what is smaller than the smallest
/// measured costs as much. Beyond the last it goes on with the slope of the last two; with a single
/// point, in proportion.
[[nodiscard]] double seconds_at(const Curve& curve, double size);

}  // namespace weft
