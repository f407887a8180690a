#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/graph/blocks.h"
#include "weft/ops/one_pass.h"
#include "weft/recipes/node_rules.h"
#include "weft/recipes/node_splits.h"
#include "weft/recipes/recipes.h"
#include "weft/recipes/split_layers.h"

// Mesh p takes the devices [p n, (p + 1) n) with axes dp (outer), ep, cp and tp (inner,
// neighbours). An axis of size 1 is left out. The layers are cut into pp · chunks stages such that
// the one with the most forward flops has as few as possible. Stage i runs on mesh i mod pp or, in
// a V, on meshes 0 … pp - 1, pp - 1 … 0.

namespace weft {
namespace {

Mesh stage_mesh(const Recipe& recipe, int stage) {
  Mesh mesh;
  const int size = mesh_size(recipe);
  const bool back = recipe.schedule == "zb-v" && stage / recipe.pp % 2 == 1;
  const int at = back ? recipe.pp - 1 - stage % recipe.pp : stage % recipe.pp;
  for (int d = 0; d < size; ++d) {
    mesh.devices.push_back(at * size + d);
  }
  for (const auto& [name, degree] :
       {std::pair("dp", recipe.dp / recipe.ep), std::pair("ep", recipe.ep),
        std::pair("cp", recipe.cp), std::pair("tp", recipe.tp)}) {
    if (degree > 1) {
      mesh.axes.push_back({name, degree});
    }
  }
  return mesh;
}

std::string obstacle(const Recipe& recipe, const Task& task, std::size_t layer_count) {
  const auto devices = static_cast<std::int64_t>(task.cluster.devices.size());
  const std::int64_t needed = std::int64_t{recipe.dp} * recipe.cp * recipe.tp * recipe.pp;
  const std::int64_t stages = std::int64_t{recipe.pp} * recipe.chunks;
  if (needed > devices) {
    return fmt::format("dp*cp*tp*pp = {} devices, but the cluster has {}", needed, devices);
  }
  if (stages > static_cast<std::int64_t>(layer_count)) {
    return fmt::format("pp={}{} is more than the {} layers of the model", recipe.pp,
                       recipe.chunks > 1 ? fmt::format(" with chunks={}", recipe.chunks) : "",
                       layer_count);
  }
  if (recipe.chunks > 1 && recipe.schedule != "interleaved" && recipe.schedule != "zb-v") {
    return fmt::format("schedule={} has one stage a mesh; chunks={} needs interleaved or zb-v",
                       recipe.schedule, recipe.chunks);
  }
  if (recipe.dp % recipe.ep != 0) {
    return fmt::format("ep={} does not divide dp={}", recipe.ep, recipe.dp);
  }
  if (recipe.sp != 0 && recipe.tp == 1) {
    return "sp=1 splits what tp leaves whole, but tp=1";
  }
  if (recipe.micro_batches > task.batch) {
    return fmt::format("micro-batches={} is more than the batch of {}", recipe.micro_batches,
                       task.batch);
  }
  const std::int64_t smallest = task.batch / recipe.micro_batches;
  if (smallest < recipe.dp) {
    return fmt::format(
        "dp={} is more than the {} samples of a micro-batch; use fewer micro-batches or a larger "
        "batch",
        recipe.dp, smallest);
  }
  if (recipe.zero > 0 && recipe.dp == 1 && recipe.cp == 1) {
    return fmt::format("zero={} splits along dp and cp, but both are 1", recipe.zero);
  }
  return {};
}

// Layers that repeat: several alike, or one whose name says that it is one of many.
std::vector<std::string> repeated_layers(const Graph& forward) {
  std::vector<std::string> repeated;
  for (const BlockClass& block : find_blocks(forward)) {
    for (const std::string& layer : block.layers) {
      if (block.layers.size() >= 2 || is_numbered(layer)) {
        repeated.push_back(layer);
      }
    }
  }
  return repeated;
}

std::vector<StagePlan> empty_stages(const Recipe& recipe, const std::vector<std::string>& names,
                                    const std::vector<int>& first) {
  constexpr WeightMode kModes[] = {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2,
                                   WeightMode::zero3};
  std::vector<StagePlan> stages(first.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].mesh = stage_mesh(recipe, static_cast<int>(s));
    const int end = s + 1 < first.size() ? first[s + 1] : static_cast<int>(names.size());
    stages[s].layers.assign(names.begin() + first[s], names.begin() + end);
    if (recipe.zero > 0) {
      WeightRule rule{.parameters = "*", .modes = {}};
      for (const Axis& axis : stages[s].mesh.axes) {
        if (axis.name != "tp") {
          rule.modes[axis.name] = kModes[recipe.zero];
        }
      }
      stages[s].weights = {std::move(rule)};
    }
  }
  return stages;
}

void add_rules(const Graph& forward, const NodeSplits& splits, const std::vector<int>& stage_of,
               std::vector<StagePlan>& stages) {
  std::map<std::string_view, int> stage;
  const std::vector<std::string> names = layers(forward);
  for (std::size_t i = 0; i < names.size(); ++i) {
    stage[names[i]] = stage_of[i];
  }
  std::vector<std::vector<NamedSplit>> nodes(stages.size());
  for (std::size_t n = 0; n < forward.nodes.size(); ++n) {
    const Node& node = forward.nodes[n];
    if (!is_ruled(node)) {
      continue;
    }
    const int s = stage.at(layer_of(node.name));
    NamedSplit named{.node = node.name, .split = {}};
    for (std::size_t axis = 0; axis < splits.splits[n].size(); ++axis) {
      if (splits.splits[n][axis].kind != Split::Kind::none) {
        named.split[stages[s].mesh.axes[axis].name] = format_split(splits.splits[n][axis]);
      }
    }
    nodes[s].push_back(std::move(named));
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].nodes = compress_rules(nodes[s]);
  }
}

void recompute_blocks(const Graph& forward, std::vector<StagePlan>& stages) {
  const std::vector<std::string> repeated = repeated_layers(forward);
  for (StagePlan& stage : stages) {
    for (const std::string& layer : stage.layers) {
      if (std::find(repeated.begin(), repeated.end(), layer) != repeated.end()) {
        stage.recompute.push_back(layer);
      }
    }
  }
}

// Nodes without a product: norms, activations, sums. They cost a pass over memory each.
void recompute_cheap_nodes(const Graph& forward, const OpTable& ops,
                           std::vector<StagePlan>& stages) {
  std::vector<std::string> patterns;
  for (const Node& node : forward.nodes) {
    const std::string pattern = layer_pattern(node.name);
    const bool of_block = pattern.find('*') != std::string::npos;
    if (is_ruled(node) && of_block && costs_one_pass(ops, forward, node) &&
        std::find(patterns.begin(), patterns.end(), pattern) == patterns.end()) {
      patterns.push_back(pattern);
    }
  }
  for (StagePlan& stage : stages) {
    stage.recompute = patterns;
  }
}

}  // namespace

std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, int count) {
  std::vector<std::int64_t> sizes(count, batch / count);
  for (std::int64_t i = 0; i < batch % count; ++i) {
    ++sizes[i];
  }
  return sizes;
}

Plan plan_of(const Task& task, const std::string& origin, int micro_batches) {
  return {.origin = origin,
          .model = task.model,
          .cluster = task.cluster,
          .batch = task.batch,
          .sequence = task.sequence,
          .dtype = task.dtype,
          .optimizer = task.optimizer,
          .seed = task.seed,
          .memory_budget_bytes = task.memory_budget_bytes,
          .micro_batches = micro_batch_sizes(task.batch, micro_batches),
          .schedule = "1f1b",
          .order = {},
          .stages = {}};
}

RecipePlan recipe_plan(const Recipe& recipe, const Task& task, const Graph& forward,
                       const OpTable& ops) {
  const std::vector<std::string> names = layers(forward);
  RecipePlan result{.plan = {}, .why_not = obstacle(recipe, task, names.size())};
  if (!result.why_not.empty()) {
    return result;
  }
  const std::vector<int> first = split_evenly(layer_flops(forward, ops), recipe.pp * recipe.chunks);
  std::vector<int> stage_of(names.size(), 0);
  for (const int begin : first) {
    for (std::size_t i = begin; begin > 0 && i < names.size(); ++i) {
      ++stage_of[i];
    }
  }
  const NodeSplits splits =
      node_splits(forward, ops, stage_mesh(recipe, 0), stage_of,
                  {.sequence_parallel = recipe.sp != 0, .attention = recipe.attention});
  if (!splits.why_not.empty()) {
    result.why_not = splits.why_not;
    return result;
  }
  std::vector<StagePlan> stages = empty_stages(recipe, names, first);
  add_rules(forward, splits, stage_of, stages);
  if (recipe.recompute == "block") {
    recompute_blocks(forward, stages);
  } else if (recipe.recompute == "ops") {
    recompute_cheap_nodes(forward, ops, stages);
  }
  result.plan = plan_of(task, "recipe " + format_recipe(recipe), recipe.micro_batches);
  result.plan->schedule = recipe.schedule;
  result.plan->stages = std::move(stages);
  return result;
}

}  // namespace weft
