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
  int cheapest_end = 0;  // where least is sent
};

// `sends`: cutting behind some layers costs more than behind others.
RandomCut random_cut(std::mt19937_64& random, bool folded, bool sends) {
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
  std::vector<double> send_s;  // behind a layer
  for (int l = 0; l <= made.problem.layers; ++l) {
    send_s.push_back(!sends ? 0 : (l + made.problem.layers) % 3 == 0 ? 0.3 : 0.1);
  }
  made.cheapest_end = static_cast<int>(std::ranges::min_element(send_s) - send_s.begin());
  made.problem.step_s = [=](const std::vector<double>& times, const std::vector<int>& ends) {
    std::vector<double> mesh_s(mesh_of.size(), 0);
    double sent_s = 0;
    for (std::size_t s = 0; s < times.size(); ++s) {
      mesh_s[mesh_of[s]] += times[s];
      sent_s += send_s[ends[s]];
    }
    return micro_batches * *std::ranges::max_element(mesh_s) +
           std::accumulate(times.begin(), times.end(), 0.0) / 6 + sent_s;
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
  return std::ranges::max(times) == kNever ? kNever : problem.step_s(times, ends);
}

// Of how many random cuts the best of all is found; none is much worse, or worse than before.
double share_of_best(bool sends) {
  std::mt19937_64 random(1);
  int best = 0;
  int cases = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const RandomCut made = random_cut(random, trial % 2 == 0, sends);
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
  return static_cast<double>(best) / cases;
}

TEST(LayerMoves, IsMostlyTheBestOfAllAndNeverWorseThanBefore) {
  EXPECT_GE(share_of_best(false), 0.9);
  EXPECT_GE(share_of_best(true), 0.75);
}

TEST(LayerMoves, AQuickBoundChangesNothing) {
  std::mt19937_64 random(2);
  int spared = 0;
  for (int trial = 0; trial < 100; ++trial) {
    RandomCut made = random_cut(random, trial % 2 == 0, trial % 3 == 0);
    std::vector<int> start;
    for (int s = 1; s <= made.stages; ++s) {
      start.push_back(s * made.problem.layers / made.stages);
    }
    const auto step_s = made.problem.step_s;
    int asked = 0;
    made.problem.step_s = [&](const std::vector<double>& times, const std::vector<int>& ends) {
      ++asked;
      return step_s(times, ends);
    };
    std::vector<int> without = start;
    improve_cut(made.problem, 1000, without);
    spared += std::exchange(asked, 0);
    // What does not hang on where the cut is.
    made.problem.least_s = [&](const std::vector<double>& times) {
      const std::vector<int> nowhere(times.size(), made.cheapest_end);
      return step_s(times, nowhere);
    };
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
  problem.step_s = [](const std::vector<double>& t, const std::vector<int>&) {
    return std::max(t[0] + t[3], t[1] + t[2]);
  };
  std::vector<int> ends = {4, 8, 11, 12};
  EXPECT_EQ(improve_cut(problem, 1000, ends), 7);
}

TEST(LayerMoves, WithoutEffortNothingMoves) {
  LayerMoves problem{.layers = 4, .stage_s = {}, .step_s = {}, .mesh_of = {0, 1}};
  problem.stage_s = [](int, int first, int end) { return end - first; };
  problem.step_s = [](const std::vector<double>& t, const std::vector<int>&) {
    return std::max(t[0], t[1]);
  };
  std::vector<int> ends = {3, 4};
  EXPECT_EQ(improve_cut(problem, 0, ends), 3);
  EXPECT_EQ(ends, (std::vector<int>{3, 4}));
  EXPECT_EQ(improve_cut(problem, 10, ends), 2);
  EXPECT_EQ(ends, (std::vector<int>{2, 4}));
}

}  // namespace
}  // namespace weft
