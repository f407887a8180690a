// Whole searches of random small networks against every plan there is: all cuts into stages on
// equal meshes, all splits of all nodes, weight modes and recomputation by layer, numbers of
// micro-batches. Each plan is lowered and simulated. --gtest_random_seed=N: other networks.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <random>

#include "weft/autodiff/differentiate.h"
#include "weft/base/divisors.h"
#include "weft/frontend/network.h"
#include "weft/search/block_options.h"
#include "weft/search/configurations.h"
#include "weft/search/evaluate.h"
#include "weft/search/search.h"
#include "weft/search/stage_plan.h"
#include "weft/solver/choice_random.h"

namespace weft {
namespace {

constexpr int kCases = 120;
constexpr double kMostPlans = 3000;  // of a case
constexpr double kRounding = 1e-6;
constexpr std::int64_t kFeatures[] = {64, 512, 2048, 4096};

struct Case {
  OpTable ops = builtin_ops();
  Task task;
  Graph training;
  PlanLimits limits;
};

Case random_case(unsigned seed) {
  std::mt19937 random(seed);
  const auto features = [&] { return kFeatures[random_below(std::size(kFeatures), random)]; };
  Case c;
  Graph graph;
  Network net(graph, c.ops, DType::f32);
  ValueId x = net.samples("x", {kBatch, features()});
  const int layers = 1 + random_below(3, random);
  for (int i = 0; i < layers; ++i) {
    net.layer(fmt::format("h.{}", i));
    x = net.linear(x, "linear", {.to = features(), .bias = random_below(2, random) == 0});
    x = random_below(2, random) == 0 ? net.activation(x, "relu", "act") : x;
  }
  net.layer("out");
  graph.loss = net.squared_error(net.linear(x, "linear", {.to = features()}));
  const std::vector<std::string> clusters = {"1x2xA100-80GB", "1x2xT4", "2x1xT4", "1x3xV100-16GB"};
  c.task.cluster = parse_cluster(clusters[random_below(static_cast<int>(clusters.size()), random)]);
  c.task.model.description = "random";
  c.task.batch = std::int64_t{16} << random_below(6, random);
  c.training = training_graph(graph, c.task.optimizer, c.ops);
  c.task.memory_budget_bytes.assign(c.task.cluster.devices.size(), std::int64_t{1} << 40);
  const std::vector<std::string> forbidden = {
      "zero2,zero3",           "tp",
      "recompute,zero3",       "zero1,zero2,zero3,recompute",
      "zero2,zero3,tp",        "tp,zero1,zero2",
      "recompute,zero2,zero3", "tp,zero1,zero3"};
  forbid_limits(
      forbidden[random_below(static_cast<int>(forbidden.size()), random)] + ",gradients,unequal",
      c.limits);
  return c;
}

// One thing to decide: changes the plan to each of its values.
struct Decision {
  int values = 1;
  std::function<void(Plan&, int)> set;
};

class WholeSpace {
 public:
  explicit WholeSpace(const Case& c) : c_(c), layers_(layers(c.training)) {}

  // Calls `take` for every plan.
  void each(const std::function<void(const Plan&)>& take) {
    each_frame([&](const Plan& frame, const std::vector<Decision>& decisions) {
      std::vector<int> value(decisions.size(), 0);
      Plan plan = frame;
      for (const Decision& decision : decisions) {
        decision.set(plan, 0);
      }
      std::size_t d = 0;
      do {
        take(plan);
        for (d = 0; d < decisions.size(); ++d) {
          value[d] = (value[d] + 1) % decisions[d].values;
          decisions[d].set(plan, value[d]);
          if (value[d] != 0) {
            break;
          }
        }
      } while (d < decisions.size());
    });
  }

  [[nodiscard]] double count() {
    double sum = 0;
    each_frame([&](const Plan&, const std::vector<Decision>& decisions) {
      double product = 1;
      for (const Decision& decision : decisions) {
        product *= decision.values;
      }
      sum += product;
    });
    return sum;
  }

 private:
  using Take = std::function<void(const Plan&, const std::vector<Decision>&)>;

  // Meshes, cuts and micro-batches.
  void each_frame(const Take& take) {
    const auto devices = static_cast<int>(c_.task.cluster.devices.size());
    const auto count = static_cast<int>(layers_.size());
    for (int stages = 1; stages <= std::min(devices, count); ++stages) {
      for (int size = 1; size * stages <= devices; ++size) {
        for (const int dp : divisors(size)) {
          if (dp != size && is_forbidden(c_.limits, "tp")) {
            continue;
          }
          for (int cut = 0; cut < 1 << (count - 1); ++cut) {
            if (std::popcount(static_cast<unsigned>(cut)) == stages - 1) {
              for (const int m : {1, 2, 4}) {
                take_frame(stages, {.dp = dp, .tp2 = 1, .tp = size / dp}, cut, m, take);
              }
            }
          }
        }
      }
    }
  }

  void take_frame(int stages, MeshShape shape, int cut, int micro_batches, const Take& take) {
    if (c_.task.batch % (micro_batches * shape.dp) != 0) {
      return;
    }
    Plan plan = plan_of(c_.task, "search whole", micro_batches);
    std::vector<Decision> decisions;
    std::size_t next = 0;
    for (int s = 0; s < stages; ++s) {
      StagePlan stage;
      stage.mesh = mesh_at({.shape = shape, .first_device = s * shape.devices()});
      do {
        stage.layers.push_back(layers_[next]);
      } while ((cut >> next++ & 1) == 0 && next < layers_.size());
      plan.stages.push_back(stage);
      add_nodes(s, stage, decisions);
      add_layers(s, stage, decisions);
    }
    take(plan, decisions);
  }

  void add_nodes(int s, const StagePlan& stage, std::vector<Decision>& decisions) {
    for (const Node& node : c_.training.nodes) {
      const bool here = std::ranges::find(stage.layers, layer_of(node.name)) != stage.layers.end();
      if (node.role != Role::forward || !here || node.op == "accumulate") {
        continue;
      }
      const std::vector<Splits> all =
          all_splits(factors_of(c_.ops, c_.training, node), node, c_.training, stage.mesh, 1);
      std::vector<NodeRule> rules;
      for (const Splits& splits : all) {
        const NamedSplit named = named_split(node.name, splits, stage.mesh);
        rules.push_back({.nodes = named.node, .split = named.split});
      }
      decisions.push_back(
          {.values = static_cast<int>(rules.size()), .set = [s, rules](Plan& plan, int value) {
             auto& of_stage = plan.stages[s].nodes;
             const auto own = std::ranges::find(of_stage, rules[value].nodes, &NodeRule::nodes);
             if (own == of_stage.end()) {
               of_stage.push_back(rules[value]);
             } else {
               *own = rules[value];
             }
           }});
    }
  }

  void add_layers(int s, const StagePlan& stage, std::vector<Decision>& decisions) {
    std::vector<WeightMode> modes = {WeightMode::replicate};
    for (const WeightMode mode : {WeightMode::zero1, WeightMode::zero2, WeightMode::zero3}) {
      if (!is_forbidden(c_.limits, weight_mode_name(mode)) && stage.mesh.devices.size() > 1) {
        modes.push_back(mode);
      }
    }
    for (const std::string& layer : stage.layers) {
      decisions.push_back({.values = static_cast<int>(modes.size()),
                           .set = [s, layer, modes](Plan& plan, int value) {
                             auto& of_stage = plan.stages[s].weights;
                             std::erase_if(of_stage, [&](const WeightRule& r) {
                               return r.parameters == layer + "/*";
                             });
                             WeightRule rule{.parameters = layer + "/*", .modes = {}};
                             for (const Axis& axis : plan.stages[s].mesh.axes) {
                               rule.modes[axis.name] = modes[value];
                             }
                             of_stage.push_back(std::move(rule));
                           }});
      if (!is_forbidden(c_.limits, "recompute")) {
        decisions.push_back({.values = 2, .set = [s, layer](Plan& plan, int value) {
                               auto& again = plan.stages[s].recompute;
                               std::erase(again, layer);
                               if (value == 1) {
                                 again.push_back(layer);
                               }
                             }});
      }
    }
  }

  const Case& c_;
  std::vector<std::string> layers_;
};

// Those that end; not those with a node that would work on partial sums where there are none.
std::vector<Candidate> all_candidates(const Case& c, WholeSpace& space) {
  const CostModel cost(c.task.cluster);
  std::vector<Candidate> all;
  space.each([&](const Plan& plan) {
    try {
      if (std::optional<Candidate> one = evaluate_if_it_ends(plan, c.training, c.ops, cost)) {
        all.push_back(std::move(*one));
      }
    } catch (const Error& error) {
      ASSERT_EQ(error.blame(), Blame::input) << error.what();
    }
  });
  return all;
}

TEST(WholeSpaces, AreSearchedAsByTryingEverything) {
  double plans = 0;
  int bound_by_memory = 0;  // the fastest of all would not fit
  int cases = 0;
  const unsigned first = 1000U * static_cast<unsigned>(GTEST_FLAG_GET(random_seed));
  for (unsigned seed = first; cases < kCases; ++seed) {
    ASSERT_LT(seed, first + 10U * kCases);
    SCOPED_TRACE(seed);
    Case c = random_case(seed);
    WholeSpace space(c);
    if (space.count() > kMostPlans) {
      continue;
    }
    const std::vector<Candidate> all = all_candidates(c, space);
    ASSERT_FALSE(all.empty());
    std::vector<std::int64_t> peaks;
    for (const Candidate& candidate : all) {
      peaks.push_back(std::ranges::max(candidate.peak_memory_bytes));
    }
    std::ranges::sort(peaks);
    ++cases;
    plans += static_cast<double>(all.size());
    const double fastest_s = std::ranges::min_element(all, {}, &Candidate::step_s)->step_s;
    for (const double share : {0.02, 0.2, 1.0}) {
      SCOPED_TRACE(share);
      const std::int64_t budget =
          peaks[static_cast<std::size_t>(share * static_cast<double>(peaks.size() - 1))];
      std::ranges::fill(c.task.memory_budget_bytes, budget);
      double least_s = std::numeric_limits<double>::infinity();
      for (const Candidate& candidate : all) {
        const bool fits = std::ranges::max(candidate.peak_memory_bytes) <= budget;
        least_s = fits ? std::min(least_s, candidate.step_s) : least_s;
      }
      bound_by_memory += least_s > fastest_s ? 1 : 0;
      const SearchResult found = search_all(c.task, c.training, c.ops, c.limits, {});
      ASSERT_TRUE(found.best.has_value());
      EXPECT_LE(std::ranges::max(found.best->peak_memory_bytes), budget);
      EXPECT_LE(found.best->step_s, least_s * (1 + kRounding)) << found.best->recipe;
      EXPECT_LE(found.bound_s, least_s);
    }
  }
  // The cases are no trivial ones.
  EXPECT_GT(plans / kCases, 100);
  EXPECT_GT(bound_by_memory, kCases / 2);
}

}  // namespace
}  // namespace weft
