// Runs the steps of a path on explicit data: every device holds a value for each index of its
// region, a partial sum is held as addends. The steps know nothing of the path's rules, so a path
// that breaks the nesting of axes ends in another content or cannot run.
#include "weft/sharding/reshard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Index = std::vector<std::int64_t>;
using Content = std::map<Index, std::int64_t>;
using Rng = std::mt19937;

int pick(Rng& rng, int low, int high) {
  return low + static_cast<int>(rng() % static_cast<unsigned>(high - low + 1));
}

std::vector<Index> indices(const Region& region) {
  std::vector<Index> result{{}};
  for (const Range& range : region) {
    std::vector<Index> longer;
    for (const Index& index : result) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        longer.push_back(index);
        longer.back().push_back(i);
      }
    }
    result = std::move(longer);
  }
  return result;
}

std::int64_t value_at(const Index& index) {
  std::int64_t value = 1;
  for (const std::int64_t i : index) {
    value = value * 31 + i;
  }
  return value * 1000;
}

Mesh random_mesh(Rng& rng, int first_device) {
  Mesh mesh;
  int count = 1;
  for (int axis = pick(rng, 1, 3); axis > 0; --axis) {
    mesh.axes.push_back({fmt::format("a{}", axis), pick(rng, 1, 4)});
    count *= mesh.axes.back().size;
  }
  for (int i = 0; i < count; ++i) {
    mesh.devices.push_back(first_device + i);
  }
  return mesh;
}

Placements random_placements(Rng& rng, const Mesh& mesh, int rank, bool allow_partial) {
  Placements result;
  for (const Axis& axis : mesh.axes) {
    const int kind = pick(rng, 0, allow_partial ? 4 : 3);
    if (kind == 0 || (rank == 0 && kind < 4)) {
      result.push_back(replicate());
    } else if (kind == 4) {
      result.push_back(partial());
    } else {
      result.push_back(shard(pick(rng, 0, rank - 1), pick(rng, 0, 3) == 0 ? 2 : 1));
      if (pick(rng, 0, 5) == 0) {
        for (int i = 0; i < axis.size; ++i) {
          result.back().ratios.push_back(pick(rng, 1, 3));
        }
      }
    }
  }
  return result;
}

/// The addend that a device holds: the whole value where no axis is partial; the members of a
/// partial axis hold addends that differ and add up.
std::int64_t addend(std::int64_t whole, const Mesh& mesh, const Placements& placements,
                    const Coordinates& at) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (placements[axis].kind == Placement::Kind::partial) {
      const std::int64_t part = whole / (mesh.axes[axis].size + 1);
      whole = at[axis] == 0 ? whole - (mesh.axes[axis].size - 1) * part : part;
    }
  }
  return whole;
}

std::vector<Content> contents(const Shape& shape, const Mesh& mesh, const Placements& placements) {
  std::vector<Content> result;
  for (std::size_t i = 0; i < mesh.devices.size(); ++i) {
    const Coordinates at = coordinates(mesh, static_cast<int>(i));
    Content content;
    for (const Index& index : indices(region(shape, placements, mesh, at))) {
      content[index] = addend(value_at(index), mesh, placements, at);
    }
    result.push_back(std::move(content));
  }
  return result;
}

/// One collective: the members pool what they have (adding up a partial sum) and each takes its
/// part of the pool. The part is the member's region under the new placements.
std::vector<Content> run_step(const ReshardStep& step, const Shape& shape, const Mesh& mesh,
                              const Placements& after, const std::vector<Content>& before) {
  std::vector<Content> result(before.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    const Coordinates at = coordinates(mesh, static_cast<int>(i));
    Content pool;
    Coordinates member = at;
    for (int m = 0; m < mesh.axes[static_cast<std::size_t>(step.axis)].size; ++m) {
      member[static_cast<std::size_t>(step.axis)] = m;
      if (step.kind == CollectiveKind::slice && member != at) {
        continue;
      }
      for (const auto& [index, value] : before[static_cast<std::size_t>(position(mesh, member))]) {
        const bool add = step.from.kind == Placement::Kind::partial;
        pool[index] = add ? pool[index] + value : value;
      }
    }
    for (const Index& index : indices(region(shape, after, mesh, at))) {
      EXPECT_TRUE(pool.contains(index)) << "a step needs data from outside its group";
      result[i][index] = pool[index];
    }
  }
  return result;
}

/// Each device's content, added up over the axes that are still partial: who holds which addend is
/// of no interest there.
std::vector<Content> sums(const std::vector<Content>& parts, const Mesh& mesh,
                          const Placements& placements) {
  std::vector<Content> result(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    for (std::size_t j = 0; j < parts.size(); ++j) {
      Coordinates a = coordinates(mesh, static_cast<int>(i));
      const Coordinates b = coordinates(mesh, static_cast<int>(j));
      for (std::size_t axis = 0; axis < a.size(); ++axis) {
        a[axis] = placements[axis].kind == Placement::Kind::partial ? b[axis] : a[axis];
      }
      if (a == b) {
        for (const auto& [index, value] : parts[j]) {
          result[i][index] += value;
        }
      }
    }
  }
  return result;
}

TEST(Reshard, RandomPathsLeadToTheGoal) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Mesh mesh = random_mesh(rng, 0);
    const int rank = pick(rng, 0, 3);
    Shape shape;
    for (int d = 0; d < rank; ++d) {
      shape.emplace_back(pick(rng, 1, 5));
    }
    const Placements from = random_placements(rng, mesh, rank, true);
    Placements to = random_placements(rng, mesh, rank, false);
    for (std::size_t a = 0; a < to.size(); ++a) {
      to[a] = pick(rng, 0, 2) == 0 ? from[a] : to[a];
    }
    std::vector<Content> now = contents(shape, mesh, from);
    Placements placements = from;
    for (const ReshardStep& step : reshard_path(from, to)) {
      ASSERT_EQ(placements[static_cast<std::size_t>(step.axis)], step.from);
      placements[static_cast<std::size_t>(step.axis)] = step.to;
      now = run_step(step, shape, mesh, placements, now);
    }
    ASSERT_EQ(placements, to);
    ASSERT_EQ(sums(now, mesh, to), sums(contents(shape, mesh, to), mesh, to))
        << format_placements(from) << " to " << format_placements(to);
  }
}

TEST(Reshard, NothingToDo) {
  EXPECT_THAT(reshard_path({shard(0), partial()}, {shard(0), partial()}), IsEmpty());
  EXPECT_THAT(reshard_path({}, {}), IsEmpty());
}

std::vector<std::string> steps(const char* from, const char* to) {
  std::vector<std::string> result;
  for (const ReshardStep& step : reshard_path(parse_placements(from), parse_placements(to))) {
    result.push_back(fmt::format("{} {} {}>{}", collective_name(step.kind), step.axis,
                                 format_placements({step.from}), format_placements({step.to})));
  }
  return result;
}

TEST(Reshard, OneAxis) {
  EXPECT_THAT(steps("P", "R"), ElementsAre("all_reduce 0 P>R"));
  EXPECT_THAT(steps("P", "S1"), ElementsAre("reduce_scatter 0 P>S1"));
  EXPECT_THAT(steps("S0", "R"), ElementsAre("all_gather 0 S0>R"));
  EXPECT_THAT(steps("S0", "S1"), ElementsAre("all_to_all 0 S0>S1"));
  EXPECT_THAT(steps("R", "S0"), ElementsAre("slice 0 R>S0"));
  EXPECT_THAT(steps("S0", "S0/4"), ElementsAre("all_gather 0 S0>R", "slice 0 R>S0/4"));
}

TEST(Reshard, ShrinksBeforeItGrows) {
  EXPECT_THAT(steps("S1 P R", "R S0 S2"),
              ElementsAre("slice 2 R>S2", "reduce_scatter 1 P>S0", "all_gather 0 S1>R"));
}

TEST(Reshard, TheEarlierAxisMakesWay) {
  EXPECT_THAT(steps("S0 S0", "S0 R"),
              ElementsAre("all_gather 0 S0>R", "all_gather 1 S0>R", "slice 0 R>S0"));
  EXPECT_THAT(steps("S0 R", "S0 S0"),
              ElementsAre("all_gather 0 S0>R", "slice 1 R>S0", "slice 0 R>S0"));
  // The first axis leaves and enters without touching the later one.
  EXPECT_THAT(steps("S0 S0", "R S0"), ElementsAre("all_gather 0 S0>R"));
  EXPECT_THAT(steps("R S0", "S0 S0"), ElementsAre("slice 0 R>S0"));
}

TEST(Reshard, NothingLeadsToAPartialSum) {
  EXPECT_THROW(static_cast<void>(reshard_path({replicate()}, {partial()})), Error);
}

TEST(Reshard, WireBytes) {
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::all_reduce, 4, 100), 150);
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::reduce_scatter, 4, 100), 75);
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::all_gather, 4, 100), 75);
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::all_to_all, 4, 100), 75);
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::slice, 4, 100), 0);
  EXPECT_DOUBLE_EQ(wire_bytes(CollectiveKind::all_reduce, 1, 100), 0);
}

bool inside(const Region& inner, const Region& outer) {
  for (std::size_t d = 0; d < inner.size(); ++d) {
    if (inner[d].begin < outer[d].begin || inner[d].end > outer[d].end) {
      return false;
    }
  }
  return true;
}

/// By device.
std::map<DeviceId, Region> all_regions(const Shape& shape, const Mesh& mesh, const Placements& p) {
  std::map<DeviceId, Region> result;
  for (std::size_t i = 0; i < mesh.devices.size(); ++i) {
    result[mesh.devices[i]] = region(shape, p, mesh, coordinates(mesh, static_cast<int>(i)));
  }
  return result;
}

/// Replicas of one region serve numbers of receivers that differ by one at most.
void expect_balance(const std::map<DeviceId, Region>& sources, const std::vector<Piece>& pieces) {
  std::map<DeviceId, int> served;
  for (const Piece& piece : pieces) {
    served[piece.from] += piece.from == piece.to ? 0 : 1;
  }
  for (const auto& [a, a_region] : sources) {
    for (const auto& [b, b_region] : sources) {
      if (a_region == b_region) {
        EXPECT_LE(std::abs(served[a] - served[b]), 1) << "devices " << a << " and " << b;
      }
    }
  }
}

TEST(Transfer, RandomPiecesCoverEveryReceiverOnce) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    const Mesh from_mesh = random_mesh(rng, 0);
    const Mesh to_mesh = random_mesh(rng, pick(rng, 0, 1) == 0 ? 100 : pick(rng, 0, 6));
    const int rank = pick(rng, 0, 3);
    Shape shape;
    for (int d = 0; d < rank; ++d) {
      shape.emplace_back(pick(rng, 1, 5));
    }
    const Placements from = random_placements(rng, from_mesh, rank, false);
    const Placements to = random_placements(rng, to_mesh, rank, false);
    const auto sources = all_regions(shape, from_mesh, from);
    const auto pieces = transfer_pieces(shape, from_mesh, from, to_mesh, to);
    std::map<DeviceId, std::map<Index, int>> covered;
    for (const Piece& piece : pieces) {
      ASSERT_TRUE(sources.contains(piece.from));
      EXPECT_TRUE(inside(piece.region, sources.at(piece.from)));
      if (sources.contains(piece.to) && inside(piece.region, sources.at(piece.to))) {
        EXPECT_EQ(piece.from, piece.to);  // what a device has it does not fetch
      }
      for (const Index& index : indices(piece.region)) {
        ++covered[piece.to][index];
      }
    }
    for (const auto& [device, target] : all_regions(shape, to_mesh, to)) {
      const std::vector<Index> needed = indices(target);
      EXPECT_EQ(covered[device].size(), needed.size());
      for (const Index& index : needed) {
        EXPECT_EQ(covered[device][index], 1);
      }
    }
    expect_balance(sources, pieces);
  }
}

TEST(Transfer, ReplicasServeTheReceiversInOrder) {
  const Mesh from{.devices = {0, 1}, .axes = {{"tp", 2}}};
  const Mesh to{.devices = {5, 4, 3, 2}, .axes = {{"dp", 4}}};
  const std::vector<Piece> pieces = transfer_pieces({8}, from, {replicate()}, to, {shard(0)});
  EXPECT_THAT(pieces, ElementsAre(Piece{1, 2, {{6, 8}}}, Piece{1, 3, {{4, 6}}},
                                  Piece{0, 4, {{2, 4}}}, Piece{0, 5, {{0, 2}}}));
}

}  // namespace
}  // namespace weft
