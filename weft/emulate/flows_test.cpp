#include "weft/emulate/flows.h"

#include <gmock/gmock.h>

namespace weft {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

struct Case {
  std::vector<std::vector<Use>> uses;
  std::vector<LinkFlow> flows;

  // Parts of links that it takes at full speed; its rate is the largest of them.
  void add(double start_s, double alone_s, std::vector<Use> shares) {
    flows.push_back({.start_s = start_s, .alone_s = alone_s});
    for (const Use& share : shares) {
      flows.back().most = std::max(flows.back().most, share.flows);
    }
    for (Use& share : shares) {
      share.flows /= flows.back().most;
    }
    uses.push_back(std::move(shares));
  }
  std::vector<LinkFlow*> pointers() {
    std::vector<LinkFlow*> result;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      flows[i].uses = uses[i].data();
      flows[i].use_count = static_cast<int>(uses[i].size());
      result.push_back(&flows[i]);
    }
    return result;
  }
  std::vector<double> speeds() {
    std::vector<const LinkFlow*> all;
    for (const LinkFlow* flow : pointers()) {
      all.push_back(flow);
    }
    return fair_speeds(all);
  }
  std::vector<double> ends() {
    std::vector<LinkFlow*> all = pointers();
    move_flows(all, 0);
    std::vector<double> result;
    for (const LinkFlow& flow : flows) {
      result.push_back(flow.end_s);
    }
    return result;
  }
};

auto near(double value) {
  return DoubleNear(value, 1e-9);
}

TEST(Speeds, ALinkIsSharedEqually) {
  Case c;
  c.add(0, 1, {{0, 1}});
  c.add(0, 1, {{0, 1}});
  c.add(0, 1, {{1, 1}});
  EXPECT_THAT(c.speeds(), ElementsAre(near(0.5), near(0.5), near(1)));
}

TEST(Speeds, WhoNeedsLessThanItsPartGetsIt) {
  Case c;
  c.add(0, 1, {{0, 0.1}});
  c.add(0, 1, {{0, 1}});
  EXPECT_THAT(c.speeds(), ElementsAre(near(1), near(0.9)));
}

TEST(Speeds, WhatOneCannotUseTheOthersGet) {
  // Link 0 is shared by three; the first is held back by link 1, which it shares with five.
  Case c;
  c.add(0, 1, {{0, 1}, {1, 1}});
  c.add(0, 1, {{0, 1}});
  c.add(0, 1, {{0, 1}});
  for (int i = 0; i < 4; ++i) {
    c.add(0, 1, {{1, 1}});
  }
  const std::vector<double> speeds = c.speeds();
  EXPECT_THAT(speeds[0], near(0.2));
  EXPECT_THAT(speeds[1], near(0.4));
  EXPECT_THAT(speeds[3], near(0.2));
}

TEST(Speeds, NoLinksFullSpeed) {
  Case c;
  c.add(0, 1, {});
  EXPECT_THAT(c.speeds(), ElementsAre(1));
}

TEST(Advance, ALaterFlowSlowsTheFirst) {
  Case c;
  c.add(0, 2, {{0, 1}});
  c.add(1, 2, {{0, 1}});
  c.add(0.5, 3, {{1, 1}});
  // Alone to 1, together to 3 when the first has had 1 + 2 / 2; then the second has 1 left.
  EXPECT_THAT(c.ends(), ElementsAre(near(3), near(4), near(3.5)));
}

TEST(Advance, GoesOnWhereItStopped) {
  Case c;
  c.add(0, 2, {{0, 1}});
  c.add(0, 1, {{0, 1}});
  std::vector<LinkFlow*> all = c.pointers();
  for (int i = 0; i < 30; ++i) {
    move_flows(all, 0.1 * i, 0.1 * (i + 1));
  }
  EXPECT_NEAR(c.flows[0].end_s, 3, 1e-6);
  EXPECT_NEAR(c.flows[1].end_s, 2, 1e-6);
}

}  // namespace
}  // namespace weft
