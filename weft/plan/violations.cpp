// What a plan must hold to be lowered: agreement with itself, the cluster and the forward graph.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

using Messages = std::vector<std::string>;

void check_batch(const Plan& plan, Messages& out) {
  if (plan.batch < 1) {
    out.push_back(fmt::format("the batch is {}; it must be at least 1", plan.batch));
  }
  if (plan.sequence < 0) {
    out.push_back(fmt::format("the sequence is {}; it must be at least 0", plan.sequence));
  }
  constexpr std::int64_t kAbsurd = std::int64_t{1}
                                   << 60U;  // the sum stops here, before it overflows
  std::int64_t sum = 0;
  for (const std::int64_t samples : plan.micro_batches) {
    if (samples < 1) {
      out.push_back(fmt::format("a micro-batch has {} samples; each needs one at least", samples));
    }
    sum = std::min(sum + std::clamp<std::int64_t>(samples, 0, kAbsurd), kAbsurd);
  }
  if (sum != plan.batch) {
    out.push_back(fmt::format("the micro-batches add up to {} samples, but the batch has {}", sum,
                              plan.batch));
  }
}

void check_settings(const Plan& plan, Messages& out) {
  if (plan.version != 1) {
    out.push_back(fmt::format("version {} is unknown; this weft knows 1", plan.version));
  }
  for (const std::string& message : violations(plan.optimizer)) {
    out.push_back(message);
  }
  if (plan.bucket_bytes < 1) {
    out.push_back(fmt::format("bucket_bytes is {}; it must be at least 1", plan.bucket_bytes));
  }
  if (plan.prefetch < 0) {
    out.push_back(fmt::format("prefetch is {}; it must be at least 0", plan.prefetch));
  }
  if (plan.memory_budget_bytes.size() != plan.cluster.devices.size()) {
    out.push_back(fmt::format("memory_budget_bytes has {} entries, but the cluster has {} devices",
                              plan.memory_budget_bytes.size(), plan.cluster.devices.size()));
  }
  if (plan.stages.empty()) {
    out.emplace_back("there are no stages");
  }
}

void check_mesh(const Mesh& mesh, std::size_t stage, Messages& out) {
  std::set<std::string> names;
  std::int64_t places = 1;
  for (const Axis& axis : mesh.axes) {
    if (axis.name.empty()) {
      out.push_back(fmt::format("stage {}: an axis has no name", stage));
    } else if (!names.insert(axis.name).second) {
      out.push_back(fmt::format("stage {}: two axes have the name '{}'", stage, axis.name));
    }
    if (axis.size < 1) {
      out.push_back(fmt::format("stage {}: axis {} has size {}; it must be at least 1", stage,
                                axis.name, axis.size));
    }
    // Capped: a product of absurd sizes must not overflow.
    places = std::min<std::int64_t>(places * std::max(axis.size, 1), std::int64_t{1} << 31U);
  }
  if (places != static_cast<std::int64_t>(mesh.devices.size())) {
    out.push_back(fmt::format("stage {}: its axes have {} places, but it has {} devices", stage,
                              places, mesh.devices.size()));
  }
}

/// Stages run on meshes of their own, or share a whole mesh.
void check_devices(const Plan& plan, Messages& out) {
  std::map<DeviceId, std::size_t> user;  // the first stage that has it
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Mesh& mesh = plan.stages[s].mesh;
    check_mesh(mesh, s, out);
    std::set<DeviceId> seen;
    for (const DeviceId device : mesh.devices) {
      if (device < 0 || device >= static_cast<int>(plan.cluster.devices.size())) {
        out.push_back(fmt::format("stage {}: there is no device {}; the cluster has {}", s, device,
                                  plan.cluster.devices.size()));
      }
      const auto [it, is_new] = user.emplace(device, s);
      if (!seen.insert(device).second) {
        out.push_back(fmt::format("stage {}: device {} is there twice", s, device));
      } else if (!is_new && plan.stages[it->second].mesh != mesh) {
        out.push_back(
            fmt::format("stage {}: device {} is used by stage {} already, which has another mesh; "
                        "stages share a whole mesh or none of its devices",
                        s, device, it->second));
      }
    }
  }
}

/// Every micro-batch of every chunk has one F, one B behind it and, if weights are apart, one W.
void check_order(const std::string& text, std::size_t mesh, std::size_t chunks,
                 std::size_t micro_batches, bool weights, Messages& out) {
  std::map<std::pair<int, int>, std::string> done;  // chunk, micro-batch → "FBW"
  try {
    for (const OrderEntry& entry : parse_order(text)) {
      done[{entry.chunk, entry.micro_batch}] += entry.phase;
    }
  } catch (const Error& error) {
    out.push_back(fmt::format("order {}: {}", mesh, error.what()));
    return;
  }
  const std::string wanted = weights ? "FBW" : "FB";
  for (std::size_t c = 0; c < chunks; ++c) {
    for (std::size_t m = 0; m < micro_batches; ++m) {
      const auto it = done.find({static_cast<int>(c), static_cast<int>(m)});
      if (it == done.end() || it->second != wanted) {
        out.push_back(
            fmt::format("order {}: micro-batch {} of chunk {} has {}, but needs {} in this order",
                        mesh, m, c, it == done.end() ? "nothing" : it->second, wanted));
        return;
      }
    }
  }
  if (done.size() > chunks * micro_batches) {
    out.push_back(
        fmt::format("order {}: there are {} chunks and {} micro-batches, but others are "
                    "listed",
                    mesh, chunks, micro_batches));
  }
}

void check_schedule(const Plan& plan, Messages& out) {
  const std::vector<std::string>& names = schedule_names();
  if (std::ranges::find(names, plan.schedule) == names.end()) {
    out.push_back(fmt::format("schedule '{}' is unknown; choose one of {}", plan.schedule,
                              fmt::join(names, ", ")));
    return;
  }
  const std::vector<PlanMesh> all = meshes(plan);
  const bool listed = plan.schedule == "listed";
  if (listed != !plan.order.empty() || (listed && plan.order.size() != all.size())) {
    out.push_back(fmt::format(
        "schedule {} with {} orders; schedule listed, and no other, needs an order for each of "
        "the {} meshes",
        plan.schedule, plan.order.size(), all.size()));
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool alone = plan.schedule == "gpipe" || plan.schedule == "1f1b" ||
                       plan.schedule == "zb-h1" || plan.schedule == "zb-h2";
    if (alone && all[i].stages.size() > 1) {
      out.push_back(
          fmt::format("schedule {} has one stage on each mesh, but stages {} and {} share one; use "
                      "interleaved, zb-v or listed",
                      plan.schedule, all[i].stages[0], all[i].stages[1]));
      return;
    }
    if (listed) {
      check_order(plan.order[i], i, all[i].stages.size(), plan.micro_batches.size(),
                  has_weight_phase(plan), out);
    }
  }
}

/// Stages together hold every layer once, in the order of the graph.
void check_layers(const Plan& plan, const std::vector<std::string>& in_graph, Messages& out) {
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < in_graph.size(); ++i) {
    place.emplace(in_graph[i], i);
  }
  std::set<std::string> seen;
  std::string last;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].layers.empty()) {
      out.push_back(fmt::format("stage {} has no layers", s));
    }
    for (const std::string& layer : plan.stages[s].layers) {
      if (!place.contains(layer)) {
        out.push_back(fmt::format("stage {}: the model has no layer '{}'", s, layer));
        continue;
      }
      if (!seen.insert(layer).second) {
        out.push_back(fmt::format("stage {}: layer '{}' has a stage already", s, layer));
        continue;
      }
      if (!last.empty() && place[layer] < place[last]) {
        out.push_back(
            fmt::format("stage {}: layer '{}' comes before '{}' in the model", s, layer, last));
      }
      last = layer;
    }
  }
  for (const std::string& layer : in_graph) {
    if (!seen.contains(layer)) {
      out.push_back(fmt::format("layer '{}' is in no stage", layer));
    }
  }
}

void check_rules(const StagePlan& stage, std::size_t number, Messages& out) {
  for (const std::vector<NodeRule>* rules : {&stage.nodes, &stage.gradients}) {
    for (const NodeRule& rule : *rules) {
      try {
        static_cast<void>(splits_for(rule, stage.mesh));
      } catch (const Error& error) {
        out.push_back(fmt::format("stage {}: {}", number, error.what()));
      }
    }
  }
  for (const WeightRule& rule : stage.weights) {
    for (const auto& [axis, mode] : rule.modes) {
      if (axis_index(stage.mesh, axis) < 0) {
        out.push_back(
            fmt::format("stage {}: rule for parameters '{}': the stage's mesh has no axis '{}'",
                        number, rule.parameters, axis));
      }
    }
  }
  for (const std::string& name : stage.recompute) {
    const bool pattern = name.find_first_of("/*") != std::string::npos;
    if (!pattern && std::ranges::find(stage.layers, name) == stage.layers.end()) {
      out.push_back(fmt::format("stage {}: layer '{}' is to be computed again, but is not here",
                                number, name));
    }
  }
}

/// Every forward node of a stage has a rule. Names the first that has none and counts the others.
void check_nodes(const Plan& plan, const Graph& forward, Messages& out) {
  std::map<std::string, std::size_t, std::less<>> stage_of;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (const std::string& layer : plan.stages[s].layers) {
      stage_of.emplace(layer, s);
    }
  }
  std::vector<std::string> first(plan.stages.size());
  std::vector<int> missing(plan.stages.size(), 0);
  for (const Node& node : forward.nodes) {
    if (node.role != Role::forward || node.op == "accumulate") {
      continue;  // a sum over micro-batches lies as its terms do
    }
    const auto it = stage_of.find(layer_of(node.name));
    if (it == stage_of.end()) {
      continue;
    }
    if (rule_for(plan.stages[it->second], node.name) == nullptr && missing[it->second]++ == 0) {
      first[it->second] = node.name;
    }
  }
  for (std::size_t s = 0; s < missing.size(); ++s) {
    if (missing[s] > 0) {
      out.push_back(fmt::format(
          "stage {}: no rule matches node '{}'{}; add a rule, \"*\" matches every node", s,
          first[s], missing[s] == 1 ? "" : fmt::format(" and {} others", missing[s] - 1)));
    }
  }
}

}  // namespace

std::vector<std::string> violations(const Plan& plan, const Graph& forward) {
  Messages out;
  for (const std::string& message : violations(plan.cluster)) {
    out.push_back("cluster: " + message);
  }
  check_settings(plan, out);
  check_batch(plan, out);
  check_devices(plan, out);
  check_schedule(plan, out);
  check_layers(plan, layers(forward), out);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    check_rules(plan.stages[s], s, out);
  }
  check_nodes(plan, forward, out);
  return out;
}

}  // namespace weft
