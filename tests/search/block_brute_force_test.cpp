// Blocks of random small networks on random meshes under random budgets: the kernel's answer
// against all that the block can be, each choice with its cost recomputed by `choice_cost`.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

#include "weft/autodiff/differentiate.h"
#include "weft/frontend/network.h"
#include "weft/search/block_costs.h"
#include "weft/search/stage_table.h"
#include "weft/solver/choice_random.h"
#include "weft/solver/choice_solver.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMostChoices = 1e5;
constexpr int kWanted = 300;  // problems

// Features that 2, 3, 4 or none of the meshes' axes divide.
constexpr std::int64_t kFeatures[] = {6, 16, 24, 35, 64};

class RandomNetwork {
 public:
  explicit RandomNetwork(std::mt19937& random) : random_(random) {}

  // Layers "in", "h.0" and "out"; the one in the middle is of random nodes.
  Graph make(const OpTable& ops) {
    Graph graph;
    Network net(graph, ops, DType::f32);
    net.layer("in");
    ValueId x = net.linear(net.samples("x", {kBatch, features()}), "linear",
                           {.to = features(), .bias = flip()});
    net.layer("h.0");
    const ValueId entry = x;
    for (int i = 1 + random_below(3, random_); i > 0; --i) {
      x = add(net, x, entry, "n" + std::to_string(i));
    }
    net.layer("out");
    graph.loss = net.squared_error(net.linear(x, "linear", {.to = features()}));
    return graph;
  }

 private:
  ValueId add(Network& net, ValueId x, ValueId entry, const std::string& name) {
    switch (random_below(5, random_)) {
      case 0:
        return net.activation(x, "relu", name);
      case 1:
        return net.layer_norm(x, name);
      case 2:
        if (net.features(x) == net.features(entry)) {
          return net.add(x, entry, name);
        }
        [[fallthrough]];
      default:
        return net.linear(x, name, {.to = features(), .bias = flip()});
    }
  }

  std::int64_t features() { return kFeatures[random_below(std::size(kFeatures), random_)]; }
  bool flip() { return random_below(2, random_) == 0; }

  std::mt19937& random_;
};

BlockPlace random_place(std::mt19937& random) {
  static const std::vector<std::vector<Axis>> kShapes = {
      {{"x", 2}}, {{"x", 3}}, {{"x", 4}}, {{"x", 2}, {"y", 2}}};
  BlockPlace place;
  place.mesh.axes = kShapes[random_below(static_cast<int>(kShapes.size()), random)];
  int devices = 1;
  for (const Axis& axis : place.mesh.axes) {
    devices *= axis.size;
  }
  place.mesh.devices.resize(devices);
  std::iota(place.mesh.devices.begin(), place.mesh.devices.end(), 0);
  place.data_axes = random_below(2, random);
  place.samples = 1 << random_below(7, random);
  place.several = random_below(2, random) == 0;
  return place;
}

// Seconds of all kinds at random weights, and bytes at random numbers of micro-batches in flight.
struct Question {
  std::vector<double> weights = std::vector<double>(kCostKinds, 0);
  std::vector<double> limit = std::vector<double>(kCostKinds, 0);

  explicit Question(std::mt19937& random) {
    for (const CostKind kind :
         {kForward, kForwardWait, kBackward, kBackwardWait, kWeight, kBeside, kSync, kStep}) {
      weights[kind] = 0.1 * random_below(11, random);
    }
    limit[kState] = 1;
    limit[kSaved] = limit[kEntered] = random_below(5, random);
  }
};

struct Everything {
  std::vector<std::pair<double, double>> points;  // bytes, seconds
  double least_bytes = kInfinity;
  double most_bytes = 0;

  Everything(const ChoiceProblem& problem, const Question& question) {
    each_choice(problem, [&](const std::vector<int>&, const std::vector<double>& cost) {
      const double bytes = weighted_cost(question.limit, cost);
      points.emplace_back(bytes, weighted_cost(question.weights, cost));
      least_bytes = std::min(least_bytes, bytes);
      most_bytes = std::max(most_bytes, bytes);
    });
  }

  [[nodiscard]] double least_seconds(double cap) const {
    double least = kInfinity;
    for (const auto& [bytes, seconds] : points) {
      least = bytes <= cap ? std::min(least, seconds) : least;
    }
    return least;
  }
};

void expect_best(const ChoiceProblem& problem, const Question& question, double cap, double least,
                 const ChoiceAnswer& answer) {
  ASSERT_EQ(answer.choice.empty(), least == kInfinity);
  if (answer.choice.empty()) {
    return;
  }
  const std::vector<double> cost = choice_cost(problem, answer.choice);
  EXPECT_LE(weighted_cost(question.limit, cost), cap);
  EXPECT_NEAR(weighted_cost(question.weights, cost), least, 4e-6 * least);
  EXPECT_LE(answer.bound, least * (1 + 1e-9));
  EXPECT_NEAR(answer.bound, least, 4e-6 * least);
}

double count_choices(const ChoiceProblem& problem) {
  return std::accumulate(problem.values.begin(), problem.values.end(), 1.0, std::multiplies<>());
}

TEST(BlocksOfRandomNetworks, AreSolvedAsByTryingEverything) {
  const OpTable ops = builtin_ops();
  int solved = 0;
  int bound_by_memory = 0;  // the fastest of all would not fit
  double choices = 0;
  for (unsigned seed = 0; solved < kWanted; ++seed) {
    ASSERT_LT(seed, 40U * kWanted);
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const Graph training = training_graph(RandomNetwork(random).make(ops), OptimizerSpec{}, ops);
    const Cluster cluster = parse_cluster(random_below(2, random) == 0 ? "4xA100-80GB" : "2x2xT4");
    const CostModel cost(cluster);
    BlockModel model(training, ops, cost);
    const BlockPlace place = random_place(random);
    const auto layer = std::ranges::find(model.chain.layers, "h.0");
    const int block_class = model.chain.class_of[layer - model.chain.layers.begin()];
    const ChoiceProblem problem = block_problem(model.chain, block_class, place, training, ops,
                                                cost, model.options, model.conversions)
                                      .choices;
    if (count_choices(problem) > kMostChoices) {
      continue;
    }
    ++solved;
    choices += count_choices(problem);
    const Question question(random);
    const Everything all(problem, question);
    ChoiceSolver solver(problem);
    for (const double share : {-0.01, 0.0, 0.05, 0.3, 1.0}) {
      const double cap =
          all.least_bytes + share * (all.most_bytes - all.least_bytes) + (share < 0 ? -1 : 0);
      const double least = all.least_seconds(cap);
      expect_best(problem, question, cap, least,
                  solver.cheapest_within(question.weights, question.limit, cap));
      bound_by_memory += least > all.least_seconds(kInfinity) && least < kInfinity ? 1 : 0;
    }
  }
  // The cases are no trivial ones.
  EXPECT_GT(choices / kWanted, 500);
  EXPECT_GT(bound_by_memory, kWanted / 2);
}

}  // namespace
}  // namespace weft
