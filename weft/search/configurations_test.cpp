// Names and devices of configurations, and how many micro-batches their stages hold.

#include "weft/search/configurations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "weft/search/in_flight.h"
#include "weft/search/unequal_meshes.h"

namespace weft {
namespace {

TEST(Configuration, SaysWhichMeshesItHas) {
  Configuration c = equal_meshes({.dp = 2, .tp = 4}, 3, 8);
  EXPECT_EQ(configuration_name(c), "dp=2,tp=4,pp=3,micro-batches=8");
  EXPECT_EQ(c.meshes[2].first_device, 16);
  EXPECT_EQ(mesh_at(c.meshes[1]).devices.front(), 8);
  EXPECT_EQ(mesh_at(c.meshes[1]).axes, (std::vector<Axis>{{"dp", 2}, {"tp", 4}}));
  c.meshes[1].shape = {.dp = 4, .tp = 1};
  EXPECT_EQ(configuration_name(c), "dp=2/4/2,tp=4/1/4,pp=3,micro-batches=8");
  c.chunks = 2;
  EXPECT_EQ(c.stages(), 6);
  EXPECT_EQ(c.mesh_index(4), 1);
  c.folded = true;
  EXPECT_EQ(c.mesh_index(3), 2);
  EXPECT_EQ(c.mesh_index(5), 0);
}

TEST(InFlight, IsAsTheSchedulesAreDefined) {
  Configuration c = equal_meshes({}, 4, 3);
  EXPECT_EQ(micro_batches_in_flight(c, "1f1b"), (std::vector<int>{3, 3, 2, 1}));
  EXPECT_EQ(micro_batches_in_flight(c, "gpipe"), (std::vector<int>{3, 3, 3, 3}));
  c.micro_batches = 16;
  for (const int chunks : {2, 3, 4}) {
    c.chunks = chunks;
    const std::vector<int> held = micro_batches_in_flight(c, "interleaved");
    for (int p = 0; p < 4; ++p) {
      int all = 0;
      for (int k = 0; k < chunks; ++k) {
        all += held[4 * k + p];
      }
      EXPECT_EQ(all, 2 * (4 - 1 - p) + (chunks - 1) * 4 + 1) << chunks << " on mesh " << p;
    }
  }
  c.chunks = 2;
  c.folded = true;
  EXPECT_EQ(micro_batches_in_flight(c, "zb-v"), std::vector<int>(8, 4));
}

TEST(DeviceUnits, AreRunsThatStagesMayHave) {
  DeviceUnits units = device_units(parse_cluster("3x8xV100-16GB"));
  EXPECT_EQ(units.devices, 1);
  EXPECT_EQ(units.hosts, (std::vector<int>{8, 8, 8}));
  EXPECT_EQ(units.sizes, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 16, 24}));
  units = device_units(parse_cluster("1x8xA100-80GB+2x4xV100-16GB"));
  EXPECT_EQ(units.hosts, (std::vector<int>{8, 4, 4}));
  units = device_units(parse_cluster("128x8xA100-80GB"));
  EXPECT_EQ(units.devices, 32);
  EXPECT_EQ(units.hosts.size(), 32U);
  EXPECT_TRUE(std::ranges::find(units.sizes, 3) != units.sizes.end());
  units = device_units(parse_cluster("8x8xA100-80GB"));
  EXPECT_EQ(units.devices, 2);
  EXPECT_EQ(units.hosts, std::vector<int>(8, 4));
}

}  // namespace
}  // namespace weft
