#include "weft/search/part_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

// N devices, a chain of equal nodes that are all cut alike: with as many parts as devices each
// device runs one part of every node, and neither kernels nor chain could be shorter.
TEST(PartBound, OfAChainIsWorkAndFixedTimesOfADevice) {
  PartProblem problem{.groups = 10, .devices = 8};
  for (int n = 0; n < 10; ++n) {
    const KernelLine line{.fixed_s = 1, .work_s = 24};
    problem.nodes.push_back({.path = line, .area = line, .group = n});
    if (n > 0) {
      problem.nodes.back().before = {n - 1};
    }
  }
  EXPECT_NEAR(part_bound_seconds(problem), 10 * (1 + 3), 0.02 * 40);
  EXPECT_LE(part_bound_seconds(problem), 10 * (1 + 3) * (1 + 1e-9));
}

TEST(PartBound, HostsThatAreSlowerThanKernelsDecide) {
  PartProblem problem{.groups = 1, .devices = 2, .issue_s = 5};
  const KernelLine line{.fixed_s = 1, .work_s = 0};
  problem.nodes = {{.path = line, .area = line}, {.path = line, .area = line}};
  EXPECT_NEAR(part_bound_seconds(problem), 2 * 5 / 2.0, 1e-9);
}

struct RandomStep {
  PartProblem problem;
  std::mt19937 rng;

  double uniform(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(rng);
  }
  int below(int n) { return static_cast<int>(rng() % static_cast<unsigned>(n)); }

  // A graph whose nodes read one or two before them; every third is in the group of another, and
  // layers are runs of nodes.
  explicit RandomStep(unsigned seed) : rng(seed) {
    problem.devices = 1 + below(5);
    problem.issue_s = below(2) == 0 ? 0 : uniform(0, 2);
    const int nodes = 1 + below(12);
    for (int n = 0; n < nodes; ++n) {
      const KernelLine area{.fixed_s = below(2) * uniform(0, 1), .work_s = uniform(0, 20)};
      PartNode node{.area = area, .launch_s = uniform(0, 1), .group = n};
      node.path = {.fixed_s = area.fixed_s + node.launch_s, .work_s = area.work_s};
      if (n == 0 || below(3) == 0) {
        problem.layers.emplace_back();
      }
      node.layer = static_cast<int>(problem.layers.size()) - 1;
      for (int k = 0; n > 0 && k < 1 + below(2); ++k) {
        node.before.push_back(below(n));
      }
      const int other = below(n + 1);
      if (other < n && below(3) == 0 && problem.nodes[other].layer == node.layer) {
        node.group = problem.nodes[other].group;
      }
      problem.nodes.push_back(node);
    }
    problem.groups = nodes;
  }

  // Ends of parts, ascending; the last one is 1.
  std::vector<double> random_cuts(int most) {
    std::vector<double> ends;
    for (int parts = below(most); parts > 0; --parts) {
      ends.push_back(uniform(0, 1));
    }
    std::ranges::sort(ends);
    ends.push_back(1);
    return ends;
  }

  // The step with random shares of samples in each group's parts and random devices, run greedily
  // in the order of nodes: a part waits for the parts of what it reads that have one of its
  // samples. Nodes that have fewer parts than others of their layer launch empty ones.
  double seconds() {
    const int devices = static_cast<int>(problem.devices);
    std::vector<std::vector<double>> cuts(problem.groups);
    std::vector<std::size_t> launches(problem.layers.size(), 0);
    for (const PartNode& node : problem.nodes) {
      std::vector<double>& ends = cuts[node.group];
      ends = ends.empty() ? random_cuts(7) : ends;
      launches[node.layer] = std::max(launches[node.layer], ends.size());
    }
    std::vector<double> free_s(devices, 0);
    std::vector<double> issued_s(devices, 0);
    std::vector<std::vector<double>> done_s(problem.nodes.size());
    for (std::size_t n = 0; n < problem.nodes.size(); ++n) {
      const PartNode& node = problem.nodes[n];
      const std::vector<double>& ends = cuts[node.group];
      for (std::size_t part = 0; part < launches[node.layer]; ++part) {
        const bool empty = part >= ends.size();
        const double begin = part == 0 ? 0 : ends[std::min(part, ends.size()) - 1];
        const double end = empty ? begin : ends[part];
        const int device = below(devices);
        double start_s = free_s[device];
        for (const int before : node.before) {
          const std::vector<double>& others = cuts[problem.nodes[before].group];
          for (std::size_t k = 0; k < others.size() && !empty; ++k) {
            if (others[k] > begin && (k == 0 || others[k - 1] < end)) {
              start_s = std::max(start_s, done_s[before][k]);
            }
          }
        }
        issued_s[device] += problem.issue_s;
        start_s = std::max(start_s, issued_s[device]);
        free_s[device] = start_s + (empty ? node.launch_s : node.path.fixed_s) +
                         (end - begin) * node.path.work_s;
        done_s[n].push_back(free_s[device]);
      }
    }
    return std::ranges::max(free_s);
  }
};

TEST(PartBound, NoRandomStepIsShorter) {
  double nearest = 1e9;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomStep step(seed);
    const double bound_s = part_bound_seconds(step.problem);
    for (int turn = 0; turn < 200; ++turn) {
      const double seconds = step.seconds();
      ASSERT_GE(seconds, bound_s * (1 - 1e-9)) << "seed " << seed << ", turn " << turn;
      nearest = std::min(nearest, seconds / bound_s);
    }
  }
  EXPECT_LT(nearest, 1.05) << "the bound is far from every step, so it was not tested";
}

}  // namespace
}  // namespace weft
