// Cuts and runs of devices against all that there are, on random small problems.

#include "weft/solver/mesh_cut.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Case {
  std::vector<double> layer_s;
  std::vector<double> layer_bytes;
  std::vector<double> boundary_s;  // before a layer
  std::vector<double> speed;       // by size
  std::vector<double> share;       // by size: of the bytes, on a device
  double budget = 0;
  MeshCutProblem problem;
};

// Stages take longer with more layers, and with more micro-batches in flight need more memory. A
// stage that is short of memory is slower, as if it computed again.
double stage_seconds(const Case& c, int size, int behind, int first, int end) {
  double seconds = 0;
  double bytes = 0;
  for (int l = first; l < end; ++l) {
    seconds += c.layer_s[l];
    bytes += c.layer_bytes[l];
  }
  const int in_flight = std::min(c.problem.micro_batches, behind + 1);
  const double used = bytes * c.share[size] * (1 + 0.5 * in_flight);
  if (used > 2 * c.budget) {
    return kNever;
  }
  return seconds / c.speed[size] * (used > c.budget ? 1.33 : 1);
}

Case random_case(std::mt19937_64& random) {
  const auto number = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  const auto uniform = [&] { return static_cast<double>(random() % 10'000) / 10'000; };
  Case c;
  c.problem.layers = number(1, 7);
  c.problem.micro_batches = number(1, 9);
  for (int l = 0; l < c.problem.layers; ++l) {
    c.layer_s.push_back(0.1 + uniform() * (number(0, 3) == 0 ? 4 : 1));
    c.layer_bytes.push_back(uniform());
    c.boundary_s.push_back(number(0, 4) == 0 ? uniform() : 0.1 * uniform());
  }
  const int hosts = number(1, 3);
  const int like = number(1, 4);
  for (int h = 0; h < hosts; ++h) {
    c.problem.hosts.push_back(number(0, 3) == 0 ? number(1, 4) : like);
  }
  for (const int size : {1, 2, 3, 4, 6, 8}) {
    if (number(0, 3) > 0) {
      c.problem.sizes.push_back(size);
      c.speed.push_back(size * (0.6 + 0.4 * uniform()));
      c.share.push_back(1.0 / number(1, size));
    }
  }
  c.budget = 0.3 + 3 * uniform();
  c.problem.most_stages = number(1, 4);
  c.problem.fewest_stages = number(1, c.problem.most_stages);
  return c;
}

double step_seconds(const Case& c, const std::vector<MeshCutStage>& stages) {
  double slowest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const MeshCutStage& stage = stages[i];
    const double t = stage_seconds(c, stage.size, static_cast<int>(stages.size() - 1 - i),
                                   stage.first, stage.end);
    const double x = i + 1 < stages.size() ? c.boundary_s[stage.end] / c.speed[stage.size] : 0;
    slowest = std::max(slowest, t + 2 * x);
    sum += t + 2 * x;
  }
  return (c.problem.micro_batches - 1) * slowest + sum;
}

// Whether the runs have places on the hosts, in order: every place for each is tried.
bool fits(const std::vector<int>& hosts, const std::vector<int>& sizes, std::size_t next,
          int from) {
  if (next == sizes.size()) {
    return true;
  }
  int all = 0;
  for (const int host : hosts) {
    all += host;
  }
  for (int first = from; first + sizes[next] <= all; ++first) {
    int begin = 0;
    bool inside = false;
    bool starts = false;
    bool ends = false;
    for (const int host : hosts) {
      inside |= first >= begin && first + sizes[next] <= begin + host;
      starts |= first == begin;
      ends |= first + sizes[next] == begin + host;
      begin += host;
    }
    if ((inside || (starts && ends)) && fits(hosts, sizes, next + 1, first + sizes[next])) {
      return true;
    }
  }
  return false;
}

// The least step of all cuts and all meshes.
double brute_force(const Case& c, std::vector<MeshCutStage>& stages) {
  const int first = stages.empty() ? 0 : stages.back().end;
  if (first == c.problem.layers) {
    std::vector<int> sizes;
    for (const MeshCutStage& stage : stages) {
      sizes.push_back(c.problem.sizes[stage.size]);
    }
    const bool placed = fits(c.problem.hosts, sizes, 0, 0);
    EXPECT_EQ(placed, sizes.size() == place_runs(c.problem.hosts, sizes).size());
    const bool enough = static_cast<int>(stages.size()) >= c.problem.fewest_stages;
    return placed && enough ? step_seconds(c, stages) : kNever;
  }
  double least = kNever;
  if (static_cast<int>(stages.size()) == c.problem.most_stages) {
    return least;
  }
  for (int end = first + 1; end <= c.problem.layers; ++end) {
    for (int size = 0; size < static_cast<int>(c.problem.sizes.size()); ++size) {
      stages.push_back({.first = first, .end = end, .size = size});
      least = std::min(least, brute_force(c, stages));
      stages.pop_back();
    }
  }
  return least;
}

void ask(Case& c) {
  c.problem.seconds = [&c](int size, int behind, int first, int end) {
    return stage_seconds(c, size, behind, first, end);
  };
  c.problem.send_seconds = [&c](int size, int layer) {
    return c.boundary_s.at(layer) / c.speed[size];
  };
}

TEST(MeshCut, IsTheBestOfAllCutsAndMeshes) {
  std::mt19937_64 random(1);
  int possible = 0;
  int unequal = 0;
  for (int i = 0; i < 600; ++i) {
    SCOPED_TRACE(i);
    Case c = random_case(random);
    ask(c);
    std::vector<MeshCutStage> stages;
    const double least = brute_force(c, stages);
    const MeshCut cut = best_mesh_cut(c.problem);
    if (least == kNever) {
      EXPECT_TRUE(cut.stages.empty());
      continue;
    }
    ++possible;
    ASSERT_FALSE(cut.stages.empty());
    EXPECT_NEAR(cut.step_s, least, 1e-9 * least);
    EXPECT_NEAR(cut.step_s, step_seconds(c, cut.stages), 1e-9 * least);
    unequal +=
        std::ranges::any_of(
            cut.stages, [&](const MeshCutStage& stage) { return stage.size != cut.stages[0].size; })
            ? 1
            : 0;
  }
  EXPECT_GT(possible, 200);
  EXPECT_GT(unequal, 50);
}

TEST(MeshCut, IsAsGoodAsItsPrecision) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(i);
    Case c = random_case(random);
    ask(c);
    const double exact = best_mesh_cut(c.problem).step_s;
    c.problem.precision = 0.02;
    const double near = best_mesh_cut(c.problem).step_s;
    if (exact == kNever) {
      EXPECT_EQ(near, kNever);
      continue;
    }
    EXPECT_GE(near, exact * (1 - 1e-9));
    EXPECT_LE(near, exact * 1.02);
  }
}

TEST(MeshCut, RunsDoNotStraddleHosts) {
  EXPECT_EQ(place_runs({4, 4}, {3, 2, 1}), (std::vector<int>{0, 4, 6}));
  EXPECT_EQ(place_runs({4, 4}, {3, 4}), (std::vector<int>{0, 4}));
  EXPECT_EQ(place_runs({4, 4, 4}, {4, 8}), (std::vector<int>{0, 4}));
  EXPECT_EQ(place_runs({4, 4, 4}, {1, 8}), (std::vector<int>{0, 4}));
  EXPECT_TRUE(place_runs({4, 4}, {3, 2, 3}).empty());
  EXPECT_TRUE(place_runs({4, 4}, {6}).empty());
  EXPECT_EQ(place_runs({6}, {4, 2}), (std::vector<int>{0, 4}));
}

}  // namespace
}  // namespace weft
