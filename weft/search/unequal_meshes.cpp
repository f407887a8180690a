// For a number of micro-batches, cut and meshes are chosen together (solver/mesh_cut.h): a stage of
// n devices takes the shape of n devices that is best for its layers. Menus of ways are needed for
// few shapes only. Until a shape has them, its layers take what they take at least, whatever the
// memory: the cut with these times is a bound. The shapes that it uses get their menus, and it is
// cut again, until all of its shapes have them. Then no cut is better. The search ends early where
// the bound is far above the best estimate.

#include "weft/search/unequal_meshes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "weft/base/divisors.h"
#include "weft/search/pinned.h"
#include "weft/solver/mesh_cut.h"

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr int kMostUnits = 32;
constexpr int kSmallSizes = 12;  // units: all sizes up to this are tried
constexpr int kMostStages = 16;
constexpr double kMostTimes = 4e6;  // of stages that a cut may ask for
constexpr int kCounts = 3;          // of micro-batches that are tried,
constexpr int kFewCounts = 1;       // or with many devices
constexpr std::size_t kManyDevices = 256;
constexpr double kFar = 1.2;  // times the best estimate: what other orders may save
constexpr double kPrecision = 0.005;
constexpr double kHope = 1.3;  // as in search_plans.cpp

bool is_smooth(int n) {
  while (n % 2 == 0) {
    n /= 2;
  }
  return n == 1 || n == 3;
}

std::vector<int> devices_of_hosts(const Cluster& cluster) {
  std::vector<int> result;
  for (const Device& device : cluster.devices) {
    result.resize(std::max<std::size_t>(result.size(), static_cast<std::size_t>(device.host) + 1));
    ++result[device.host];
  }
  return result;
}

class UnequalMeshes {
 public:
  UnequalMeshes(const UnequalSearch& search, MeshTables& tables, int micro_batches)
      : s_(search), units_(device_units(search.task.cluster)), micro_batches_(micro_batches) {
    const int host = devices_of_first_host(s_.task.cluster);
    std::vector<int> sizes;
    for (const int size : units_.sizes) {
      const int devices = size * units_.devices;
      std::vector<Option> options;
      for (const int tp : divisors(devices)) {
        const MeshShape shape{.dp = devices / tp, .tp = tp};
        const bool within = devices <= host || host % tp == 0;
        const bool enough = s_.task.batch / micro_batches >= shape.dp;
        const bool pinned =
            why_not_on(mesh_at({.shape = shape}), s_.limits.pins, s_.model.training, s_.model.ops)
                .empty();
        if (within && enough && pinned && is_allowed(shape, s_.limits)) {
          options.push_back({.shape = shape, .table = &tables.at(shape, micro_batches)});
        }
      }
      if (!options.empty()) {
        sizes.push_back(size);
        options_.push_back(std::move(options));
      }
    }
    units_.sizes = std::move(sizes);
  }

  // Nothing: no cut is near `best_s`, or nothing fits.
  std::optional<Draft> run(double best_s, const SearchNotes& note) {
    for (const double hope : {1.0, kHope}) {
      budget_ = hope * s_.budget_bytes;
      MeshCutProblem problem = cut_problem();
      if (problem.most_stages < problem.fewest_stages || problem.sizes.empty()) {
        return std::nullopt;
      }
      for (;;) {
        const MeshCut cut = best_mesh_cut(problem);
        if (cut.stages.empty()) {
          break;
        }
        if (cut.step_s >= kFar * best_s) {
          note("unequal meshes, micro-batches={}: not followed, at least {:.4g} s", micro_batches_,
               cut.step_s);
          return std::nullopt;
        }
        if (!find_menus(cut)) {
          return draft_of(cut);
        }
      }
    }
    return std::nullopt;
  }

 private:
  struct Option {
    MeshShape shape;
    StageTable* table = nullptr;
  };

  [[nodiscard]] double seconds(const Option& option, int behind, int first, int end) const {
    if (!option.table->has_menus()) {
      return option.table->least_seconds(first, end);
    }
    return option.table->seconds(question(behind, first, end));
  }

  [[nodiscard]] StageQuestion question(int behind, int first, int end) const {
    const int flying =
        s_.limits.schedule == "gpipe" ? micro_batches_ : std::min(micro_batches_, behind + 1);
    return {.first = first, .end = end, .in_flight = flying, .bytes = budget_};
  }

  [[nodiscard]] const Option& best_option(int size, int behind, int first, int end) const {
    const Option* best = &options_[size].front();
    double least = kNever;
    for (const Option& option : options_[size]) {
      const double t = seconds(option, behind, first, end);
      if (t < least) {
        least = t;
        best = &option;
      }
    }
    return *best;
  }

  // Of two runs that overlap but for a layer each, where these are alike, the earlier one. A stage
  // with the first use of a shared parameter has other layers than those behind it.
  [[nodiscard]] std::vector<int> like_runs() const {
    const BlockChain& chain = s_.model.chain;
    const auto layers = static_cast<int>(chain.layers.size());
    const int shared = chain.shared.empty() ? -1 : chain.shared_first.front();
    std::vector<int> like(static_cast<std::size_t>(layers + 1) * (layers + 1));
    const auto run = [&](int first, int end) -> int& {
      return like[static_cast<std::size_t>(first) * (layers + 1) + end];
    };
    for (int first = 0; first < layers; ++first) {
      for (int end = first + 1; end <= layers; ++end) {
        const bool alike = first > 0 && first - 1 != shared &&
                           chain.class_of[first - 1] == chain.class_of[end - 1];
        run(first, end) = alike ? run(first - 1, end - 1) : first;
      }
    }
    return like;
  }

  MeshCutProblem cut_problem() {
    const auto layers = static_cast<int>(s_.model.chain.layers.size());
    int units = 0;
    for (const int host : units_.hosts) {
      units += host;
    }
    MeshCutProblem problem{.layers = layers,
                           .micro_batches = micro_batches_,
                           .hosts = units_.hosts,
                           .sizes = units_.sizes,
                           .fewest_stages = 2,
                           .most_stages = std::min({layers, units, kMostStages}),
                           .precision = kPrecision};
    const double times = static_cast<double>(layers) * layers * units_.sizes.size();
    problem.most_stages = std::min(problem.most_stages, static_cast<int>(kMostTimes / times));
    if (s_.limits.pp > 0) {
      problem.fewest_stages = s_.limits.pp;
      problem.most_stages = std::min(problem.most_stages, s_.limits.pp);
    }
    problem.seconds = [this](int size, int behind, int first, int end) {
      return seconds(best_option(size, behind, first, end), behind, first, end);
    };
    problem.like = like_runs();
    problem.send_seconds = [this](int size, int layer) { return send_seconds(size, layer); };
    return problem;
  }

  // To neighbours of at most the same number: where devices end, there is nobody to send to.
  double send_seconds(int size, int layer) {
    const int block_class = s_.model.chain.class_of[layer];
    const auto [known, fresh] = sends_.try_emplace({size, block_class}, 0);
    const int devices = units_.sizes[size] * units_.devices;
    const int others =
        std::min(devices, static_cast<int>(s_.task.cluster.devices.size()) - devices);
    if (fresh && others > 0) {
      known->second = s_.drafting.boundary_seconds(
          {.shape = {.dp = devices}}, {.shape = {.dp = others}, .first_device = devices}, layer,
          options_[size].front().table->place().samples);
    }
    return known->second;
  }

  // For all shapes of a cut; whether any had none.
  bool find_menus(const MeshCut& cut) {
    bool fresh = false;
    for (std::size_t i = 0; i < cut.stages.size(); ++i) {
      const MeshCutStage& stage = cut.stages[i];
      const int behind = static_cast<int>(cut.stages.size() - 1 - i);
      StageTable* table = best_option(stage.size, behind, stage.first, stage.end).table;
      fresh = fresh || !table->has_menus();
      table->find_menus();
    }
    return fresh;
  }

  Draft draft_of(const MeshCut& cut) const {
    Draft draft;
    draft.configuration.micro_batches = micro_batches_;
    for (std::size_t i = 0; i < cut.stages.size(); ++i) {
      const MeshCutStage& stage = cut.stages[i];
      const int behind = static_cast<int>(cut.stages.size() - 1 - i);
      const Option& option = best_option(stage.size, behind, stage.first, stage.end);
      draft.configuration.meshes.push_back(
          {.shape = option.shape, .first_device = stage.first_device * units_.devices});
      draft.tables.push_back(option.table);
      draft.questions.push_back(question(behind, stage.first, stage.end));
    }
    s_.drafting.answer(draft);
    return draft;
  }

  const UnequalSearch& s_;
  DeviceUnits units_;
  int micro_batches_;
  double budget_ = 0;
  std::vector<std::vector<Option>> options_;     // by size
  std::map<std::pair<int, int>, double> sends_;  // by size and class of the layer behind it
};

// Those of the best pipelines.
std::vector<int> micro_batch_counts(const std::vector<Draft>& equal, int most) {
  std::vector<int> counts;
  for (const Draft& draft : equal) {
    const Configuration& c = draft.configuration;
    const bool known = std::ranges::find(counts, c.micro_batches) != counts.end();
    if (c.meshes.size() > 1 && c.micro_batches > 1 && !known &&
        static_cast<int>(counts.size()) < most && draft.step_s < kNever &&
        draft.step_s <= kFar * equal.front().step_s) {
      counts.push_back(c.micro_batches);
    }
  }
  return counts;
}

}  // namespace

DeviceUnits device_units(const Cluster& cluster) {
  DeviceUnits units;
  const std::vector<int> hosts = devices_of_hosts(cluster);
  const int count = static_cast<int>(hosts.size());
  const int all = static_cast<int>(cluster.devices.size());
  const bool alike = std::ranges::all_of(hosts, [&](int host) { return host == hosts[0]; });
  const auto may = [&](int unit) {
    return alike ? hosts[0] % unit == 0 || (unit % hosts[0] == 0 && count % (unit / hosts[0]) == 0)
                 : unit == 1;
  };
  while (units.devices <= all && (all > kMostUnits * units.devices || !may(units.devices))) {
    ++units.devices;
  }
  if (units.devices > all) {
    return units;
  }
  const int unit = units.devices;
  if (unit <= hosts[0]) {
    for (const int host : hosts) {
      units.hosts.push_back(host / unit);
    }
  } else {
    units.hosts.assign(static_cast<std::size_t>(all / unit), 1);
  }
  const int host = *std::ranges::max_element(units.hosts);
  for (int n = 1; n <= all / unit; ++n) {
    const bool placed = n <= host || n % host == 0;
    if (placed && (n <= kSmallSizes || is_smooth(n) || n == all / unit)) {
      units.sizes.push_back(n);
    }
  }
  return units;
}

std::vector<Draft> unequal_drafts(const UnequalSearch& search, MeshTables& tables,
                                  const std::vector<Draft>& equal, const SearchNotes& note) {
  std::vector<Draft> drafts;
  if (is_forbidden(search.limits, "pp") || is_forbidden(search.limits, "unequal") ||
      search.limits.pp == 1) {
    return drafts;
  }
  const double best_s = equal.empty() ? kNever : equal.front().step_s;
  const int most = search.task.cluster.devices.size() > kManyDevices ? kFewCounts : kCounts;
  for (const int count : micro_batch_counts(equal, most)) {
    std::optional<Draft> draft = UnequalMeshes(search, tables, count).run(best_s, note);
    const bool known = draft && std::ranges::any_of(equal, [&](const Draft& other) {
                         return other.configuration == draft->configuration;
                       });
    if (!draft || known) {
      continue;
    }
    note("{}: about {:.4g} s", configuration_name(draft->configuration), draft->step_s);
    drafts.push_back(std::move(*draft));
  }
  return drafts;
}

}  // namespace weft
