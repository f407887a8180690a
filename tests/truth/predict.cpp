#include "predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "weft/base/error.h"
#include "weft/program/lower.h"
#include "weft/recipes/node_rules.h"
#include "weft/simulate/simulate.h"

namespace weft::truth {
namespace {

// The same number of blocks for every stage. A stage gets the rules of all stages behind its own:
// blocks are alike, so what moves finds the rule of its kind.
void split_like_megatron(Plan& plan) {
  std::vector<std::string> blocks;
  std::vector<std::string> names;
  std::vector<std::string> recomputed;
  std::vector<NodeRule> rules;
  for (const StagePlan& stage : plan.stages) {
    names.insert(names.end(), stage.layers.begin(), stage.layers.end());
    recomputed.insert(recomputed.end(), stage.recompute.begin(), stage.recompute.end());
    rules.insert(rules.end(), stage.nodes.begin(), stage.nodes.end());
  }
  const std::size_t count = plan.stages.size();
  const std::size_t numbered = static_cast<std::size_t>(
      std::ranges::count_if(names, [](const std::string& name) { return is_numbered(name); }));
  std::size_t seen = 0;
  for (StagePlan& stage : plan.stages) {
    stage.layers.clear();
    stage.recompute.clear();
    stage.nodes.insert(stage.nodes.end(), rules.begin(), rules.end());
  }
  for (const std::string& name : names) {
    const bool block = is_numbered(name);
    const std::size_t at = seen == 0 ? 0 : (block ? seen * count / numbered : count - 1);
    seen += block ? 1 : 0;
    plan.stages[at].layers.push_back(name);
    if (std::ranges::find(recomputed, name) != recomputed.end()) {
      plan.stages[at].recompute.push_back(name);
    }
  }
}

}  // namespace

const Predictor::Graphs& Predictor::graphs(const std::string& model) {
  const auto [entry, fresh] = graphs_.try_emplace(model);
  if (fresh) {
    Model loaded = load_model(model, {.sequence = 0, .dtype = DType::bf16}, ops_);
    entry->second.training = training_graph(loaded.forward, {}, ops_);
    entry->second.sequence = loaded.sequence;
    entry->second.forward = std::move(loaded.forward);
  }
  return entry->second;
}

const Program& Predictor::program(const Run& run, const Cluster& cluster) {
  const auto [entry, fresh] =
      programs_.try_emplace(fmt::format("{}|{}|{}", run.model, run.recipe, run.batch));
  if (!fresh) {
    return entry->second;
  }
  const Graphs& graphs_of_model = graphs(run.model);
  Task task;
  task.cluster = cluster;
  task.batch = run.batch;
  task.sequence = graphs_of_model.sequence;
  task.dtype = DType::bf16;
  task.memory_budget_bytes.assign(cluster.devices.size(), 0);
  RecipePlan made = recipe_plan(parse_recipe(run.recipe), task, graphs_of_model.forward, ops_);
  require(made.plan.has_value(), "{}: {}", run.recipe, made.why_not);
  split_like_megatron(*made.plan);
  made.plan->bucket_bytes = std::int64_t{1} << 50;
  entry->second = lower(graphs_of_model.training, *made.plan, ops_);
  return entry->second;
}

double Predictor::seconds(const Run& run, const Cluster& cluster) {
  const CostModel cost(cluster);
  return simulate(program(run, cluster), graphs(run.model).training, ops_, cost).step_s;
}

std::vector<double> fit(const std::function<double(const std::vector<double>&)>& loss,
                        std::vector<double> start, int evaluations) {
  const std::size_t n = start.size();
  struct Vertex {
    std::vector<double> logs;
    double loss = 0;
  };
  const auto evaluate = [&](std::vector<double> logs) {
    std::vector<double> values(n);
    std::ranges::transform(logs, values.begin(), [](double x) { return std::exp(x); });
    --evaluations;
    const double l = loss(values);
    return Vertex{std::move(logs), l};
  };
  std::vector<double> logs(n);
  std::ranges::transform(start, logs.begin(), [](double x) { return std::log(x); });
  std::vector<Vertex> simplex = {evaluate(logs)};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> moved = logs;
    moved[i] += 0.3;
    simplex.push_back(evaluate(std::move(moved)));
  }
  while (evaluations > 0) {
    std::ranges::stable_sort(simplex, {}, &Vertex::loss);
    Vertex& worst = simplex.back();
    std::vector<double> centre(n, 0);
    for (std::size_t v = 0; v < n; ++v) {
      for (std::size_t i = 0; i < n; ++i) {
        centre[i] += simplex[v].logs[i] / static_cast<double>(n);
      }
    }
    const auto along = [&](double t) {
      std::vector<double> at(n);
      for (std::size_t i = 0; i < n; ++i) {
        at[i] = centre[i] + t * (worst.logs[i] - centre[i]);
      }
      return evaluate(std::move(at));
    };
    Vertex mirrored = along(-1);
    if (mirrored.loss < simplex[0].loss) {
      Vertex further = along(-2);
      worst = further.loss < mirrored.loss ? std::move(further) : std::move(mirrored);
    } else if (mirrored.loss < simplex[n - 1].loss) {
      worst = std::move(mirrored);
    } else if (Vertex inner = along(0.5); inner.loss < worst.loss) {
      worst = std::move(inner);
    } else {
      for (std::size_t v = 1; v <= n; ++v) {
        std::vector<double> nearer(n);
        for (std::size_t i = 0; i < n; ++i) {
          nearer[i] = (simplex[v].logs[i] + simplex[0].logs[i]) / 2;
        }
        simplex[v] = evaluate(std::move(nearer));
      }
    }
  }
  const Vertex& best = *std::ranges::min_element(simplex, {}, &Vertex::loss);
  std::ranges::transform(best.logs, start.begin(), [](double x) { return std::exp(x); });
  return start;
}

std::string reference_file(const std::string& name) {
  const char* folder = std::getenv("WEFT_REFERENCE_DATA");
  if (folder == nullptr || *folder == '\0') {
    return {};
  }
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  return std::filesystem::is_regular_file(path) ? path.string() : std::string();
}

}  // namespace weft::truth
