// Placements. A forward node splits the factors its rule in the plan names; so does a gradient node
// that has a rule, others follow what their inputs are (`follow`). A parameter is stored as its
// first use needs it, split further along axes that have a zero mode.
//
// For an axis along which the forward pass does not split a parameter:
//
//   mode        stored  in a step  accumulator  gradient and state at the update
//   replicate   R       R          P (or R)     R
//   zero1       S0      R          P            S0
//   zero2       S0      R          S0           S0
//   zero3       S0      S0         S0           S0
//
// With zero1 and zero2 a parameter is gathered once, beside the first forward pass; with zero3 for
// each use.

#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/known_placements.h"
#include "weft/program/lowering.h"

namespace weft {
namespace {

// Where the program whose tensors are shared keeps a parameter; nullptr if there is none.
const Placements* stored_beside(const Lowering& l, const std::string& name, int mesh) {
  if (l.beside == nullptr) {
    return nullptr;
  }
  for (const Slot& slot : l.beside->stages[mesh].slots) {
    if (slot.lifetime == Lifetime::persistent && slot.view_of < 0 && slot.name == name) {
      return &slot.placements;
    }
  }
  throw Error(Blame::bug, fmt::format("bug in weft: parameter '{}' is not in the program whose "
                                      "tensors are shared",
                                      name));
}

Home make_home(const Lowering& l, ValueId parameter, int stage, const Placements& used) {
  const StagePlan& plan = l.plan.stages[stage];
  const Value& value = l.graph.values[parameter];
  Home home{.used = used,
            .stored = used,
            .kept = used,
            .summed = Placements(used.size(), partial()),
            .update = used};
  const Placements* beside = stored_beside(l, value.name, l.mesh_of[stage]);
  const bool trained = l.trained[parameter];
  for (std::size_t a = 0; a < used.size(); ++a) {
    if (used[a].kind != Placement::Kind::replicate || value.type.rank() == 0) {
      continue;
    }
    const WeightMode mode = weight_mode(plan, value.name, plan.mesh.axes[a].name);
    if (mode != WeightMode::zero3 && !trained && beside == nullptr) {
      continue;  // nothing of it is updated in parts
    }
    if (mode == WeightMode::zero3) {
      home.kept[a] = shard(0);
    }
    if (mode == WeightMode::zero2 || mode == WeightMode::zero3) {
      home.summed[a] = shard(0);
    }
    if (mode != WeightMode::replicate) {
      home.stored[a] = shard(0);
      home.update[a] = shard(0);
    }
  }
  if (beside != nullptr) {
    const bool once = home.kept != home.stored;
    home.stored = *beside;
    home.kept = once ? home.kept : home.stored;
  }
  return home;
}

// The gradient of a value lies as the value does; that of a partial sum is whole. Without this tie
// a gradient that the loss happens to give in parts would stay in parts through the whole backward
// pass, and weight gradients with it.
Placements tied(Placements placements) {
  for (Placement& p : placements) {
    p = p.kind == Placement::Kind::partial ? replicate() : p;
  }
  return placements;
}

// Where a node's input lies, as far as it is known; empty: anywhere. A gradient node finds the
// inputs of its forward node as that one needed them, and the gradients of its outputs as it gave
// them, a partial sum whole: so the products of a backward pass are split as those of the forward
// pass are, also where the values lie in parts in between (sequence parallelism) and are gathered
// again.
Placements known(const Lowering& l, const Node& node, ValueId value, int stage) {
  if (node.forward >= 0 && l.graph.values[value].kind == ValueKind::result) {
    const Node& forward = l.graph.nodes[node.forward];
    const auto input = std::ranges::find(forward.inputs, value);
    if (input != forward.inputs.end()) {
      return l.placement[node.forward]->inputs[input - forward.inputs.begin()];
    }
  }
  const Value& v = l.graph.values[value];
  if (v.kind == ValueKind::parameter) {
    const auto it = l.home[value].find(l.mesh_of[stage]);
    return it == l.home[value].end() ? Placements{} : it->second.used;
  }
  if (v.kind != ValueKind::result) {
    return {};
  }
  if (v.of >= 0 && l.graph.values[v.of].kind == ValueKind::result &&
      stage_of_value(l, v.of) == stage) {
    const bool own = node.forward >= 0 && node.forward == l.graph.values[v.of].producer;
    return tied(own ? l.produced[v.of] : l.settled[v.of]);
  }
  return stage_of_value(l, value) == stage ? l.settled[value] : arriving(l, value, stage);
}

// The gradient of a node that is a ring is one too.
void keep_rings(const Lowering& l, const Node& node, const Factors& factors, Splits& splits) {
  if (node.forward < 0 || factors.ring_stays < 0 || l.ring_axis[node.forward] < 0) {
    return;
  }
  const Node& forward = l.graph.nodes[node.forward];
  const StagePlan& plan = l.plan.stages[l.stage_of[node.forward]];
  const int axis = l.ring_axis[node.forward];
  splits[axis] = splits_for(*rule_for(plan, forward.name), plan.mesh)[axis];
}

Splits choose(const Lowering& l, NodeId n, int stage, KnownPlacements& known_placements) {
  const Node& node = l.graph.nodes[n];
  const StagePlan& plan = l.plan.stages[stage];
  const bool is_forward = node.role == Role::forward;
  const NodeRule* rule =
      is_forward ? rule_for(plan, node.name) : gradient_rule_for(plan, node.name);
  require(rule != nullptr || !is_forward, "stage {}: no rule matches node '{}'", stage, node.name);
  if (rule != nullptr) {
    return known_placements.ruled(*rule, plan.mesh);
  }
  std::vector<Placements> inputs;
  inputs.reserve(node.inputs.size());
  for (const ValueId v : node.inputs) {
    inputs.push_back(known(l, node, v, stage));
  }
  Splits splits = known_placements.followed(n, plan.mesh, std::move(inputs));
  keep_rings(l, node, l.facts.factors[l.facts.kind[n]], splits);
  return splits;
}

// Parameters are stored as their first use needs them. A partial sum that a node needed whole
// counts as whole from then on.
void record_uses(Lowering& l, const Node& node, const NodePlacement& placed, int stage) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    const Placements& needed = placed.inputs[i];
    const ValueKind kind = l.graph.values[v].kind;
    if (kind == ValueKind::parameter && !l.home[v].contains(l.mesh_of[stage])) {
      l.home[v][l.mesh_of[stage]] = make_home(l, v, stage, needed);
    } else if (kind == ValueKind::result && stage_of_value(l, v) == stage &&
               has_partial(l.settled[v]) && !has_partial(needed)) {
      l.settled[v] = needed;
    }
  }
}

// Nothing becomes a partial sum on its way: a node works on one only where its input is one.
void check_sums(const Lowering& l, const Node& node, const NodePlacement& placed, int stage) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId v = node.inputs[i];
    const bool made_here =
        l.graph.values[v].kind == ValueKind::result && stage_of_value(l, v) == stage;
    for (std::size_t a = 0; a < placed.inputs[i].size(); ++a) {
      const Placement& needed = placed.inputs[i][a];
      require(needed.kind != Placement::Kind::partial ||
                  (made_here && a < l.produced[v].size() && l.produced[v][a] == needed),
              "{}: it is to work on partial sums along axis {} ('+'), but '{}' is no partial sum "
              "there",
              node.name, l.plan.stages[stage].mesh.axes[a].name, l.graph.values[v].name);
    }
  }
}

void place_node_of_stage(Lowering& l, NodeId n, KnownPlacements& known_placements) {
  const Node& node = l.graph.nodes[n];
  const int stage = l.stage_of[n];
  const Splits splits = choose(l, n, stage, known_placements);
  l.placement[n] = known_placements.placed(n, l.plan.stages[stage].mesh, splits);
  const NodePlacement& placed = *l.placement[n];
  for (std::size_t axis = 0; axis < splits.size(); ++axis) {
    if (splits[axis].ring) {
      const std::vector<Axis>& axes = l.plan.stages[stage].mesh.axes;
      const std::size_t before = l.ring_axis[n] < 0 ? axis : l.ring_axis[n];
      require(before == axis, "{}: rings along two axes, {} and {}", node.name, axes[before].name,
              axes[axis].name);
      l.ring_axis[n] = static_cast<int>(axis);
    }
  }
  check_sums(l, node, placed, stage);
  record_uses(l, node, placed, stage);
  for (std::size_t o = 0; o < node.outputs.size(); ++o) {
    l.produced[node.outputs[o]] = placed.outputs[o];
    l.settled[node.outputs[o]] = placed.outputs[o];
  }
}

// One axis of an accumulator, given how its terms lie along it.
Placement sum_placement(const std::vector<Placement>& terms, const Placement& update) {
  const auto partial_term = [](const Placement& p) { return p.kind == Placement::Kind::partial; };
  if (std::ranges::any_of(terms, partial_term)) {
    return partial();
  }
  const bool alike = std::ranges::all_of(terms, [&](const Placement& p) { return p == terms[0]; });
  return alike ? terms[0] : update;
}

// zero2 and zero3 reduce the gradient of each micro-batch at once, so that only a part is ever
// kept.
Placements accumulator(const Lowering& l, ValueId sum, const std::vector<Placements>& terms,
                       int mesh) {
  const ValueId parameter = l.graph.values[sum].of;
  const Home* home = nullptr;
  if (parameter >= 0 && l.home[parameter].contains(mesh)) {
    home = &l.home[parameter].at(mesh);
  }
  Placements result;
  for (std::size_t a = 0; a < terms[0].size(); ++a) {
    std::vector<Placement> along;
    along.reserve(terms.size());
    for (const Placements& t : terms) {
      along.push_back(t[a]);
    }
    result.push_back(sum_placement(along, home != nullptr ? home->update[a] : replicate()));
    if (home != nullptr && result.back() == partial()) {
      result.back() = home->summed[a];
    }
  }
  return result;
}

void place_accumulators(Lowering& l, NodeId n) {
  const Node& node = l.graph.nodes[n];
  std::map<int, std::vector<Placements>> terms;
  for (const ValueId v : node.inputs) {
    terms[l.mesh_of[stage_of_value(l, v)]].push_back(l.produced[v]);
  }
  for (const auto& [mesh, list] : terms) {
    l.sums[node.outputs[0]][mesh] = accumulator(l, node.outputs[0], list, mesh);
  }
}

// A parameter that only an update uses, such as a running statistic, is whole on every device.
void home_statistics(Lowering& l, const Node& node, int stage) {
  for (const ValueId v : node.inputs) {
    if (l.graph.values[v].kind == ValueKind::parameter && l.home[v].empty()) {
      const Placements whole(l.plan.stages[stage].mesh.axes.size());
      l.home[v][l.mesh_of[stage]] = {
          .used = whole, .stored = whole, .kept = whole, .summed = whole, .update = whole};
    }
  }
}

// A rule that no gradient node matches is a mistake in its name. A graph without gradients, for
// evaluation, has none to match.
void check_gradient_rules(const Lowering& l) {
  const auto is_gradient = [&](NodeId n) {
    const Role role = l.graph.nodes[n].role;
    return role == Role::input_grad || role == Role::weight_grad;
  };
  for (std::size_t s = 0; s < l.plan.stages.size() && l.beside == nullptr; ++s) {
    for (const NodeRule& rule : l.plan.stages[s].gradients) {
      bool known = false;
      for (std::size_t n = 0; n < l.graph.nodes.size() && !known; ++n) {
        known = l.stage_of[n] == static_cast<int>(s) && is_gradient(static_cast<NodeId>(n)) &&
                matches(rule.nodes, l.graph.nodes[n].name);
      }
      require(known,
              "stage {}: no gradient node matches '{}'; they are called as in "
              "h.0/mlp/up.grad/linear_weight_grad ('weft simulate --program' prints them all)",
              s, rule.nodes);
    }
  }
}

}  // namespace

Placements arriving(const Lowering& l, ValueId value, int stage) {
  const Mesh& from = l.plan.stages[stage_of_value(l, value)].mesh;
  const Mesh& to = l.plan.stages[stage].mesh;
  Placements result;
  for (const Axis& axis : to.axes) {
    const int a = axis_index(from, axis.name);
    const bool split = a >= 0 && l.produced[value][a].kind == Placement::Kind::shard;
    result.push_back(split ? l.produced[value][a] : replicate());
    if (split && from.axes[a].size != axis.size) {
      result.back().ratios.clear();  // they are for another number of devices
    }
  }
  return result;
}

void place_nodes(Lowering& l) {
  check_gradient_rules(l);
  const std::size_t values = l.graph.values.size();
  l.placement.resize(l.graph.nodes.size());
  l.ring_axis.assign(l.graph.nodes.size(), -1);
  l.home.resize(values);
  l.produced.resize(values);
  l.settled.resize(values);
  l.sums.resize(values);
  KnownPlacements known_placements(l.facts);
  for (std::size_t n = 0; n < l.graph.nodes.size(); ++n) {
    const Node& node = l.graph.nodes[n];
    if (node.role == Role::update) {
      home_statistics(l, node, l.stage_of[n]);
      continue;  // placed where the step's segments are emitted
    }
    if (is_accumulate(node)) {
      place_accumulators(l, static_cast<NodeId>(n));
    } else {
      place_node_of_stage(l, static_cast<NodeId>(n), known_placements);
    }
  }
}

}  // namespace weft
