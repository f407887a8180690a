#include "weft/search/layer_kinds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/base/error.h"
#include "weft/recipes/node_splits.h"
#include "weft/solver/way_chain.h"

// A kind fixes the splits of all nodes of a block's problem (block_costs.h), as the recipe of that
// kind has them; modes fix its weights, and boundaries both its ends. What is left are the
// placements of values with several readers. Each of these meets fixed variables only, so each
// takes its best value by itself.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// A value that another layer reads is no partial sum: every layer counts as a stage of its own.
std::vector<int> own_stages(const Graph& graph) {
  std::vector<int> stages(layers(graph).size());
  std::iota(stages.begin(), stages.end(), 0);
  return stages;
}

// `repeat`: the one axis of `mesh` stands for so many axes of the stage's mesh.
void add_kind(const Graph& graph, const OpTable& ops, const Mesh& mesh, std::size_t repeat,
              const SplitOptions& options, LayerKind kind, std::vector<LayerKind>& kinds) {
  NodeSplits found = node_splits(graph, ops, mesh, own_stages(graph), options);
  if (!found.why_not.empty()) {
    return;
  }
  kind.lies.resize(graph.values.size());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    Splits& splits = found.splits[n];
    for (std::size_t i = 1; i < repeat && !splits.empty(); ++i) {
      splits.push_back(splits.front());
    }
    for (std::size_t o = 0; o < found.placements[n].outputs.size(); ++o) {
      Placements lies = tied(found.placements[n].outputs[o]);
      for (std::size_t i = 1; i < repeat; ++i) {
        lies.push_back(lies.front());
      }
      kind.lies[graph.nodes[n].outputs[o]] = std::move(lies);
    }
  }
  kind.splits = std::move(found.splits);
  kinds.push_back(std::move(kind));
}

// The option that does the same on all axes or, if there is none, on as many as possible.
int option_like(const std::vector<Splits>& options, const Splits& wanted) {
  int best = 0;
  int most = -1;
  for (std::size_t i = 0; i < options.size(); ++i) {
    int same = 0;
    for (std::size_t a = 0; a < wanted.size(); ++a) {
      same += options[i][a] == wanted[a] ? 1 : 0;
    }
    if (same > most) {
      most = same;
      best = static_cast<int>(i);
    }
  }
  return best;
}

// Gives variables without a value (-1) the best one; they meet none but those that have one.
void complete(const ChoiceProblem& problem, const std::vector<double>& weights,
              std::vector<int>& choice) {
  std::vector<std::vector<double>> totals(choice.size());
  const auto add = [&](int variable, int stride, int offset,
                       const std::vector<std::vector<float>>& cost) {
    std::vector<double>& total = totals[variable];
    total.resize(problem.values[variable], 0);
    for (std::size_t k = 0; k < cost.size(); ++k) {
      for (std::size_t value = 0; value < total.size() && weights[k] > 0 && !cost[k].empty();
           ++value) {
        total[value] += weights[k] * cost[k][value * stride + offset];
      }
    }
  };
  for (std::size_t v = 0; v < choice.size(); ++v) {
    if (choice[v] < 0) {
      add(static_cast<int>(v), 1, 0, problem.cost[v]);
    }
  }
  for (const ChoicePair& pair : problem.pairs) {
    WEFT_CHECK(choice[pair.first] >= 0 || choice[pair.second] >= 0);
    if (choice[pair.first] < 0) {
      add(pair.first, problem.values[pair.second], choice[pair.second], pair.cost);
    } else if (choice[pair.second] < 0) {
      add(pair.second, 1, choice[pair.first] * problem.values[pair.second], pair.cost);
    }
  }
  for (std::size_t v = 0; v < choice.size(); ++v) {
    if (choice[v] < 0) {
      choice[v] = static_cast<int>(std::ranges::min_element(totals[v]) - totals[v].begin());
    }
  }
}

// The ways of one layer.
class WayMaker {
 public:
  WayMaker(const BlockModel& model, const StageTable& table, const std::vector<LayerKind>& kinds,
           int layer, int first)
      : model_(model),
        table_(table),
        kinds_(kinds),
        layer_(layer),
        first_(first),
        block_(model.chain.classes[model.chain.class_of[layer]]),
        problem_(table.problem(layer, first)) {}

  std::vector<KindWay> run() {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const std::vector<int> nodes = choice_of_nodes(kinds_[k]);
      const int in = number(block_.entry, problem_.entry, static_cast<int>(k));
      const int out = number(block_.exit, problem_.exit, static_cast<int>(k));
      for (const WeightMode mode :
           {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2, WeightMode::zero3}) {
        std::vector<int> choice = nodes;
        if (choose_modes(kinds_[k], mode, choice)) {
          add_between(choice, in, out);
        }
      }
    }
    return std::move(ways_);
  }

 private:
  // By class: its first layer stands for all.
  [[nodiscard]] std::vector<int> choice_of_nodes(const LayerKind& kind) const {
    std::vector<int> choice(problem_.choices.values.size(), -1);
    for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
      choice[n] = option_like(problem_.splits[n], kind.splits[block_.nodes[n].node]);
    }
    return choice;
  }

  // Whether there is such a mode.
  bool choose_modes(const LayerKind& kind, WeightMode mode, std::vector<int>& choice) const {
    const Mesh& mesh = table_.place().mesh;
    std::vector<WeightMode> wanted;
    for (const Axis& axis : mesh.axes) {
      wanted.push_back(kind.splits_weights && axis.name == "tp" ? WeightMode::replicate : mode);
    }
    const bool whole =
        std::ranges::all_of(wanted, [](WeightMode m) { return m == WeightMode::replicate; });
    if (mode != WeightMode::replicate && whole) {
      return false;
    }
    for (const BlockProblem::Weights& weights : problem_.weights) {
      if (weights.variable < 0) {
        continue;
      }
      const auto found = std::ranges::find(weights.modes, wanted);
      if (found == weights.modes.end()) {
        return false;
      }
      choice[weights.variable] = static_cast<int>(found - weights.modes.begin());
    }
    return true;
  }

  // The first kind that leaves the boundary as this one does.
  [[nodiscard]] int number(ValueId value, const BlockProblem::Boundary& boundary, int kind) const {
    if (boundary.variable < 0) {
      return -1;
    }
    int k = 0;
    while (kinds_[k].lies[value] != kinds_[kind].lies[value]) {
      ++k;
    }
    return k;
  }

  // With its own boundary on one side and any on the other.
  void add_between(const std::vector<int>& choice, int in, int out) {
    for (std::size_t k = 0; k < kinds_.size(); ++k) {
      const int other_in = number(block_.entry, problem_.entry, static_cast<int>(k));
      const int other_out = number(block_.exit, problem_.exit, static_cast<int>(k));
      add(choice, other_in, out);
      add(choice, in, other_out);
    }
  }

  void add(std::vector<int> choice, int in, int out) {
    const auto end = [&](const BlockProblem::Boundary& boundary, ValueId value, int kind) {
      if (boundary.variable >= 0) {
        choice[boundary.variable] = boundary_value(boundary, kinds_[kind].lies[value]);
      }
    };
    end(problem_.entry, block_.entry, in);
    end(problem_.exit, block_.exit, out);
    for (const bool recompute : {false, true}) {
      if (recompute && !model_.chain.repeated_layer[layer_]) {
        continue;
      }
      std::vector<int> full = choice;
      complete(problem_.choices, table_.time_weights(recompute), full);
      const bool known = std::ranges::any_of(ways_, [&](const KindWay& way) {
        return way.in == in && way.out == out && way.way.recompute == recompute &&
               way.way.choice == full;
      });
      if (known) {
        continue;
      }
      LayerWay way = table_.way_of(layer_, first_, std::move(full), recompute);
      if (way.seconds < kNever &&
          std::ranges::all_of(way.cost, [](double cost) { return std::isfinite(cost); })) {
        ways_.push_back({.way = std::move(way), .in = in, .out = out});
      }
    }
  }

  const BlockModel& model_;
  const StageTable& table_;
  const std::vector<LayerKind>& kinds_;
  int layer_ = 0;
  int first_ = 0;
  const BlockGraph& block_;
  const BlockProblem& problem_;
  std::vector<KindWay> ways_;
};

}  // namespace

std::vector<LayerKind> layer_kinds(const Graph& training, const OpTable& ops, const Mesh& mesh,
                                   std::int64_t samples) {
  std::vector<LayerKind> kinds;
  const auto devices = static_cast<int>(mesh.devices.size());
  if (samples >= devices) {
    Mesh replicas{.devices = mesh.devices, .axes = {}};
    if (devices > 1) {
      replicas.axes.push_back({"dp", devices});
    }
    add_kind(training, ops, replicas, mesh.axes.size(), {},
             {.name = "dp", .splits = {}, .lies = {}, .splits_weights = false}, kinds);
  }
  const int tp = axis_index(mesh, "tp");
  if (tp < 0) {
    return kinds;
  }
  for (const bool tokens : {false, true}) {
    add_kind(training, ops, mesh, 1, {.sequence_parallel = tokens},
             {.name = tokens ? "tp+sp" : "tp", .splits = {}, .lies = {}, .splits_weights = true},
             kinds);
  }
  Mesh parts = mesh;
  parts.axes[tp].name = "cp";
  add_kind(training, ops, parts, 1, {.attention = "ulysses"},
           {.name = "ulysses", .splits = {}, .lies = {}, .splits_weights = false}, kinds);
  return kinds;
}

std::vector<KindWay> kind_ways(const BlockModel& model, const StageTable& table,
                               const std::vector<LayerKind>& kinds, int layer, int first) {
  return WayMaker(model, table, kinds, layer, first).run();
}

std::vector<LayerWay> fastest_kinds(const std::vector<const std::vector<KindWay>*>& menus,
                                    int in_flight, double bytes) {
  WayChain chain;
  std::vector<const std::vector<KindWay>*> known;  // layers alike have the same
  for (const std::vector<KindWay>* menu : menus) {
    const auto found = std::ranges::find(known, menu);
    chain.menu_of.push_back(static_cast<int>(found - known.begin()));
    if (found != known.end()) {
      continue;
    }
    known.push_back(menu);
    chain.menus.emplace_back();
    for (const KindWay& way : *menu) {
      chain.menus.back().push_back({.in = way.in,
                                    .out = way.out,
                                    .seconds = way.way.seconds,
                                    .bytes = way_bytes(way.way, in_flight),
                                    .working_bytes = way.way.working_bytes});
    }
  }
  std::vector<LayerWay> result;
  const WayChainAnswer answer = fastest_ways(chain, bytes);
  for (std::size_t i = 0; i < answer.ways.size(); ++i) {
    result.push_back((*menus[i])[answer.ways[i]].way);
  }
  return result;
}

}  // namespace weft
