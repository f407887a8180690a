#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/graph/blocks.h"
#include "weft/recipes/node_rules.h"
#include "weft/recipes/node_splits.h"
#include "weft/recipes/recipes.h"
#include "weft/recipes/split_layers.h"

// Stage s takes the devices [s dp tp, (s + 1) dp tp) with axes dp (outer) and tp (inner,
// neighbours). An axis of size 1 is left out. The layers are cut such that the stage with the most
// forward flops has as few as possible.

namespace weft {
namespace {

Mesh stage_mesh(const Recipe& recipe, int stage) {
  Mesh mesh;
  const int size = recipe.dp * recipe.tp;
  for (int d = 0; d < size; ++d) {
    mesh.devices.push_back(stage * size + d);
  }
  if (recipe.dp > 1) {
    mesh.axes.push_back({"dp", recipe.dp});
  }
  if (recipe.tp > 1) {
    mesh.axes.push_back({"tp", recipe.tp});
  }
  return mesh;
}

// As even as possible, larger ones first.
std::vector<std::int64_t> micro_batch_sizes(std::int64_t batch, int count) {
  std::vector<std::int64_t> sizes(count, batch / count);
  for (std::int64_t i = 0; i < batch % count; ++i) {
    ++sizes[i];
  }
  return sizes;
}

std::string obstacle(const Recipe& recipe, const Task& task, std::size_t layer_count) {
  const auto devices = static_cast<std::int64_t>(task.cluster.devices.size());
  const std::int64_t needed = std::int64_t{recipe.dp} * recipe.tp * recipe.pp;
  if (needed > devices) {
    return fmt::format("dp*tp*pp = {} devices, but the cluster has {}", needed, devices);
  }
  if (static_cast<std::size_t>(recipe.pp) > layer_count) {
    return fmt::format("pp={} is more than the {} layers of the model", recipe.pp, layer_count);
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
  if (recipe.zero > 0 && recipe.dp == 1) {
    return fmt::format("zero={} splits along dp, but dp=1", recipe.zero);
  }
  return {};
}

std::string split_text(const Split& split) {
  return split.kind == Split::Kind::linear ? fmt::format("+{}", split.linear_set)
                                           : std::string(1, split.letter);
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
  std::vector<StagePlan> stages(recipe.pp);
  for (int s = 0; s < recipe.pp; ++s) {
    stages[s].mesh = stage_mesh(recipe, s);
    const int end = s + 1 < recipe.pp ? first[s + 1] : static_cast<int>(names.size());
    stages[s].layers.assign(names.begin() + first[s], names.begin() + end);
    if (recipe.zero > 0) {
      const WeightMode mode = recipe.zero == 1 ? WeightMode::zero1 : WeightMode::zero3;
      stages[s].weights = {{.parameters = "*", .modes = {{"dp", mode}}}};
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
        named.split[stages[s].mesh.axes[axis].name] = split_text(splits.splits[n][axis]);
      }
    }
    nodes[s].push_back(std::move(named));
  }
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].nodes = compress_rules(nodes[s]);
  }
}

void add_recomputation(const Graph& forward, std::vector<StagePlan>& stages) {
  const std::vector<std::string> repeated = repeated_layers(forward);
  for (StagePlan& stage : stages) {
    for (const std::string& layer : stage.layers) {
      if (std::find(repeated.begin(), repeated.end(), layer) != repeated.end()) {
        stage.recompute.push_back(layer);
      }
    }
  }
}

}  // namespace

RecipePlan recipe_plan(const Recipe& recipe, const Task& task, const Graph& forward,
                       const OpTable& ops) {
  const std::vector<std::string> names = layers(forward);
  RecipePlan result{.plan = {}, .why_not = obstacle(recipe, task, names.size())};
  if (!result.why_not.empty()) {
    return result;
  }
  const std::vector<int> first = split_evenly(layer_flops(forward, ops), recipe.pp);
  std::vector<int> stage_of(names.size(), 0);
  for (const int begin : first) {
    for (std::size_t i = begin; begin > 0 && i < names.size(); ++i) {
      ++stage_of[i];
    }
  }
  const NodeSplits splits = node_splits(forward, ops, stage_mesh(recipe, 0), stage_of);
  if (!splits.why_not.empty()) {
    result.why_not = splits.why_not;
    return result;
  }
  std::vector<StagePlan> stages = empty_stages(recipe, names, first);
  add_rules(forward, splits, stage_of, stages);
  if (recipe.recompute) {
    add_recomputation(forward, stages);
  }
  result.plan = Plan{.origin = "recipe " + format_recipe(recipe),
                     .model = task.model,
                     .cluster = task.cluster,
                     .batch = task.batch,
                     .sequence = task.sequence,
                     .dtype = task.dtype,
                     .optimizer = task.optimizer,
                     .seed = task.seed,
                     .memory_budget_bytes = task.memory_budget_bytes,
                     .micro_batches = micro_batch_sizes(task.batch, recipe.micro_batches),
                     .schedule = recipe.schedule,
                     .stages = std::move(stages)};
  return result;
}

}  // namespace weft
