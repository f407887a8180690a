#include "weft/solver/way_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace weft {
namespace {

double draw(std::mt19937& random, double from, double to) {
  return from + (to - from) * static_cast<double>(random() % 1000) / 1000;
}

WayChain random_chain(std::mt19937& random) {
  WayChain chain;
  const int menus = 1 + static_cast<int>(random() % 3);
  const int states = 1 + static_cast<int>(random() % 3);
  const auto boundary = [&] { return static_cast<int>(random() % (states + 1)) - 1; };
  for (int m = 0; m < menus; ++m) {
    chain.menus.emplace_back();
    const int ways = 1 + static_cast<int>(random() % 5);
    for (int w = 0; w < ways; ++w) {
      chain.menus.back().push_back({.in = boundary(),
                                    .out = boundary(),
                                    .seconds = draw(random, 1, 5),
                                    .bytes = draw(random, 0, 4),
                                    .working_bytes = draw(random, 0, 3)});
    }
  }
  const int layers = 1 + static_cast<int>(random() % 6);
  for (int l = 0; l < layers; ++l) {
    chain.menu_of.push_back(static_cast<int>(random() % menus));
  }
  return chain;
}

// Every choice of ways, one after the other.
double least_seconds(const WayChain& chain, double bytes) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<int> ways(chain.menu_of.size(), 0);
  for (;;) {
    bool meets = true;
    double seconds = 0;
    double held = 0;
    double working = 0;
    for (std::size_t l = 0; l < ways.size(); ++l) {
      const ChainWay& way = chain.menus[chain.menu_of[l]][ways[l]];
      if (l > 0) {
        const ChainWay& before = chain.menus[chain.menu_of[l - 1]][ways[l - 1]];
        meets &= before.out == -1 || way.in == -1 || before.out == way.in;
      }
      seconds += way.seconds;
      held += way.bytes;
      working = std::max(working, way.working_bytes);
    }
    if (meets && held + working <= bytes) {
      least = std::min(least, seconds);
    }
    std::size_t l = 0;
    while (l < ways.size() && ++ways[l] == static_cast<int>(chain.menus[chain.menu_of[l]].size())) {
      ways[l++] = 0;
    }
    if (l == ways.size()) {
      return least;
    }
  }
}

TEST(WayChain, IsAsFastAsTheBestOfAllChoices) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same cases in every run
  int fits = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    const WayChain chain = random_chain(random);
    const double bytes = draw(random, 1, 14);
    const WayChainAnswer answer = fastest_ways(chain, bytes);
    const double least = least_seconds(chain, bytes);
    if (least == std::numeric_limits<double>::infinity()) {
      EXPECT_TRUE(answer.ways.empty());
      continue;
    }
    ++fits;
    ASSERT_NEAR(answer.seconds, least, 1e-9);
    const ChainWay sum = sum_of_ways(chain, answer.ways);
    EXPECT_NEAR(sum.seconds, least, 1e-9);
    EXPECT_LE(sum.bytes + sum.working_bytes, bytes * (1 + 1e-9));
  }
  EXPECT_GT(fits, 500);
}

TEST(WayChain, IsAsCloseToTheBestAsIsAskedFor) {
  constexpr double kClose = 0.05;
  std::mt19937 random(8);  // NOLINT(cert-msc51-cpp): the same cases in every run
  int others = 0;
  for (int i = 0; i < 2000; ++i) {
    SCOPED_TRACE(i);
    const WayChain chain = random_chain(random);
    const double bytes = draw(random, 1, 14);
    const WayChainAnswer answer = fastest_ways(chain, bytes, kClose);
    const double least = least_seconds(chain, bytes);
    EXPECT_EQ(answer.ways.empty(), least == std::numeric_limits<double>::infinity());
    if (!answer.ways.empty()) {
      const ChainWay sum = sum_of_ways(chain, answer.ways);
      EXPECT_LE(sum.seconds, least * (1 + kClose) + 1e-9);
      EXPECT_LE(sum.bytes + sum.working_bytes, bytes * (1 + 1e-9));
      others += sum.seconds > least + 1e-9 ? 1 : 0;
    }
  }
  EXPECT_GT(others, 0);  // what is close enough is not searched further
}

TEST(WayChain, MixesWaysOfManyLayersAlike) {
  WayChain chain;
  chain.menus = {{{.in = 0, .out = 0, .seconds = 1, .bytes = 10},
                  {.in = 0, .out = 0, .seconds = 2, .bytes = 4},
                  {.in = 0, .out = 0, .seconds = 2.5, .bytes = 3}}};
  chain.menu_of.assign(40, 0);
  // 40 layers in 223 bytes: 10 a + 4 b + 3 c <= 223. The first way saves a second for 6 bytes, the
  // last one costs half a second for one.
  const WayChainAnswer answer = fastest_ways(chain, 223);
  double least = std::numeric_limits<double>::infinity();
  for (int a = 0; a <= 40; ++a) {
    for (int b = 0; a + b <= 40; ++b) {
      const int c = 40 - a - b;
      if (10 * a + 4 * b + 3 * c <= 223) {
        least = std::min(least, a + 2.0 * b + 2.5 * c);
      }
    }
  }
  EXPECT_DOUBLE_EQ(answer.seconds, least);
}

}  // namespace
}  // namespace weft
