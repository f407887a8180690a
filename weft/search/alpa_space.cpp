#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "weft/base/divisors.h"
#include "weft/search/alpa_table.h"
#include "weft/search/configurations.h"
#include "weft/search/known_spaces.h"
#include "weft/solver/submesh_stages.h"

// A configuration is a number m of micro-batches of equal size and the passes (alpa_table.h).
// Stages are runs of layers on submeshes: a power of two of a host's devices, or whole hosts, in
// every logical shape d x t of which the first axis splits the batch. A stage takes the fastest
// shape in which it fits with its micro-batches in flight, and the cut minimises
//
//   sum t + (m - 1) max t
//
// (submesh_stages.h). Estimates of shapes may be wrong, so for few devices there is also the best
// cut in which all stages have the same t. On clusters of many hosts stages have whole hosts,
// numbers of them that are powers of two, and models of many layers are cut at every second or
// third of them, as Alpa joins operators to layers before it cuts.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kBoundMargin = 0.05;
constexpr double kHope = 1.3;
constexpr int kFewHosts = 8;
constexpr int kFewDevices = 32;
constexpr int kManyDevices = 64;
constexpr int kMostPlaces = 50;
constexpr int kMostStages = 32;

struct AlpaShape {
  int micro_batches = 1;
  AlpaPasses passes;
  int tp = 0;  // of all stages; 0: the fastest for each
};

std::vector<int> submesh_sizes(const Cluster& cluster) {
  const auto all = static_cast<int>(cluster.devices.size());
  const int host = devices_of_first_host(cluster);
  std::set<int> sizes = {all};
  for (int size = 1; size <= host && all <= kManyDevices; size *= 2) {
    sizes.insert(size);
  }
  const int hosts = all / host;
  for (int count = 1; count <= hosts; count = hosts <= kFewHosts ? count + 1 : 2 * count) {
    sizes.insert(count * host);
  }
  return {sizes.begin(), sizes.end()};
}

// Those of the stages of these shapes.
std::vector<int> stage_sizes(const std::vector<SpaceShape>& shapes) {
  std::set<int> sizes;
  for (const SpaceShape& shape : shapes) {
    sizes.insert(shape.dp * shape.tp);
  }
  return {sizes.begin(), sizes.end()};
}

// Larger ones first, so that each lies within as few hosts as possible.
std::vector<int> first_devices(const std::vector<int>& sizes) {
  std::vector<int> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int a, int b) { return sizes[a] > sizes[b]; });
  std::vector<int> first(sizes.size());
  int next = 0;
  for (const int s : order) {
    first[s] = next;
    next += sizes[s];
  }
  return first;
}

Mesh submesh(int first, int dp, int tp) {
  Mesh mesh;
  for (int d = 0; d < dp * tp; ++d) {
    mesh.devices.push_back(first + d);
  }
  if (dp > 1) {
    mesh.axes.push_back({"dp", dp});
  }
  if (tp > 1) {
    mesh.axes.push_back({"tp", tp});
  }
  return mesh;
}

class AlpaSpace {
 public:
  AlpaSpace(const Task& task, const Graph& training, const OpTable& ops, const CostModel& cost,
            std::vector<int> sizes)
      : task_(task),
        model_(training, ops, cost),
        budget_(static_cast<double>(*std::ranges::min_element(task.memory_budget_bytes))),
        devices_(static_cast<int>(task.cluster.devices.size())),
        host_(devices_of_first_host(task.cluster)),
        sizes_(std::move(sizes)),
        unit_(std::accumulate(sizes_.begin(), sizes_.end(), 0,
                              [](int a, int b) { return std::gcd(a, b); })) {
    const auto layers = static_cast<int>(model_.chain.layers.size());
    const int stride = (layers + kMostPlaces - 1) / kMostPlaces;
    for (int l = 0; l < layers; l += stride) {
      places_.push_back(l);
    }
    places_.push_back(layers);
  }

  std::vector<Candidate> run() {
    std::vector<SpaceDraft> drafts;
    double best_s = kNever;
    for (const auto& [bound_s, count] : micro_batch_counts()) {
      if (bound_s * (1 - kBoundMargin) > best_s) {
        break;
      }
      for (const bool recompute : {false, true}) {
        for (const WeightMode mode :
             {WeightMode::replicate, WeightMode::zero1, WeightMode::zero2}) {
          for (const int tp : degrees_of_tp()) {
            drafts.push_back(draft({count, {recompute, mode}, tp}, kHope));
            best_s = std::min(best_s, drafts.back().step_s);
          }
        }
      }
    }
    return judge_space(kAlpaSpace, task_, model_, std::move(drafts),
                       [&](SpaceDraft& draft) { fill(draft); });
  }

  std::vector<Candidate> run(const SpacePart& part) {
    std::vector<SpaceDraft> drafts;
    std::set<int> counts;
    for (const SpaceShape& shape : part.shapes) {
      if (!counts.insert(shape.micro_batches).second) {
        continue;
      }
      for (const int tp : divisors(sizes_.back())) {
        if (tp > 1 && tp <= host_) {  // replicas alone have no splits to choose
          drafts.push_back(draft({shape.micro_batches, {false, WeightMode::zero2}, tp}, 1));
        }
      }
    }
    return judge_space(
        kAlpaSpace, task_, model_, std::move(drafts), [&](SpaceDraft& draft) { fill(draft); },
        effort_for(part));
  }

 private:
  [[nodiscard]] std::vector<int> degrees_of_tp() const {
    std::vector<int> degrees = {0};
    for (int tp = 1; tp <= host_ && devices_ <= kFewDevices; ++tp) {
      if (host_ % tp == 0) {
        degrees.push_back(tp);
      }
    }
    return degrees;
  }

  // `hope`: budgets, if it does not fit into one.
  SpaceDraft draft(const AlpaShape& shape, double hope) {
    SpaceDraft draft;
    draft.number = static_cast<int>(shapes_.size());
    draft.micro_batches = shape.micro_batches;
    shapes_.push_back(shape);
    for (const double budgets : {1.0, hope}) {
      draft.bytes = {budgets * budget_};
      fill(draft);
      if (draft.step_s < kNever) {
        break;
      }
    }
    return draft;
  }

  struct Shaped {
    int dp = 1;
    int tp = 1;
    std::unique_ptr<AlpaTable> table;
  };

  // With a bound: the work of all layers on the mesh on which it costs the least of its devices.
  std::vector<std::pair<double, int>> micro_batch_counts() {
    std::vector<std::pair<double, int>> order;
    for (const int count : divisors(static_cast<int>(task_.batch))) {
      double least = kNever;
      for (std::size_t size = 0; size < sizes_.size(); ++size) {
        for (const Shaped& shaped : tables(count, static_cast<int>(size))) {
          least = std::min(least, shaped.table->table().least_s() * sizes_[size]);
        }
      }
      if (least < kNever) {
        order.emplace_back(least * count / devices_, count);
      }
    }
    std::ranges::sort(order);
    return order;
  }

  std::vector<Shaped>& tables(int micro_batches, int size) {
    const auto [it, fresh] = tables_.try_emplace({micro_batches, size});
    if (!fresh) {
      return it->second;
    }
    const std::int64_t samples = task_.batch / micro_batches;
    for (const int tp : divisors(sizes_[size])) {
      const int dp = sizes_[size] / tp;
      if (tp <= host_ && dp <= samples) {
        it->second.push_back({dp, tp,
                              std::make_unique<AlpaTable>(model_,
                                                          BlockPlace{.mesh = submesh(0, dp, tp),
                                                                     .data_axes = dp > 1 ? 1 : 0,
                                                                     .samples = samples,
                                                                     .several = micro_batches > 1},
                                                          micro_batches)});
      }
    }
    return it->second;
  }

  // The spans of a shape, by the place at which they begin.
  struct Spans {
    Shaped* shaped = nullptr;
    std::vector<const std::vector<AlpaSpan>*> from;
  };
  struct Fitting {
    Shaped* shaped = nullptr;  // none fits
    double seconds = kNever;
  };

  // By size.
  std::vector<std::vector<Spans>> all_spans(const AlpaShape& shape) {
    std::vector<std::vector<Spans>> all(sizes_.size());
    for (std::size_t size = 0; size < sizes_.size(); ++size) {
      for (Shaped& shaped : tables(shape.micro_batches, static_cast<int>(size))) {
        if (shape.tp > 0 && shaped.tp != shape.tp) {
          continue;
        }
        Spans spans{.shaped = &shaped, .from = {}};
        const bool whole = sizes_[size] == devices_;  // no stage can stand before it
        for (std::size_t p = 0; p + 1 < places_.size() && (p == 0 || !whole); ++p) {
          spans.from.push_back(&shaped.table->spans(places_[p], shape.passes));
        }
        all[size].push_back(std::move(spans));
      }
    }
    return all;
  }

  // The fastest of the shapes in which a stage fits.
  [[nodiscard]] Fitting fastest(const std::vector<Spans>& shapes, int begin, int end, int in_flight,
                                double bytes) const {
    Fitting best;
    for (const Spans& spans : shapes) {
      if (begin >= static_cast<int>(spans.from.size())) {
        continue;
      }
      const AlpaSpan& span = (*spans.from[begin])[places_[end] - places_[begin] - 1];
      const double held = span.state_bytes + in_flight * span.kept_bytes + span.working_bytes;
      if (held <= bytes && span.seconds < best.seconds) {
        best = {.shaped = spans.shaped, .seconds = span.seconds};
      }
    }
    return best;
  }

  void fill(SpaceDraft& draft) {
    const AlpaShape shape = shapes_[draft.number];
    const double bytes = draft.bytes[0];
    const std::vector<std::vector<Spans>> spans = all_spans(shape);
    SubmeshProblem problem;
    problem.places = static_cast<int>(places_.size()) - 1;
    problem.devices = devices_ / unit_;
    for (const int size : sizes_) {
      problem.sizes.push_back(size / unit_);
    }
    problem.micro_batches = shape.micro_batches;
    problem.most_stages = kMostStages;
    problem.seconds = [&](int size, int begin, int end, int in_flight) {
      return fastest(spans[size], begin, end, in_flight, bytes).seconds;
    };
    const SubmeshAnswer answer = best_submeshes(problem);
    draft.stages.clear();
    draft.step_s = kNever;
    if (answer.stages.empty()) {
      return;
    }
    std::vector<int> devices;
    for (const SubmeshStage& stage : answer.stages) {
      devices.push_back(sizes_[stage.size]);
    }
    const std::vector<int> first = first_devices(devices);
    for (std::size_t s = 0; s < answer.stages.size(); ++s) {
      const SubmeshStage& from = answer.stages[s];
      SpaceStage stage;
      stage.first = places_[from.begin];
      stage.in_flight = std::min(shape.micro_batches, static_cast<int>(answer.stages.size() - s));
      const Shaped& shaped =
          *fastest(spans[from.size], from.begin, from.end, stage.in_flight, bytes).shaped;
      stage.table = &shaped.table->table();
      stage.mesh = submesh(first[s], shaped.dp, shaped.tp);
      stage.ways = shaped.table->ways(stage.first, places_[from.end], shape.passes);
      add_costs(stage);
      draft.stages.push_back(std::move(stage));
    }
    draft.settings = fmt::format("devices={},zero={},recompute={},micro-batches={}",
                                 fmt::join(devices, "+"), static_cast<int>(shape.passes.mode),
                                 shape.passes.recompute ? "block" : "none", shape.micro_batches);
    draft.step_s = draft_seconds(draft, model_);
  }

  const Task& task_;
  BlockModel model_;
  double budget_;
  int devices_;
  int host_;  // devices of the first one
  std::vector<int> sizes_;
  int unit_;                 // all sizes are multiples of it
  std::vector<int> places_;  // layers at which stages may begin, and their number
  std::vector<AlpaShape> shapes_;
  std::map<std::pair<int, int>, std::vector<Shaped>> tables_;  // by micro-batches and size
};

}  // namespace

std::vector<Candidate> alpa_plans(const Task& task, const Graph& training, const OpTable& ops,
                                  const CostModel& cost) {
  return AlpaSpace(task, training, ops, cost, submesh_sizes(task.cluster)).run();
}

std::vector<Candidate> alpa_part(const Task& task, const Graph& training, const OpTable& ops,
                                 const CostModel& cost, const SpacePart& part) {
  if (part.shapes.empty()) {
    return {};
  }
  return AlpaSpace(task, training, ops, cost, stage_sizes(part.shapes)).run(part);
}

}  // namespace weft
