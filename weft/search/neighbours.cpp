// One decision is
//
//   micro-batches   their number: the next larger and smaller ones
//   cut             where a stage ends: its first or last layer goes to its neighbour, if that has
//                   the same axes, and stays split and kept as it was
//   weights         the mode of a layer's parameters, or of all, along all axes or the first; of
//                   few layers also of two at once, as modes share what is sent in one bucket
//   recomputation   of a layer, or of all; of values that cost one pass over memory
//   splits          of a node, or of the nodes of one name in all layers of a kind

#include "weft/search/neighbours.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/recipes/node_splits.h"
#include "weft/search/block_options.h"
#include "weft/search/configurations.h"
#include "weft/search/stage_plan.h"

namespace weft {
namespace {

constexpr int kNextCounts = 2;  // of micro-batches, on each side
constexpr int kMostPairs = 16;  // changes of modes, up to which pairs of them are tried

bool is_here(const StagePlan& stage, std::string_view node) {
  return std::ranges::find(stage.layers, layer_of(node)) != stage.layers.end();
}

// Parameters that forward nodes of a stage read, or of one of its layers.
std::vector<std::string> parameters_of(const StagePlan& stage, const Graph& training,
                                       std::string_view layer = {}) {
  std::vector<std::string> names;
  for (const Node& node : training.nodes) {
    if (!is_ruled(node) || !is_here(stage, node.name) ||
        (!layer.empty() && layer_of(node.name) != layer)) {
      continue;
    }
    for (const ValueId v : node.inputs) {
      const Value& value = training.values[v];
      if (value.kind == ValueKind::parameter &&
          std::ranges::find(names, value.name) == names.end()) {
        names.push_back(value.name);
      }
    }
  }
  return names;
}

// Of "search dp=2,micro-batches=4", what it says of a key.
void say(std::string& origin, const std::string& key, const std::string& value) {
  const std::size_t at = origin.find(key + "=");
  if (at == std::string::npos) {
    origin += "," + key + "=" + value;
    return;
  }
  const std::size_t begin = at + key.size() + 1;
  origin.replace(begin, std::min(origin.find(',', begin), origin.size()) - begin, value);
}

class Neighbours {
 public:
  Neighbours(const Plan& plan, const Graph& training, const OpTable& ops, const PlanLimits& limits)
      : plan_(plan), training_(training), ops_(ops), limits_(limits) {}

  std::vector<Plan> run() {
    add_micro_batches();
    add_cuts();
    add_weights();
    add_recomputation();
    add_splits();
    return std::move(result_);
  }

 private:
  struct ModeChange {
    std::size_t stage = 0;
    std::string layer;
    WeightMode mode = WeightMode::replicate;
    bool all_axes = false;  // or along the first alone
  };

  void add(Plan plan) {
    if (!(plan == plan_)) {
      result_.push_back(std::move(plan));
    }
  }

  void add_micro_batches() {
    const Mesh& mesh = plan_.stages.front().mesh;
    const int axis = axis_index(mesh, "dp");
    const std::vector<int> counts =
        micro_batch_counts(plan_.batch, axis < 0 ? 1 : mesh.axes[axis].size, limits_);
    const auto own = static_cast<int>(plan_.micro_batches.size());
    const auto place = std::ranges::lower_bound(counts, own) - counts.begin();
    const bool listed = plan_.schedule == "listed";
    for (auto i = place - kNextCounts; i <= place + kNextCounts; ++i) {
      if (i < 0 || i >= std::ssize(counts) || counts[i] == own ||
          (listed && is_forbidden(limits_, "1f1b"))) {
        continue;
      }
      Plan plan = plan_;
      plan.micro_batches = micro_batch_sizes(plan_.batch, counts[i]);
      say(plan.origin, "micro-batches", std::to_string(counts[i]));
      if (listed) {
        plan.schedule = "1f1b";  // its order was for another number
        plan.order.clear();
        say(plan.origin, "schedule", plan.schedule);
      }
      add(std::move(plan));
    }
  }

  void add_cuts() {
    for (std::size_t s = 0; s + 1 < plan_.stages.size(); ++s) {
      if (plan_.stages[s].mesh.axes == plan_.stages[s + 1].mesh.axes) {
        add_cut(s, s + 1, plan_.stages[s].layers.back());
        add_cut(s + 1, s, plan_.stages[s + 1].layers.front());
      }
    }
  }

  void add_cut(std::size_t from, std::size_t to, const std::string& layer) {
    Plan plan = plan_;
    StagePlan& giver = plan.stages[from];
    StagePlan& taker = plan.stages[to];
    const auto no_layer = [](const std::string& name) {
      return name.find_first_of("/*") != std::string::npos;
    };
    if (giver.layers.size() < 2 || !giver.gradients.empty() || !taker.gradients.empty() ||
        std::ranges::any_of(giver.recompute, no_layer)) {
      return;
    }
    std::erase(giver.layers, layer);
    taker.layers.insert(from < to ? taker.layers.begin() : taker.layers.end(), layer);
    const auto moves = [&](const NodeRule& rule) { return layer_of(rule.nodes) == layer; };
    std::ranges::copy_if(giver.nodes, std::back_inserter(taker.nodes), moves);
    std::erase_if(giver.nodes, moves);
    for (const std::string& name : parameters_of(taker, training_, layer)) {
      const auto rule = std::ranges::find(giver.weights, name, &WeightRule::parameters);
      const auto known = std::ranges::find(taker.weights, name, &WeightRule::parameters);
      if (rule != giver.weights.end() && known == taker.weights.end()) {
        taker.weights.push_back(*rule);
      }
    }
    if (std::erase(giver.recompute, layer) > 0) {
      taker.recompute.push_back(layer);
    }
    add(std::move(plan));
  }

  void add_weights() {
    if (limits_.zero >= 0) {
      return;
    }
    const std::vector<ModeChange> changes = mode_changes();
    for (const ModeChange& change : changes) {
      Plan all = plan_;
      for (std::size_t s = 0; s < all.stages.size(); ++s) {
        for (const std::string& layer : all.stages[s].layers) {
          set_mode(all,
                   {.stage = s, .layer = layer, .mode = change.mode, .all_axes = change.all_axes});
        }
      }
      Plan one = plan_;
      set_mode(one, change);
      if (std::ssize(changes) <= kMostPairs) {
        for (const ModeChange& other : changes) {
          if (&other > &change && other.layer != change.layer) {
            Plan two = one;
            set_mode(two, other);
            add(std::move(two));
          }
        }
      }
      add(std::move(one));
      add(std::move(all));
    }
  }

  // All of one layer.
  [[nodiscard]] std::vector<ModeChange> mode_changes() const {
    std::vector<ModeChange> changes;
    for (const bool all_axes : {false, true}) {
      for (const WeightMode mode :
           {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2, WeightMode::zero3}) {
        if (is_forbidden(limits_, weight_mode_name(mode))) {
          continue;
        }
        for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
          for (const std::string& layer : plan_.stages[s].layers) {
            if (plan_.stages[s].mesh.axes.size() > (all_axes ? 1 : 0)) {
              changes.push_back({.stage = s, .layer = layer, .mode = mode, .all_axes = all_axes});
            }
          }
        }
      }
    }
    return changes;
  }

  void set_mode(Plan& plan, const ModeChange& change) const {
    StagePlan& stage = plan.stages[change.stage];
    const std::vector<std::string> names = parameters_of(stage, training_, change.layer);
    for (WeightRule& rule : stage.weights) {
      if (std::ranges::find(names, rule.parameters) == names.end()) {
        continue;
      }
      for (const Axis& axis : stage.mesh.axes) {
        if (change.all_axes || &axis == &stage.mesh.axes.front()) {
          rule.modes[axis.name] = change.mode;
        }
      }
    }
  }

  void add_recomputation() {
    Plan values = plan_;
    values.repeat_values = !plan_.repeat_values;
    add(std::move(values));
    if (!limits_.recompute.empty() || is_forbidden(limits_, "recompute")) {
      return;
    }
    Plan all = plan_;
    Plan none = plan_;
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      all.stages[s].recompute = plan_.stages[s].layers;
      none.stages[s].recompute.clear();
      for (const std::string& layer : plan_.stages[s].layers) {
        Plan one = plan_;
        if (std::erase(one.stages[s].recompute, layer) == 0) {
          one.stages[s].recompute.push_back(layer);
        }
        add(std::move(one));
      }
    }
    add(std::move(all));
    add(std::move(none));
  }

  void add_splits() {
    std::map<std::string, std::vector<std::string>> alike;  // nodes by their name in all layers
    for (const Node& node : training_.nodes) {
      if (is_ruled(node)) {
        alike[layer_pattern(node.name)].push_back(node.name);
      }
    }
    std::set<std::string> done;
    for (const StagePlan& stage : plan_.stages) {
      for (const Node& node : training_.nodes) {
        if (!is_ruled(node) || !is_here(stage, node.name) || stage.mesh.axes.empty()) {
          continue;
        }
        const int data_axes = stage.mesh.axes.front().name == "dp" ? 1 : 0;
        const std::vector<std::string>& others = alike.at(layer_pattern(node.name));
        const bool first = done.insert(layer_pattern(node.name)).second;
        for (const Splits& splits : all_splits(factors_of(ops_, training_, node), node, training_,
                                               stage.mesh, data_axes)) {
          const NamedSplit named = named_split(node.name, splits, stage.mesh);
          add(with_split({node.name}, named, stage.mesh));
          if (first && others.size() > 1) {
            add(with_split(others, named, stage.mesh));
          }
        }
      }
    }
  }

  // Only on meshes with the same axes.
  [[nodiscard]] Plan with_split(const std::vector<std::string>& nodes, const NamedSplit& named,
                                const Mesh& mesh) const {
    Plan plan = plan_;
    for (StagePlan& stage : plan.stages) {
      for (NodeRule& rule : stage.nodes) {
        if (stage.mesh.axes == mesh.axes && std::ranges::find(nodes, rule.nodes) != nodes.end()) {
          rule.split = named.split;
        }
      }
    }
    return plan;
  }

  const Plan& plan_;
  const Graph& training_;
  const OpTable& ops_;
  const PlanLimits& limits_;
  std::vector<Plan> result_;
};

}  // namespace

Plan spelled_out(const Plan& plan, const Graph& training) {
  Plan result = plan;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    StagePlan& own = result.stages[s];
    own.nodes.clear();
    own.weights.clear();
    for (const Node& node : training.nodes) {
      if (is_ruled(node) && is_here(stage, node.name)) {
        const NodeRule* rule = rule_for(stage, node.name);
        WEFT_CHECK(rule != nullptr);
        own.nodes.push_back({.nodes = node.name, .split = rule->split});
      }
    }
    for (const std::string& name : parameters_of(stage, training)) {
      WeightRule rule{.parameters = name, .modes = {}};
      for (const Axis& axis : stage.mesh.axes) {
        rule.modes[axis.name] = weight_mode(stage, name, axis.name);
      }
      own.weights.push_back(std::move(rule));
    }
  }
  return result;
}

Plan in_short(const Plan& plan) {
  Plan result = plan;
  for (StagePlan& stage : result.stages) {
    std::vector<NamedSplit> nodes;
    for (const NodeRule& rule : stage.nodes) {
      nodes.push_back({.node = rule.nodes, .split = rule.split});
    }
    std::vector<NamedSplit> weights;
    bool any_mode = false;
    for (const WeightRule& rule : stage.weights) {
      NamedSplit weight{.node = rule.parameters, .split = {}};
      for (const auto& [axis, mode] : rule.modes) {
        if (mode != WeightMode::replicate) {
          weight.split[axis] = weight_mode_name(mode);
          any_mode = true;
        }
      }
      weights.push_back(std::move(weight));
    }
    stage.nodes = compress_rules(nodes);
    stage.weights = any_mode ? weight_rules(weights) : std::vector<WeightRule>();
  }
  return result;
}

std::vector<Plan> neighbours(const Plan& plan, const Graph& training, const OpTable& ops,
                             const PlanLimits& limits) {
  return Neighbours(plan, training, ops, limits).run();
}

}  // namespace weft
