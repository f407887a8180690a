#include "weft/sharding/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

std::vector<std::int64_t> sizes(std::int64_t length, int parts, const Placement& placement) {
  std::vector<std::int64_t> result;
  std::int64_t end = 3;
  for (int i = 0; i < parts; ++i) {
    const Range part = part_of({3, 3 + length}, parts, i, placement);
    EXPECT_EQ(part.begin, end);  // no gap, no overlap
    end = part.end;
    result.push_back(part.size());
  }
  EXPECT_EQ(end, 3 + length);
  return result;
}

TEST(Placement, TextFormGoesBothWays) {
  for (const char* text : {"", "R", "P", "S0", "S1/64", "S2:3:1", "S0/16:1:0:2", "S0@1",
                           "S1/2:3:1@2", "S0 R P S3 L"}) {
    EXPECT_EQ(format_placements(parse_placements(text)), text);
  }
  EXPECT_EQ(parse_placements("S1/64  P"), (Placements{shard(1, 64), partial()}));
}

TEST(Placement, BadTextIsRefused) {
  for (const char* text : {"X", "S", "Sx", "S0/", "S0/0", "S-1", "S0:", "S0:0:0", "S0x", "RR",
                           "S0@", "S0@x", "S0:9999999999", "S99999999999999999999", "S70"}) {
    EXPECT_THROW(static_cast<void>(parse_placements(text)), Error) << text;
  }
}

TEST(Placement, EvenPartsEarlierOnesFirst) {
  EXPECT_THAT(sizes(8, 4, shard(0)), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(sizes(10, 4, shard(0)), ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(sizes(2, 4, shard(0)), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(sizes(0, 2, shard(0)), ElementsAre(0, 0));
}

TEST(Placement, PartsAreWholeUnits) {
  EXPECT_THAT(sizes(48, 2, shard(0, 16)), ElementsAre(32, 16));
  EXPECT_THAT(sizes(50, 2, shard(0, 16)), ElementsAre(32, 18));  // the last takes the rest
  EXPECT_THAT(sizes(5, 2, shard(0, 16)), ElementsAre(0, 5));
}

TEST(Placement, RatiosByLargestRemainder) {
  Placement p = shard(0);
  p.ratios = {3, 1};
  EXPECT_THAT(sizes(8, 2, p), ElementsAre(6, 2));
  p.ratios = {1, 1, 2};  // of 7: 1.75, 1.75, 3.5
  EXPECT_THAT(sizes(7, 3, p), ElementsAre(2, 2, 3));
  p.ratios = {2, 1, 2};  // of 7: 2.8, 1.4, 2.8
  EXPECT_THAT(sizes(7, 3, p), ElementsAre(3, 1, 3));
  p.ratios = {1, 1};  // a tie goes to the earlier part
  EXPECT_THAT(sizes(5, 2, p), ElementsAre(3, 2));
  p.ratios = {0, 1};
  p.unit = 4;
  EXPECT_THAT(sizes(9, 2, p), ElementsAre(0, 9));
}

TEST(Placement, EqualRatiosAreTheEvenSplit) {
  for (int parts = 1; parts <= 5; ++parts) {
    for (std::int64_t length = 0; length < 20; ++length) {
      Placement p = shard(0);
      p.ratios.assign(static_cast<std::size_t>(parts), 7);
      EXPECT_EQ(sizes(length, parts, p), sizes(length, parts, shard(0)));
    }
  }
}

TEST(Placement, TheLaterAxisCutsFirst) {
  const Mesh mesh{.devices = {0, 1, 2, 3, 4, 5}, .axes = {{"dp", 2}, {"tp", 3}}};
  const Shape shape{12, 5};
  // tp cuts 12 in parts of 4; dp halves those.
  EXPECT_THAT(region(shape, {shard(0), shard(0)}, mesh, {1, 2}),
              ElementsAre(Range{10, 12}, Range{0, 5}));
  EXPECT_THAT(region(shape, {shard(0), shard(0)}, mesh, {0, 1}),
              ElementsAre(Range{4, 6}, Range{0, 5}));
  EXPECT_THAT(region(shape, {shard(1), replicate()}, mesh, {1, 2}),
              ElementsAre(Range{0, 12}, Range{3, 5}));
  EXPECT_THAT(region(shape, {partial(), shard(0)}, mesh, {1, 2}),
              ElementsAre(Range{8, 12}, Range{0, 5}));
}

TEST(Placement, AShiftMovesPartsToLaterDevices) {
  const Mesh mesh{.devices = {0, 1, 2}, .axes = {{"cp", 3}}};
  const auto begins = [&](const char* text) {
    std::vector<Range> ranges;
    for (int i = 0; i < 3; ++i) {
      ranges.push_back(region({8}, parse_placements(text), mesh, {i})[0]);
    }
    return ranges;
  };
  EXPECT_THAT(begins("S0:1:1:2"), ElementsAre(Range{0, 2}, Range{2, 4}, Range{4, 8}));
  EXPECT_THAT(begins("S0:1:1:2@1"), ElementsAre(Range{4, 8}, Range{0, 2}, Range{2, 4}));
  EXPECT_THAT(begins("S0:1:1:2@2"), ElementsAre(Range{2, 4}, Range{4, 8}, Range{0, 2}));
}

TEST(Placement, LocalTypeKeepsTheDtype) {
  const Mesh mesh{.devices = {0, 1}, .axes = {{"dp", 2}}};
  const TensorType type{.shape = {3, 4}, .dtype = DType::i64};
  EXPECT_EQ(format_type(local_type(type, {shard(0)}, mesh, {1})), "i64[1,4]");
  EXPECT_EQ(format_type(local_type(type, {partial()}, mesh, {1})), "i64[3,4]");
  EXPECT_TRUE(region({}, {partial()}, mesh, {1}).empty());
}

TEST(Placement, Predicates) {
  EXPECT_TRUE(is_replicated({}));
  EXPECT_TRUE(is_replicated({replicate(), replicate()}));
  EXPECT_FALSE(is_replicated({replicate(), shard(0)}));
  EXPECT_TRUE(has_partial({shard(0), partial()}));
  EXPECT_FALSE(has_partial({shard(0), replicate()}));
}

}  // namespace
}  // namespace weft
