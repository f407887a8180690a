#include "weft/simulate/share.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

TEST(FairShare, EqualOnOneLink) {
  const std::vector<double> capacity = {10};
  const std::vector<Use> uses = {{.resource = 0, .flows = 1}};
  std::vector<Flow> flows(4, {.uses = uses, .most = 10});
  FairShare share(capacity);
  share(flows);
  for (const Flow& flow : flows) {
    EXPECT_DOUBLE_EQ(flow.rate, 2.5);
  }
}

// The textbook case: one flow through both links, one on each. The first link is the narrower one.
TEST(FairShare, WhatANarrowLinkLeavesGoesToOthers) {
  const std::vector<double> capacity = {2, 10};
  const std::vector<Use> both = {{0, 1}, {1, 1}};
  const std::vector<Use> first = {{0, 1}};
  const std::vector<Use> second = {{1, 1}};
  std::vector<Flow> flows = {
      {.uses = both, .most = 2}, {.uses = first, .most = 2}, {.uses = second, .most = 10}};
  FairShare share(capacity);
  share(flows);
  EXPECT_DOUBLE_EQ(flows[0].rate, 1);
  EXPECT_DOUBLE_EQ(flows[1].rate, 1);
  EXPECT_DOUBLE_EQ(flows[2].rate, 9);
}

// An exchange with three flows on a link takes three shares of it.
TEST(FairShare, CountsFlows) {
  const std::vector<double> capacity = {8};
  const std::vector<Use> three = {{0, 3}};
  const std::vector<Use> one = {{0, 1}};
  std::vector<Flow> flows = {{.uses = three, .most = 8.0 / 3}, {.uses = one, .most = 8}};
  FairShare share(capacity);
  share(flows);
  EXPECT_DOUBLE_EQ(flows[0].rate, 2);
  EXPECT_DOUBLE_EQ(flows[1].rate, 2);
}

// Rates are max-min fair exactly if they fit, and everyone has all it could take or uses a full
// resource on which nobody has more.
TEST(FairShare, EveryFlowHasABottleneck) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 rng(seed);
    std::vector<double> capacity(1 + rng() % 5);
    for (double& c : capacity) {
      c = 1 + static_cast<double>(rng() % 20);
    }
    std::vector<std::vector<Use>> uses(1 + rng() % 8);
    std::vector<Flow> flows;
    for (auto& list : uses) {
      for (int r = 0; r < static_cast<int>(capacity.size()); ++r) {
        if (list.empty() || rng() % 2 == 0) {
          list.push_back({r, 1 + static_cast<double>(rng() % 3)});
        }
      }
      flows.push_back({.uses = list, .most = 0.5 + static_cast<double>(rng() % 10)});
    }
    FairShare share(capacity);
    share(flows);
    std::vector<double> used(capacity.size(), 0);
    std::vector<double> largest(capacity.size(), 0);
    for (const Flow& flow : flows) {
      for (const Use& use : flow.uses) {
        used[use.resource] += flow.rate * use.flows;
        largest[use.resource] = std::max(largest[use.resource], flow.rate);
      }
    }
    for (std::size_t r = 0; r < capacity.size(); ++r) {
      EXPECT_LE(used[r], capacity[r] * (1 + 1e-9)) << "seed " << seed;
    }
    for (const Flow& flow : flows) {
      bool bound = flow.rate >= flow.most * (1 - 1e-9);
      for (const Use& use : flow.uses) {
        bound |= used[use.resource] >= capacity[use.resource] * (1 - 1e-9) &&
                 flow.rate >= largest[use.resource] * (1 - 1e-9);
      }
      EXPECT_TRUE(bound) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft
