#include "weft/cluster/mesh.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

// Devices 10..21 as 2 x 3 x 2.
Mesh sample() {
  Mesh mesh;
  for (int i = 0; i < 12; ++i) {
    mesh.devices.push_back(10 + i);
  }
  mesh.axes = {{"pp", 2}, {"dp", 3}, {"tp", 2}};
  return mesh;
}

TEST(Mesh, LastAxisVariesFastest) {
  const Mesh mesh = sample();
  EXPECT_EQ(coordinates(mesh, 0), (Coordinates{0, 0, 0}));
  EXPECT_EQ(coordinates(mesh, 1), (Coordinates{0, 0, 1}));
  EXPECT_EQ(coordinates(mesh, 7), (Coordinates{1, 0, 1}));
  EXPECT_EQ(coordinates(mesh, 11), (Coordinates{1, 2, 1}));
}

TEST(Mesh, PositionUndoesCoordinates) {
  const Mesh mesh = sample();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(position(mesh, coordinates(mesh, i)), i);
  }
}

TEST(Mesh, GroupsDifferOnOneAxis) {
  const Mesh mesh = sample();
  EXPECT_EQ(axis_group(mesh, {1, 0, 1}, 0), (std::vector<DeviceId>{11, 17}));
  EXPECT_EQ(axis_group(mesh, {1, 2, 1}, 1), (std::vector<DeviceId>{17, 19, 21}));
  EXPECT_EQ(axis_group(mesh, {0, 1, 1}, 2), (std::vector<DeviceId>{12, 13}));
}

TEST(Mesh, AxesAreFoundByName) {
  EXPECT_EQ(axis_index(sample(), "dp"), 1);
  EXPECT_EQ(axis_index(sample(), "ep"), -1);
}

TEST(Mesh, NoAxesIsOneDevice) {
  const Mesh mesh{.devices = {4}, .axes = {}};
  EXPECT_EQ(coordinates(mesh, 0), Coordinates{});
  EXPECT_EQ(position(mesh, {}), 0);
}

TEST(Mesh, WrongCoordinatesAreABug) {
  EXPECT_THROW((void)position(sample(), {0, 3, 0}), Error);
  EXPECT_THROW((void)coordinates(sample(), 12), Error);
}

TEST(Mesh, GroupsAreNumberedByTheirFirstDevices) {
  const Mesh mesh{.devices = {0, 1, 2, 3, 4, 5, 6, 7}, .axes = {{"a", 2}, {"b", 2}, {"c", 2}}};
  for (int axis = 0; axis < 3; ++axis) {
    int next = 0;
    for (int p = 0; p < 8; ++p) {
      const Coordinates at = coordinates(mesh, p);
      if (at[axis] == 0) {
        EXPECT_EQ(group_number(mesh, at, axis), next++);
      }
      EXPECT_EQ(group_number(mesh, at, axis),
                group_number(mesh, coordinates(mesh, axis_group(mesh, at, axis).front()), axis));
    }
  }
}

}  // namespace
}  // namespace weft
