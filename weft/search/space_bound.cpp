#include "weft/search/space_bound.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "weft/base/divisors.h"
#include "weft/search/configurations.h"
#include "weft/search/least_costs.h"
#include "weft/search/mesh_cover.h"
#include "weft/search/sample_path.h"
#include "weft/search/unequal_meshes.h"

// A bound that knows links and memory. Let a plan have m micro-batches, and meshes of n_p devices;
// T is its step, and of some device x the seconds of its kernels, f those of collectives that bring
// a node of the forward pass what it reads, c those of its other collectives, y the bytes that it
// holds, M its memory.
//
// Overlap. A device runs its instructions in order, and its collectives in the order in which they
// are issued. Those of f are issued where their reader stands: no kernel runs meanwhile. While a
// device communicates otherwise its kernels run k times longer, and while it computes its
// collectives run k' times longer. If both go on for O seconds, and collectives of c for C in all,
// then O / k' + C - O >= c, and T >= x + f + O (1 - 1/k) + C - O. So
//
//   r = min(1, k' (1 - 1/k)),    T >= x + f + r c    and    T >= f + c
//
// Memory. When a micro-batch has been through the forward pass, all that its layers keep is there,
// and parameters, states and sums of gradients are: y <= M.
//
// Heads. On the devices of mesh p = 0, 1, ... nothing runs before a micro-batch has been through
// the first stages of the meshes in front. These have a layer or more each; that of the first mesh
// may take hardly any time, the others take F or more. Collectives may hide there, so T >= x + f +
// r c + (1 - r) (p - 1) F.
//
// With any weight t of the first inequality and any price l of a byte, a layer i on a mesh of
// shape s takes at least
//
//   V_i(s) = min over its ways of t x_i + f_i + (t r + 1 - t) c_i + l y_i
//
// where x_i, f_i, c_i and y_i are the least that programs need (block_costs.h), and the layers of a
// mesh have sum of V_i(s) <= T + l M. From this:
//
//   one mesh        T >= sum of V_i(s) - l M
//   several meshes  of n devices at most:
//     shares        with weights w_i such that w_i / V_i(s) <= e(s) for all layers and shapes,
//                   sum of w_i <= sum over meshes of e(s) (T + l M)
//     whole layers  of the class that takes most, mesh p has no more than
//                   floor((T + l M - t (1 - r) (p - 1) F) / V(s)), at any t and l, and where the
//                   largest other layer, o, is, floor((T + l M - ... - V_o(s)) / V(s)); together
//                   they have all
//     path          a sample goes through a path of nodes, each of which waits for the one before
//                   and takes a share 1 / (n m) of its work or more on average (part_bound.cpp):
//                   of a layer of that class q(n), so with k_p of them on mesh p, sum of
//                   k_p q(n_p) <= T, and for any u the sum of k_p (1 - u q(n_p)) is the number of
//                   layers less u T, or more
//                   mesh_cover.h finds the meshes that share N devices in the best way
//
// Micro-batches of b / m samples, rounded down or up: those of s samples take s times the seconds
// of one of their samples, so the bound for one of the two sizes holds, with m = b / s of them.
//
// Shapes. Only axes are solved (least_costs.cpp): of what size they are needed the search for the
// least bound says. It begins with no axes, which all sizes are multiples of, and solves those of
// the shapes at which the bound stands, for the number of micro-batches at which it stands, until
// it stands at solved ones; when it has worked enough, the bound is what it is then.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostDevices = 32;
constexpr int kFewDevices = 16;
constexpr double kEnoughWork = 1e6;                     // see LeastCosts
constexpr double kRounding = 1e-5;                      // of solvers, which use float32
constexpr std::array kKernelWeights = {1.0, 0.8, 0.5};  // t
// l, in known_s / M
constexpr std::array kPrices = {0.0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.5, 0.8, 1.3};
constexpr double kPrecision = 1e-4;  // of bounds of several meshes
constexpr int kMostPlaces = 8;       // of meshes in a row that are told apart
constexpr int kMostTold = 8;         // devices of meshes whose paths are told apart

struct Shape {
  Axes axes;
  int devices = 1;
};

// What is known of micro-batches of a size. Plans with others that are a sample larger or smaller
// count too: with up to `parts` micro-batches, of `fewest` samples or more.
struct Count {
  MicroBatchSize size = {};
  int parts = 1;
  std::int64_t fewest = 1;
  SolvedAxes solved = {};
  double bound_s = 0;
  std::set<Axes> wanted = {};  // of the shapes where it stands, not solved yet
};

Cluster at_best(Cluster cluster) {
  for (Link& link : cluster.links) {
    link.latency_s = 0;
  }
  for (DeviceType& type : cluster.types) {
    type.issue_s = 0;
    type.update_issue_s = 0;
  }
  return cluster;
}

// Seconds that kernels seem to run longer for each second of collectives that hide behind them.
double seen_share(const DeviceType& type) {
  return std::min(1.0, type.communication_slowdown * (1 - 1 / type.compute_slowdown));
}

bool is_known(const Cluster& cluster) {
  return cluster.types.size() == 1 && cluster.types[0].corrections.empty() &&
         cluster.devices.size() <= kMostDevices &&
         std::ranges::all_of(cluster.links, [](const Link& l) { return l.table.points.empty(); }) &&
         std::ranges::all_of(cluster.hosts, [](const Host& h) { return h.collectives.empty(); });
}

class SpaceBound {
 public:
  SpaceBound(const Task& task, const Graph& training, const OpTable& ops, double known_s)
      : task_(task),
        cluster_(at_best(task.cluster)),
        cost_(cluster_),
        model_(training, ops, cost_),
        known_s_(known_s),
        memory_(static_cast<double>(*std::ranges::max_element(task.memory_budget_bytes))),
        devices_(static_cast<int>(cluster_.devices.size())),
        seen_(seen_share(cluster_.types[0])),
        path_(sample_path(model_.chain, training,
                          node_lines(training, task.batch, ops, cost_, 1.0 / devices_), cluster_)),
        costs_(model_, task.batch, weightings()) {
    find_shapes();
  }

  double run() {
    std::vector<Count> counts = micro_batches();
    for (Count& count : counts) {
      count.solved[{}] = costs_.solve(count.size, {});
      evaluate(count);
    }
    while (!counts.empty()) {
      Count& least = *std::ranges::min_element(counts, {}, &Count::bound_s);
      if (least.wanted.empty() || costs_.work() > kEnoughWork) {
        return std::max(known_s_, least.bound_s * (1 - kRounding));
      }
      for (const Axes& axes : least.wanted) {
        least.solved[axes] = costs_.solve(least.size, axes);
      }
      evaluate(least);
    }
    return known_s_;
  }

 private:
  [[nodiscard]] std::vector<Weighting> weightings() const {
    std::vector<Weighting> result;
    for (const double kernels : kKernelWeights) {
      for (const double price : kPrices) {
        result.push_back({.kernels = kernels,
                          .communication = kernels * seen_ + 1 - kernels,
                          .price = price * known_s_ / std::max(memory_, 1.0)});
      }
    }
    return result;
  }

  // Of the sizes that the search tries, with up to three axes, of which all but the first stay
  // within a host.
  void find_shapes() {
    std::set<int> sizes;
    const int host = devices_of_first_host(cluster_);
    for (const int all : {devices_, std::min(devices_, host)}) {
      for (const int n : divisors(all)) {
        sizes.insert(n);
      }
    }
    for (int n = 1; n <= devices_ && devices_ <= kFewDevices; ++n) {
      sizes.insert(n);
    }
    const DeviceUnits units = device_units(cluster_);
    for (const int size : units.sizes) {
      sizes.insert(size * units.devices);
    }
    for (const int n : sizes) {
      for (const int tp : divisors(n)) {
        for (const int inner : divisors(tp)) {
          if (tp > host || inner * inner > tp || (inner == 1 && tp == 1 && n > task_.batch)) {
            continue;
          }
          Shape shape{.axes = {}, .devices = n};
          for (const int axis : {n / tp, tp / inner, inner}) {
            if (axis > 1) {
              shape.axes.push_back(axis);
            }
          }
          shapes_.push_back(std::move(shape));
        }
      }
    }
  }

  [[nodiscard]] std::vector<Count> micro_batches() const {
    std::map<std::int64_t, Count> by_size;
    for (const Configuration& c :
         all_configurations(task_, static_cast<int>(model_.chain.layers.size()), {})) {
      const std::int64_t fewest = task_.batch / c.micro_batches;
      for (const std::int64_t samples :
           {fewest, (task_.batch + c.micro_batches - 1) / c.micro_batches}) {
        Count& count = by_size.try_emplace(samples, Count{.fewest = fewest}).first->second;
        count.size.samples = samples;
        count.size.count = static_cast<double>(task_.batch) / static_cast<double>(samples);
        count.parts = std::max(count.parts, c.micro_batches);
        count.fewest = std::min(count.fewest, fewest);
      }
    }
    std::vector<Count> counts;
    for (auto& [samples, count] : by_size) {
      counts.push_back(std::move(count));
    }
    return counts;
  }

  // ---- plans

  // V of a layer of a block.
  [[nodiscard]] double seconds(std::size_t shape, std::size_t weighting, std::size_t block) const {
    return values_[shape][costs_.at(weighting, block)];
  }

  static void want(const Count& count, const Shape& shape, std::set<Axes>& wanted) {
    for (const Axes& axes : unsolved_axes(count.solved, shape.axes)) {
      wanted.insert(axes);
    }
  }

  void evaluate(Count& count) {
    values_.clear();
    for (const Shape& shape : shapes_) {
      values_.push_back(least_on_device(count.solved, shape.axes));
    }
    count.bound_s = kNever;
    std::set<Axes> wanted;
    for (std::size_t s = 0; s < shapes_.size(); ++s) {
      const double bound_s = one_mesh_seconds(s);
      if (bound_s < count.bound_s) {
        count.bound_s = bound_s;
        wanted.clear();
        want(count, shapes_[s], wanted);
      }
    }
    std::set<Axes> wanted_by_several;
    const double several_s = several_meshes_seconds(count, count.bound_s, wanted_by_several);
    if (several_s < count.bound_s) {
      count.bound_s = several_s;
      wanted = std::move(wanted_by_several);
    }
    count.wanted = std::move(wanted);
  }

  [[nodiscard]] double one_mesh_seconds(std::size_t shape) const {
    double most_s = 0;
    for (std::size_t w = 0; w < costs_.weightings().size(); ++w) {
      double sum_s = -costs_.weightings()[w].price * memory_;
      for (std::size_t b = 0; b < costs_.blocks().size(); ++b) {
        sum_s += costs_.blocks()[b].layers * seconds(shape, w, b);
      }
      most_s = std::max(most_s, sum_s);
    }
    return most_s;
  }

  // The block that takes most, and that of the largest other layer.
  struct MainBlocks {
    std::size_t main = 0;
    std::size_t other = 0;  // same: there is none
  };
  [[nodiscard]] MainBlocks main_blocks() const {
    const std::vector<LeastCosts::Block>& blocks = costs_.blocks();
    const auto one = [&](std::size_t b) { return seconds(0, 0, b); };
    MainBlocks result;
    std::size_t& main = result.main;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      main = blocks[b].layers * one(b) > blocks[main].layers * one(main) ? b : main;
    }
    std::size_t& other = result.other;
    other = main;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      other = b != main && (other == main || one(b) > one(other)) ? b : other;
    }
    return result;
  }

  // Meshes of so many devices at most, for micro-batches of a size.
  struct Meshes {
    MainBlocks blocks;
    double head_s = 0;
    std::vector<MeshKind> kinds = {};  // by shape; what does not depend on the step
  };

  [[nodiscard]] Meshes meshes(const Count& count, int most_devices) const {
    Meshes result{
        .blocks = main_blocks(),
        .head_s = devices_ <= kFewDevices ? (1 - seen_) * head_seconds(most_devices, count) : 0};
    const KernelLine& path = path_.through[costs_.blocks()[result.blocks.main].block_class];
    for (std::size_t s = 0; s < shapes_.size() && shapes_[s].devices <= most_devices; ++s) {
      const int devices = shapes_[s].devices;
      result.kinds.push_back(
          {.devices = devices, .path_s = path.fixed_s + path.work_s / (devices * count.parts)});
    }
    return result;
  }

  // The least step at which shares of meshes have all layers; `used` are shapes that they may have
  // then.
  [[nodiscard]] double shares_seconds(const Meshes& of, std::size_t w, std::set<int>& used) const {
    std::vector<MeshKind> kinds = of.kinds;
    std::vector<double> weight(costs_.blocks().size(), kNever);  // w_i
    for (std::size_t s = 0; s < kinds.size(); ++s) {
      const double main_s = seconds(s, w, of.blocks.main);
      kinds[s].share = 1 / main_s;
      for (std::size_t b = 0; b < weight.size(); ++b) {
        weight[b] = std::min(weight[b], seconds(s, w, b) / main_s);
      }
    }
    double all = 0;
    for (std::size_t b = 0; b < weight.size(); ++b) {
      all += costs_.blocks()[b].layers * weight[b];
    }
    MeshCover cover(devices_, kinds);
    const double in_second = cover.most_shares();
    used = std::move(cover.used);
    return all / in_second - costs_.weightings()[w].price * memory_;
  }

  // Whether meshes may have all whole layers and take no longer: each mesh with the weighting that
  // leaves it the fewest of the main block.
  [[nodiscard]] bool covers(const Meshes& of, double step_s, std::set<int>* used = nullptr) const {
    const auto& [main, other] = of.blocks;
    const int places = of.head_s > 0 ? kMostPlaces : 1;
    std::vector<MeshKind> kinds = of.kinds;
    for (std::size_t s = 0; s < kinds.size(); ++s) {
      kinds[s].layers.assign(places + 1, kNever);
      kinds[s].beside_other.assign(places + 1, kNever);
      for (std::size_t w = 0; w < costs_.weightings().size(); ++w) {
        const Weighting& weighting = costs_.weightings()[w];
        const double layer_s = seconds(s, w, main) / (1 + kRounding);
        const double other_s = other == main ? 0 : seconds(s, w, other);
        for (int place = 0; place <= places; ++place) {
          const double room_s = step_s + weighting.price * memory_ -
                                std::max(place - 1, 0) * weighting.kernels * of.head_s;
          double& layers = kinds[s].layers[place];
          double& beside = kinds[s].beside_other[place];
          layers = std::min(layers, std::floor(std::max(room_s, 0.0) / layer_s));
          beside = std::min(beside, std::floor((room_s - other_s) / layer_s));
        }
      }
    }
    const int layers = costs_.blocks()[main].layers;
    MeshCover cover(devices_, kinds);
    bool all = cover.most_layers() >= layers;
    double told_s = 0;
    for (const MeshKind& kind : kinds) {
      const bool told = kind.devices <= kMostTold && kind.path_s > 0 && kind.path_s != told_s;
      told_s = kind.path_s;
      all = all && (!told || cover.most_on_path(1 / kind.path_s) >= layers - step_s / kind.path_s);
    }
    if (used != nullptr) {
      *used = std::move(cover.used);
    }
    return all;
  }

  // No more than `most_s`; if it is less, `wanted` are the axes that might make it more.
  [[nodiscard]] double several_meshes_seconds(const Count& count, double most_s,
                                              std::set<Axes>& wanted) const {
    double least_s = most_s;
    for (std::size_t s = 0; s + 1 < shapes_.size(); ++s) {
      const int devices = shapes_[s].devices;
      if (devices == shapes_[s + 1].devices || devices == devices_) {
        continue;
      }
      const double path_s = longest_seconds(path_, 1.0 / (devices * count.parts));
      const Meshes all = meshes(count, devices);
      double low = std::max(path_s, known_s_ * (1 - kRounding));
      std::set<int> used;
      std::set<int> others;  // with which other weightings might give more
      for (std::size_t w = 0; w < costs_.weightings().size() && low < least_s; ++w) {
        std::set<int> own;
        const double step_s = shares_seconds(all, w, own);
        others.insert(own.begin(), own.end());
        if (step_s > low) {
          low = step_s;
          used = std::move(own);
        }
      }
      if (low >= least_s || !covers(all, least_s)) {
        continue;
      }
      if (!covers(all, low)) {
        double high = least_s;
        while (high > low * (1 + kPrecision)) {
          const double middle = (low + high) / 2;
          (covers(all, middle) ? high : low) = middle;
        }
        static_cast<void>(covers(all, high, &used));
      }
      least_s = low;
      wanted.clear();
      for (const auto* shapes : {&used, &others}) {
        for (const int shape : *shapes) {
          if (shapes == &used || wanted.empty()) {
            want(count, shapes_[shape], wanted);
          }
        }
      }
    }
    return least_s;
  }

  // F of meshes of so many devices at most. Where parts are unequal, the smallest is half as large
  // as the largest at least.
  [[nodiscard]] double head_seconds(int devices, const Count& count) const {
    double least_s = path_.heads.empty() ? 0 : kNever;
    for (const KernelLine& line : path_.heads) {
      least_s = std::min(least_s, line.fixed_s + line.work_s / devices *
                                                     static_cast<double>(count.fewest) /
                                                     static_cast<double>(task_.batch));
    }
    return count.fewest % devices == 0 ? least_s : least_s / 2;
  }

  const Task& task_;
  Cluster cluster_;
  CostModel cost_;
  BlockModel model_;
  double known_s_;
  double memory_;
  int devices_;
  double seen_;  // r
  SamplePath path_;
  LeastCosts costs_;                        // at these prices
  std::vector<Shape> shapes_;               // by devices; the first one is a single device
  std::vector<LeastCosts::Values> values_;  // by shape, as it was evaluated last
};

}  // namespace

double space_bound_seconds(const Task& task, const Graph& training, const OpTable& ops,
                           double known_s) {
  return is_known(task.cluster) ? SpaceBound(task, training, ops, known_s).run() : known_s;
}

}  // namespace weft
