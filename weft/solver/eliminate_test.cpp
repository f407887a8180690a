#include "weft/solver/eliminate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "weft/solver/test_problems.h"

namespace weft::selection {
namespace {

struct Case {
  Core core;
  Block block;
  std::vector<int> choice;
  std::vector<double> price;
};

// A random problem of which some nodes may change, to some of their strategies.
Case random_case(unsigned seed) {
  SelectionProblem problem = random_problem(3 * seed);  // these have no limit
  problem.usage_limit = 20;                             // so that usages count
  Random random(seed);
  Case made{.core = to_core(to_pairwise(problem), {}), .block = {}, .choice = {}, .price = {}};
  for (int i = 0; i < made.core.size(); ++i) {
    const int strategies = static_cast<int>(made.core.nodes[i].cost.size());
    made.choice.push_back(below(random, strategies));
    made.price.push_back(unit(random) * 10);
    if (below(random, 4) > 0) {
      made.block.nodes.push_back(i);
      made.block.allowed.push_back({made.choice[i]});
      for (int s = 0; s < strategies; ++s) {
        if (s != made.choice[i] && below(random, 4) > 0) {
          made.block.allowed.back().push_back(s);
        }
      }
    }
  }
  return made;
}

double priced_cost(const Case& c, const std::vector<int>& choice) {
  double cost = cost_of(c.core, choice);
  for (int i = 0; i < c.core.size(); ++i) {
    const CoreNode& node = c.core.nodes[i];
    cost += node.bound() ? c.price[i] * static_cast<double>(node.usage[choice[i]]) : 0;
  }
  return cost;
}

double least_of_block(const Case& c, std::size_t v, std::vector<int>& choice) {
  if (v == c.block.nodes.size()) {
    return priced_cost(c, choice);
  }
  double least = 1e300;
  for (const int s : c.block.allowed[v]) {
    choice[c.block.nodes[v]] = s;
    least = std::min(least, least_of_block(c, v + 1, choice));
  }
  return least;
}

TEST(Eliminator, FindsTheBestOfTheBlock) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    std::vector<int> found = c.choice;
    Eliminator(c.core)(c.block, c.price, 1e9, random, found);
    std::vector<int> tried = c.choice;
    const double least = least_of_block(c, 0, tried);
    EXPECT_NEAR(priced_cost(c, found), least, 1e-9 * least + 1e-6) << "seed " << seed;
  }
}

// With small tables some nodes stay as they are, and nothing gets worse.
TEST(Eliminator, NeverLosesWithSmallTables) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    const Case c = random_case(seed);
    Random random(seed);
    Eliminator eliminator(c.core);
    std::vector<int> found = c.choice;
    for (int again = 0; again < 3; ++again) {
      const double before = priced_cost(c, found);
      eliminator(c.block, c.price, 8, random, found);
      EXPECT_LE(priced_cost(c, found), before * (1 + 1e-9) + 1e-6) << "seed " << seed;
    }
    for (int i = 0; i < c.core.size(); ++i) {
      const bool free = std::ranges::find(c.block.nodes, i) != c.block.nodes.end();
      EXPECT_TRUE(free || found[i] == c.choice[i]) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft::selection
