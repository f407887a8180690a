#pragma once

#include <string>
#include <vector>

namespace weft {

using DeviceId = int;

struct Axis {
  std::string name;  // "dp", "tp"
  int size = 1;
  bool operator==(const Axis&) const = default;
};

/// Devices in row-major order of their coordinates: the last axis varies fastest, so it spans
/// neighbours, which have the fastest links.
struct Mesh {
  std::vector<DeviceId> devices;
  std::vector<Axis> axes;
  bool operator==(const Mesh&) const = default;
};

using Coordinates = std::vector<int>;  // one for each axis

[[nodiscard]] int axis_index(const Mesh& mesh, const std::string& name);  // -1 if there is none
[[nodiscard]] Coordinates coordinates(const Mesh& mesh, int position);
[[nodiscard]] int position(const Mesh& mesh, const Coordinates& at);
/// The devices that differ from `at` on this axis only, in order of their coordinate on it.
[[nodiscard]] std::vector<DeviceId> axis_group(const Mesh& mesh, const Coordinates& at, int axis);
/// Which of the axis's groups that is, counted in the order of their first devices' positions.
[[nodiscard]] int group_number(const Mesh& mesh, const Coordinates& at, int axis);

}  // namespace weft
