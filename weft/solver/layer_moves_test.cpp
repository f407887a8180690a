#include "weft/solver/layer_moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Layers of random times; the first stage holds few layers, the others more.
struct RandomCut {
  LayerMoves problem;
  int stages = 0;
};

RandomCut random_cut(std::mt19937_64& random, bool folded) {
  const int meshes = 2 + static_cast<int>(random() % 2);
  RandomCut made;
  made.stages = 2 * meshes;
  made.problem.layers = made.stages + 2 + static_cast<int>(random() % 5);
  for (int s = 0; s < made.stages; ++s) {
    made.problem.mesh_of.push_back(s < meshes ? s : folded ? made.stages - 1 - s : s - meshes);
  }
  std::vector<double> sums = {0};
  for (int l = 0; l < made.problem.layers; ++l) {
    const bool end = l == 0 || l + 1 == made.problem.layers;
    sums.push_back(sums.back() + (end ? 0.5 + static_cast<double>(random() % 8) / 2 : 1));
  }
  const int most = 3 + static_cast<int>(random() % 4);
  made.problem.stage_s = [=](int stage, int first, int end) {
    return end - first > most + stage ? kNever : sums[end] - sums[first];
  };
  const int micro_batches = 2 + static_cast<int>(random() % 6);
  const std::vector<int> mesh_of = made.problem.mesh_of;
  made.problem.step_s = [=](const std::vector<double>& times) {
    std::vector<double> mesh_s(mesh_of.size(), 0);
    for (std::size_t s = 0; s < times.size(); ++s) {
      mesh_s[mesh_of[s]] += times[s];
    }
    return micro_batches * *std::ranges::max_element(mesh_s) +
           std::accumulate(times.begin(), times.end(), 0.0) / 6;
  };
  return made;
}

// Calls `see` with every cut.
template <typename See>
void all_cuts(int layers, int stages, std::vector<int>& ends, const See& see) {
  const int first = ends.empty() ? 0 : ends.back();
  if (std::ssize(ends) + 1 == stages) {
    ends.push_back(layers);
    see(ends);
    ends.pop_back();
    return;
  }
  for (int end = first + 1; end <= layers - (stages - std::ssize(ends) - 1); ++end) {
    ends.push_back(end);
    all_cuts(layers, stages, ends, see);
    ends.pop_back();
  }
}

double seconds(const LayerMoves& problem, const std::vector<int>& ends) {
  std::vector<double> times;
  for (int s = 0; s < std::ssize(ends); ++s) {
    times.push_back(problem.stage_s(s, s == 0 ? 0 : ends[s - 1], ends[s]));
  }
  return std::ranges::max(times) == kNever ? kNever : problem.step_s(times);
}

TEST(LayerMoves, IsMostlyTheBestOfAllAndNeverWorseThanBefore) {
  std::mt19937_64 random(1);
  int best = 0;
  int cases = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const RandomCut made = random_cut(random, trial % 2 == 0);
    double least = kNever;
    std::vector<int> start;
    std::vector<int> none;
    all_cuts(made.problem.layers, made.stages, none, [&](const std::vector<int>& ends) {
      const double taken = seconds(made.problem, ends);
      if (start.empty() && taken < kNever) {
        start = ends;
      }
      least = std::min(least, taken);
    });
    if (start.empty()) {
      continue;
    }
    std::vector<int> ends = start;
    const double found = improve_cut(made.problem, 100000, ends);
    EXPECT_DOUBLE_EQ(found, seconds(made.problem, ends));
    EXPECT_GE(found, least * (1 - 1e-9));
    EXPECT_LE(found, seconds(made.problem, start));
    EXPECT_LE(found, 1.2 * least) << "trial " << trial;
    best += found <= least * (1 + 1e-9) ? 1 : 0;
    ++cases;
  }
  EXPECT_GE(cases, 200);
  EXPECT_GE(best, 0.9 * cases);
}

TEST(LayerMoves, AQuickBoundChangesNothing) {
  std::mt19937_64 random(2);
  int spared = 0;
  for (int trial = 0; trial < 100; ++trial) {
    RandomCut made = random_cut(random, trial % 2 == 0);
    std::vector<int> start;
    for (int s = 1; s <= made.stages; ++s) {
      start.push_back(s * made.problem.layers / made.stages);
    }
    const auto step_s = made.problem.step_s;
    int asked = 0;
    made.problem.step_s = [&](const std::vector<double>& times) {
      ++asked;
      return step_s(times);
    };
    std::vector<int> without = start;
    improve_cut(made.problem, 1000, without);
    spared += std::exchange(asked, 0);
    made.problem.least_s = [&](const std::vector<double>& times) { return 0.98 * step_s(times); };
    std::vector<int> with = start;
    improve_cut(made.problem, 1000, with);
    spared -= asked;
    EXPECT_EQ(with, without) << "trial " << trial;
  }
  EXPECT_GT(spared, 0);
}

TEST(LayerMoves, FollowsTheMeshNotTheStage) {
  // A head that takes three layers' time: stages there and back share two meshes, so the first one,
  // which has the head, gets fewer layers.
  LayerMoves problem{.layers = 12, .stage_s = {}, .step_s = {}, .mesh_of = {0, 1, 1, 0}};
  problem.stage_s = [](int, int first, int end) { return end - first + (end == 12 ? 2.0 : 0.0); };
  problem.step_s = [](const std::vector<double>& t) { return std::max(t[0] + t[3], t[1] + t[2]); };
  std::vector<int> ends = {4, 8, 11, 12};
  EXPECT_EQ(improve_cut(problem, 1000, ends), 7);
}

TEST(LayerMoves, WithoutEffortNothingMoves) {
  LayerMoves problem{.layers = 4, .stage_s = {}, .step_s = {}, .mesh_of = {0, 1}};
  problem.stage_s = [](int, int first, int end) { return end - first; };
  problem.step_s = [](const std::vector<double>& t) { return std::max(t[0], t[1]); };
  std::vector<int> ends = {3, 4};
  EXPECT_EQ(improve_cut(problem, 0, ends), 3);
  EXPECT_EQ(ends, (std::vector<int>{3, 4}));
  EXPECT_EQ(improve_cut(problem, 10, ends), 2);
  EXPECT_EQ(ends, (std::vector<int>{2, 4}));
}

}  // namespace
}  // namespace weft
