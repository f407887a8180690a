// Bounds first, then plans. For every order of devices, every number of micro-batches and both
// schedules there is a table of bounds (chain_bound.cpp); its limit is the best of the plans that
// anybody would try: data parallelism and even pipelines. In the order of their bounds these are
// searched (chain_search.cpp) until the next bound is no less than the best step. If the chain
// has many layers, or there are many devices, the tables know a part of the cuts and counts only;
// then, or if a search was cut short, the best plans are improved on the whole chain
// (improve_chains.cpp), and `exact` is false.
//
// bound_s is the larger of the work of one step on all devices together, and the least over the
// numbers of micro-batches of what the busiest stage needs (busiest_stage.cpp); if the tables know
// all cuts, also of what a table says of any schedule. With very many devices it is the work alone.

#include "weft/search/plan_layer_profile.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "weft/base/error.h"
#include "weft/search/busiest_stage.h"
#include "weft/search/chain_search.h"
#include "weft/search/leanest_chain.h"

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr int kMostParts = 64;
constexpr int kMostPlaces = 32;
constexpr int kMostBoundDevices = 64;
constexpr std::size_t kMostOrders = 6;
constexpr std::size_t kFewOrders = 2;
constexpr std::int64_t kMostMicroBatches = 4096;
constexpr std::int64_t kAllCountsUpTo = 16;
constexpr std::size_t kPlansToImprove = 8;

// Cuts for a search: all of them, or in each of equal windows of the chain the one that sends
// least. A window is even in time, parameters and layers together.
std::vector<int> chosen_cuts(const LayerProfile& profile) {
  const int layers = static_cast<int>(profile.layers.size());
  double total_s = 0;
  double total_bytes = 0;
  for (const ProfiledLayer& layer : profile.layers) {
    total_s += layer.forward_s + layer.backward_s;
    total_bytes += layer.parameter_bytes;
  }
  std::vector<int> cuts = {0};
  double weight = 0;
  int window = -1;
  for (int cut = 1; cut < layers; ++cut) {
    const ProfiledLayer& layer = profile.layers[cut - 1];
    weight += (layer.forward_s + layer.backward_s) / total_s +
              layer.parameter_bytes / std::max(total_bytes, 1.0) + 1.0 / layers;
    const int at = layers <= kMostParts ? cut : static_cast<int>(weight / 3 * (kMostParts - 1));
    if (at != window) {
      cuts.push_back(cut);
    } else if (layer.cut_bytes < profile.layers[cuts.back() - 1].cut_bytes) {
      cuts.back() = cut;
    }
    window = at;
  }
  cuts.push_back(layers);
  return cuts;
}

// Stages that take about the same time, all on as many devices.
ChainPlan even_plan(const ChainCost& cost, MicroBatches parts, int stages, ChainSchedule schedule) {
  ChainPlan plan{.micro_batches = parts.count, .schedule = schedule};
  const int each = static_cast<int>(std::min<std::int64_t>(cost.devices() / stages, parts.large()));
  const double total_s = cost.sample_seconds(0, cost.layers());
  int layer = 0;
  for (int s = 0; s < stages; ++s) {
    const int last = cost.layers() - (stages - 1 - s);
    int end = s + 1 == stages ? last : layer + 1;
    while (end < last && cost.sample_seconds(0, end) < total_s * (s + 1) / stages) {
      ++end;
    }
    plan.stages.push_back(
        {.first_layer = layer, .end_layer = end, .first_device = s * each, .devices = each});
    layer = end;
  }
  return plan;
}

class Planner {
 public:
  Planner(const ChainTask& task, const std::function<void(double)>& progress)
      : task_(task), progress_(progress), counts_(micro_batch_counts(task.batch)) {
    for (std::vector<DeviceId>& order : device_orders(task.cluster)) {
      costs_.push_back(std::make_unique<ChainCost>(task_, std::move(order)));
    }
  }

  ProfileSearch run() {
    try_known_plans();
    make_grids();
    rank_families();
    const bool exact = search_families() && grids_.front()->is_whole();
    if (!exact) {
      improve_chains(counts_, grids_.front()->unit(), best_);
    }
    ProfileSearch result{.exact = exact, .simulated = best_.simulated()};
    if (best_.plans().empty()) {
      const ChainPlan lean = leanest_chain(*grids_.front(), parts(counts_.back()));
      result.leanest = described(*costs_.front(), lean, chain_step_seconds(*costs_.front(), lean));
      return result;
    }
    const TimedChainPlan& chosen = best_.plans().front();
    result.best = described(*chosen.cost, chosen.plan, chosen.step_s);
    result.bound_s = bound(chosen.step_s);
    report(1);
    return result;
  }

 private:
  // Plans on devices in one order, with these micro-batches and this schedule.
  struct Family {
    double bound_s = 0;
    const ChainGrid* grid = nullptr;
    std::int64_t count = 1;
    ChainSchedule schedule = ChainSchedule::one_f_one_b;
  };

  // Keeps the orders of devices on which the known plans are fastest.
  void try_known_plans() {
    std::vector<std::pair<double, std::unique_ptr<ChainCost>>> ranked;
    for (auto& cost : costs_) {
      double least_s = kInfinite;
      for (const std::int64_t count : counts_) {
        const int most = std::min({cost->devices(), cost->layers(), kMostPlaces});
        for (int stages = 1; stages <= most; ++stages) {
          for (const ChainSchedule schedule : kSchedules) {
            least_s = std::min(
                least_s, best_.offer(*cost, even_plan(*cost, parts(count), stages, schedule)));
          }
        }
      }
      ranked.emplace_back(least_s, std::move(cost));
    }
    std::ranges::stable_sort(ranked, {}, [](const auto& entry) { return entry.first; });
    costs_.clear();
    for (auto& [least_s, cost] : ranked) {
      costs_.push_back(std::move(cost));
    }
    report(0.1);
  }

  void make_grids() {
    const std::vector<int> cuts = chosen_cuts(task_.profile);
    const std::size_t orders = std::min(costs_.size(), kMostOrders);
    const int devices = costs_.front()->devices();
    const int places = orders > kFewOrders ? kMostPlaces / 2 : kMostPlaces;
    const int unit = (devices + places - 1) / places;
    for (std::size_t i = 0; i < orders; ++i) {
      grids_.push_back(std::make_unique<ChainGrid>(*costs_[i], cuts, unit));
    }
  }

  void rank_families() {
    std::size_t done = 0;
    for (const auto& grid : grids_) {
      for (const std::int64_t count : counts_) {
        for (const ChainSchedule schedule : kSchedules) {
          const BoundTable table(*grid, parts(count), schedule, best_.step_s());
          if (table.bound_s() < best_.step_s()) {
            families_.push_back({.bound_s = table.bound_s(),
                                 .grid = grid.get(),
                                 .count = count,
                                 .schedule = schedule});
          }
        }
        report(0.1 + 0.5 * static_cast<double>(++done) /
                         static_cast<double>(grids_.size() * counts_.size()));
      }
    }
    std::ranges::stable_sort(families_, {}, &Family::bound_s);
  }

  // Tables are made again rather than kept: there may be thousands, and the limit is lower now.
  bool search_families() {
    bool whole = true;
    for (std::size_t i = 0; i < families_.size(); ++i) {
      const Family& family = families_[i];
      if (family.bound_s < best_.step_s()) {
        const BoundTable table(*family.grid, parts(family.count), family.schedule, best_.step_s());
        whole = search_chain(table, best_) && whole;
      }
      report(0.6 + 0.3 * static_cast<double>(i + 1) / static_cast<double>(families_.size()));
    }
    return whole;
  }

  // Of plans with these micro-batches that take less than the limit, which it is otherwise.
  [[nodiscard]] double stage_bound(std::size_t order, std::int64_t count, double limit_s) const {
    const double busiest_s = busiest_stage_bound(*costs_[order], parts(count), limit_s);
    if (busiest_s >= limit_s || !grids_[order]->is_whole()) {
      return std::min(busiest_s, limit_s);
    }
    const BoundTable table(*grids_[order], parts(count), ChainSchedule::any, limit_s);
    return std::min(limit_s, std::max(busiest_s, table.bound_s()));
  }

  [[nodiscard]] double bound(double step_s) const {
    double least = step_s;
    double work_s = kInfinite;
    for (std::size_t i = 0; i < grids_.size(); ++i) {
      const auto& cost = costs_[i];
      for (const std::int64_t count : counts_) {
        least = cost->devices() > kMostBoundDevices ? 0 : stage_bound(i, count, least);
      }
      work_s = std::min(work_s, cost->sample_seconds(0, cost->layers()) *
                                    static_cast<double>(task_.batch) /
                                    cost->speed_of_first(cost->devices()));
    }
    return std::min(step_s, std::max(least, work_s));
  }

  [[nodiscard]] ProfilePlan described(const ChainCost& cost, const ChainPlan& plan,
                                      double step_s) const;

  [[nodiscard]] MicroBatches parts(std::int64_t count) const {
    return {.batch = task_.batch, .count = count};
  }

  void report(double share) const {
    if (progress_) {
      progress_(share);
    }
  }

  static constexpr std::array kSchedules = {ChainSchedule::one_f_one_b, ChainSchedule::gpipe};

  const ChainTask& task_;
  const std::function<void(double)>& progress_;
  std::vector<std::int64_t> counts_;
  std::vector<std::unique_ptr<ChainCost>> costs_;  // by order of devices, the best first
  std::vector<std::unique_ptr<ChainGrid>> grids_;  // of the first of them
  std::vector<Family> families_;
  BestChainPlans best_{kPlansToImprove};
};

ProfilePlan Planner::described(const ChainCost& cost, const ChainPlan& plan, double step_s) const {
  ProfilePlan result{.micro_batches = parts(plan.micro_batches),
                     .schedule = schedule_name(plan.schedule),
                     .step_s = step_s,
                     .peak_memory_bytes = std::vector<std::int64_t>(task_.cluster.devices.size())};
  constexpr double most_bytes = 9e18;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const ChainStage& stage = plan.stages[s];
    const int behind = static_cast<int>(plan.stages.size() - 1 - s);
    const MicroBatches& sizes = result.micro_batches;
    double work_s = 0;
    for (std::int64_t i = 0; i < sizes.count; ++i) {
      const StageSeconds seconds = cost.seconds(stage, sizes.size(i));
      work_s += seconds.forward_s + seconds.backward_s;
    }
    const double memory =
        cost.memory_bytes(stage, sizes.large(), in_flight(plan.schedule, sizes.count, behind));
    ProfileStage& out = result.stages.emplace_back();
    out = {.devices = {cost.order().begin() + stage.first_device,
                       cost.order().begin() + stage.end_device()},
           .first_layer = stage.first_layer,
           .end_layer = stage.end_layer,
           .recompute = stage.recompute,
           .step_share = work_s / step_s,
           .memory_bytes = static_cast<std::int64_t>(std::min(memory, most_bytes))};
    for (const DeviceId device : out.devices) {
      result.peak_memory_bytes[device] = out.memory_bytes;
    }
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> micro_batch_counts(std::int64_t batch) {
  std::set<std::int64_t> counts;
  const std::int64_t most = std::min(batch, kMostMicroBatches);
  for (std::int64_t count = 1; count <= most; ++count) {
    const bool power = (count & (count - 1)) == 0;
    const bool thrice = count % 3 == 0 && ((count / 3) & (count / 3 - 1)) == 0;
    if (batch % count == 0 || count <= kAllCountsUpTo || power || thrice) {
      counts.insert(count);
    }
  }
  return {counts.begin(), counts.end()};
}

ProfileSearch plan_layer_profile(const ChainTask& task,
                                 const std::function<void(double)>& progress) {
  require(task.batch >= 1, "a plan for a layer profile needs a batch of at least one sample");
  WEFT_CHECK(task.memory_budget_bytes.size() == task.cluster.devices.size());
  return Planner(task, progress).run();
}

}  // namespace weft
