// Coordinates are the digits of a position in the mixed radix of the axis sizes, last axis lowest:
//
//   position = ((c0 * size1 + c1) * size2 + c2) ...

#include "weft/cluster/mesh.h"

#include "weft/base/error.h"

namespace weft {

int axis_index(const Mesh& mesh, const std::string& name) {
  for (std::size_t i = 0; i < mesh.axes.size(); ++i) {
    if (mesh.axes[i].name == name) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

Coordinates coordinates(const Mesh& mesh, int position) {
  WEFT_CHECK(position >= 0 && position < static_cast<int>(mesh.devices.size()));
  Coordinates at(mesh.axes.size(), 0);
  for (std::size_t i = mesh.axes.size(); i-- > 0;) {
    at[i] = position % mesh.axes[i].size;
    position /= mesh.axes[i].size;
  }
  WEFT_CHECK(position == 0);
  return at;
}

int position(const Mesh& mesh, const Coordinates& at) {
  WEFT_CHECK(at.size() == mesh.axes.size());
  int result = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    WEFT_CHECK(at[i] >= 0 && at[i] < mesh.axes[i].size);
    result = result * mesh.axes[i].size + at[i];
  }
  return result;
}

int group_number(const Mesh& mesh, const Coordinates& at, int axis) {
  int number = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    if (static_cast<int>(i) != axis) {
      number = number * mesh.axes[i].size + at[i];
    }
  }
  return number;
}

std::vector<DeviceId> axis_group(const Mesh& mesh, const Coordinates& at, int axis) {
  WEFT_CHECK(axis >= 0 && axis < static_cast<int>(mesh.axes.size()));
  std::vector<DeviceId> group;
  Coordinates member = at;
  for (int i = 0; i < mesh.axes[axis].size; ++i) {
    member[axis] = i;
    group.push_back(mesh.devices.at(position(mesh, member)));
  }
  return group;
}

}  // namespace weft
