#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <tuple>

#include "weft/base/divisors.h"
#include "weft/search/configurations.h"
#include "weft/search/known_spaces.h"
#include "weft/search/layer_kinds.h"
#include "weft/search/space_draft.h"
#include "weft/search/weight_variants.h"

// A configuration is a number of stages P that divides the devices, a mesh of d x t devices for
// each, and a number m of micro-batches of equal size. Stages have equal numbers of repeated
// layers; what stands before, between and behind them goes with its neighbours. A layer takes one
// of the strategies of layer_kinds.h.
//
// Stage s has min(m, P - s) micro-batches in flight and minimises its seconds C_s of a micro-batch,
// once-a-step work included as its m-th part, within its memory. With the cut given, the step
// (m - 1) max C_s + sum C_s is least if each C_s is: so the mix of each stage is a problem by
// itself, a chain of layers with costs of relayout between neighbours, and way_chain.h solves it
// exactly.
//
// No mix of a configuration is faster than the kernel's splits at no price of memory, m L / P:
// configurations are followed in this order until this is above the best estimate by a margin.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kBoundMargin = 0.05;
constexpr double kHope = 1.3;  // budgets for drafts that do not fit into one: tables count too much

Mesh shape_mesh(const SpaceShape& shape, int stage) {
  const int devices = shape.dp * shape.tp;
  Mesh mesh;
  for (int d = 0; d < devices; ++d) {
    mesh.devices.push_back(stage * devices + d);
  }
  if (shape.dp > 1) {
    mesh.axes.push_back({"dp", shape.dp});
  }
  if (shape.tp > 1) {
    mesh.axes.push_back({"tp", shape.tp});
  }
  return mesh;
}

// Where the stages begin, and the number of layers; empty: there are too few layers.
std::vector<int> equal_stages(const BlockChain& chain, int stages) {
  std::vector<int> repeated;
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    if (chain.repeated_layer[l]) {
      repeated.push_back(static_cast<int>(l));
    }
  }
  const auto count = static_cast<int>(repeated.size());
  if (count < stages && stages > 1) {
    return {};
  }
  std::vector<int> first = {0};
  for (int s = 1; s < stages; ++s) {
    first.push_back(repeated[static_cast<std::int64_t>(s) * count / stages]);
  }
  first.push_back(static_cast<int>(chain.layers.size()));
  return first;
}

// A table, the kinds of layers on its mesh, and their ways by block problem.
struct KindTable {
  std::unique_ptr<StageTable> table;
  std::vector<LayerKind> kinds;
  std::map<const BlockProblem*, std::vector<KindWay>> ways;
};

class GalvatronSpace {
 public:
  GalvatronSpace(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost)
      : task_(task),
        model_(training, ops, cost),
        budget_(static_cast<double>(*std::ranges::min_element(task.memory_budget_bytes))),
        host_(devices_of_first_host(task.cluster)) {}

  std::vector<Candidate> run() {
    find_shapes();
    std::vector<SpaceDraft> drafts;
    double best_s = kNever;
    for (const auto& [bound_s, number] : in_order()) {
      if (bound_s * (1 - kBoundMargin) > best_s) {
        break;
      }
      drafts.push_back(draft(number));
      best_s = std::min(best_s, drafts.back().step_s);
    }
    std::vector<Candidate> result = judge_space(kGalvatronSpace, task_, model_, std::move(drafts),
                                                [&](SpaceDraft& draft) { fill(draft); });
    std::ranges::move(
        weight_variants(result, model_.training, model_.ops, model_.cost, {.along_tp = false}),
        std::back_inserter(result));
    return result;
  }

  std::vector<Candidate> run(const SpacePart& part) {
    std::vector<SpaceDraft> drafts;
    for (const SpaceShape& shape : part.shapes) {
      if (shape.tp <= host_ && task_.batch / shape.micro_batches >= shape.dp &&
          !equal_stages(model_.chain, shape.stages).empty()) {
        shapes_.push_back(shape);
        drafts.push_back(draft(static_cast<int>(shapes_.size()) - 1));
      }
    }
    return judge_space(
        kGalvatronSpace, task_, model_, std::move(drafts), [&](SpaceDraft& draft) { fill(draft); },
        effort_for(part));
  }

 private:
  SpaceDraft draft(int number) {
    SpaceDraft draft;
    draft.number = number;
    const SpaceShape& shape = shapes_[number];
    draft.micro_batches = shape.micro_batches;
    draft.settings = fmt::format("dp={},tp={},pp={},micro-batches={}", shape.dp, shape.tp,
                                 shape.stages, shape.micro_batches);
    for (const double hope : {1.0, kHope}) {
      draft.bytes.assign(shape.stages, hope * budget_);
      fill(draft);
      if (draft.step_s < kNever) {
        break;
      }
    }
    return draft;
  }

  void find_shapes() {
    const auto all = static_cast<int>(task_.cluster.devices.size());
    for (const int stages : divisors(all)) {
      if (equal_stages(model_.chain, stages).empty()) {
        continue;
      }
      for (const int tp : divisors(all / stages)) {
        const int dp = all / stages / tp;
        for (const int count : divisors(static_cast<int>(task_.batch))) {
          if (tp <= host_ && count <= task_.batch / dp) {
            shapes_.push_back({.stages = stages, .dp = dp, .tp = tp, .micro_batches = count});
          }
        }
      }
    }
  }

  std::vector<std::pair<double, int>> in_order() {
    std::vector<std::pair<double, int>> order;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const SpaceShape& shape = shapes_[i];
      order.emplace_back(table(shape).table->least_s() * shape.micro_batches / shape.stages,
                         static_cast<int>(i));
    }
    std::ranges::sort(order);
    return order;
  }

  KindTable& table(const SpaceShape& shape) {
    KindTable& known = tables_[{shape.dp, shape.tp, shape.micro_batches}];
    if (known.table == nullptr) {
      known.table =
          std::make_unique<StageTable>(model_,
                                       BlockPlace{.mesh = shape_mesh(shape, 0),
                                                  .data_axes = shape.dp > 1 ? 1 : 0,
                                                  .samples = task_.batch / shape.micro_batches,
                                                  .several = shape.micro_batches > 1},
                                       shape.micro_batches);
    }
    return known;
  }

  const std::vector<KindWay>& ways(KindTable& table, int layer, int first) {
    const auto [it, fresh] = table.ways.try_emplace(&table.table->problem(layer, first));
    if (fresh) {
      if (table.kinds.empty()) {
        const BlockPlace& place = table.table->place();
        table.kinds = layer_kinds(model_.training, model_.ops, place.mesh, place.samples);
      }
      it->second = kind_ways(model_, *table.table, table.kinds, layer, first);
    }
    return it->second;
  }

  void fill(SpaceDraft& draft) {
    const SpaceShape& shape = shapes_[draft.number];
    const std::vector<int> first = equal_stages(model_.chain, shape.stages);
    draft.stages.clear();
    draft.step_s = kNever;
    for (int s = 0; s < shape.stages; ++s) {
      SpaceStage stage;
      stage.table = table(shape).table.get();
      stage.mesh = shape_mesh(shape, s);
      stage.first = first[s];
      stage.in_flight = std::min(shape.micro_batches, shape.stages - s);
      if (!mix(table(shape), first[s + 1], draft.bytes[s], stage)) {
        return;
      }
      draft.stages.push_back(std::move(stage));
    }
    draft.step_s = draft_seconds(draft, model_);
  }

  // Chooses the ways of a stage's layers up to `end`; whether any fit.
  bool mix(KindTable& table, int end, double bytes, SpaceStage& stage) {
    std::vector<const std::vector<KindWay>*> menus;
    for (int l = stage.first; l < end; ++l) {
      menus.push_back(&ways(table, l, stage.first));
    }
    stage.ways = fastest_kinds(menus, stage.in_flight, bytes);
    add_costs(stage);
    return !stage.ways.empty();
  }

  const Task& task_;
  BlockModel model_;
  double budget_;
  int host_;  // devices of the first one
  std::vector<SpaceShape> shapes_;
  std::map<std::tuple<int, int, int>, KindTable> tables_;
};

}  // namespace

std::vector<Candidate> galvatron_plans(const Task& task, const Graph& training, const OpTable& ops,
                                       const CostModel& cost) {
  return GalvatronSpace(task, training, ops, cost).run();
}

std::vector<Candidate> galvatron_part(const Task& task, const Graph& training, const OpTable& ops,
                                      const CostModel& cost, const SpacePart& part) {
  return GalvatronSpace(task, training, ops, cost).run(part);
}

}  // namespace weft
