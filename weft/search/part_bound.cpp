#include "weft/search/part_bound.h"

#include <algorithm>
#include <cmath>

// A node v is cut into K_v parts that are not empty, by samples (micro-batches, replicas) or
// otherwise. A part of share x takes at least l_v + h_v + w_v x: launch, other fixed time, work.
// The shares add up to 1 or more. The n devices of its layer run it for each of m micro-batches, so
// it is launched Q = n m times, Q >= K_v, and Q is the same for all nodes of a layer. Three things
// bound the step T of N devices:
//
//   kernels  a device runs one kernel at a time:   N T >= sum over v of (Q l_v + K_v h_v + w_v)
//   host     its host needs time to issue each:    N T >= sum over v of Q issue
//   chain    a sample goes through a path of nodes, each of which waits for the one before. Its
//            part of v takes l_v + h_v + w_v x. For a sample (and, where a node is cut otherwise,
//            an entry) drawn at random the part has share x with probability x, so the mean is l_v
//            + h_v + w_v sum x^2 >= l_v + h_v + w_v / K_v, and some sample takes as long as the
//            mean:                                 T >= sum over path of (l_v + h_v + w_v / K_v)
//
// Few parts make the chain long, many cost kernels. The path may be drawn at random too: q_v is
// then the probability that v is on it, any flow of 1 through the graph. Of w_v / K_v a share r may
// be replaced by w_v / Q, which is less. With weights a + i + c = 1 of the three inequalities the
// parts of each group of nodes that are cut alike, and the launches of each layer, can then be
// chosen by themselves,
//
//   T >= sum over all nodes  of a w / N + c q (l + h)
//      + sum over all groups of min over K >= 1 of a K h / N + c (1 - r) (sum of q w) / K
//      + sum over all layers of min over Q >= 1 of Q (a l + i issue kernels) / N + c r (sum of q w)
//      / Q
//
// where h, l and kernels are sums over the group or layer. A minimum of alpha K + beta / K is at
// K = sqrt(beta / alpha). This holds for all weights, shares and flows. The best flow for given
// weights is approached by Frank-Wolfe steps (the sum is concave in c q: longest paths under its
// gradient), the weights, in which it is concave too, by golden sections in turns.

namespace weft {
namespace {

constexpr int kFirstSteps = 12;  // of the flow
constexpr int kSteps = 3;        // after a change of weights
constexpr int kTurns = 3;
constexpr int kSections = 8;
constexpr double kGolden = 0.6180339887498949;
constexpr double kLeastFlow = 1e-3;  // where the gradient is taken

struct Weights {
  double host = 0;
  double chain = 0;
  double launch = 0.3;  // r
  [[nodiscard]] double kernels() const { return 1 - host - chain; }
};

// min over x >= 1 of each x + shared / x, and its slope in `shared`.
struct Least {
  double value = 0;
  double slope = 1;
};
Least least(double each, double shared) {
  if (shared <= each) {
    return {each + shared, 1};
  }
  const double root = std::sqrt(each * shared);
  return {2 * root, root / shared};
}

// What is cut, or launched, equally often.
struct Sum {
  double fixed_s = 0;
  int kernels = 0;
  double path_work_s = 0;  // that the flow goes through
  double slope = 0;
};

class PartBound {
 public:
  explicit PartBound(const PartProblem& problem)
      : p_(problem),
        groups_(static_cast<std::size_t>(problem.groups)),
        layers_(problem.layers.size()),
        flow_(problem.nodes.size(), 0.0) {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      layers_[l] = {.fixed_s = p_.layers[l].launch_s, .kernels = p_.layers[l].kernels};
    }
    for (const PartNode& node : p_.nodes) {
      work_s_ += node.area.work_s;
      groups_[node.group].fixed_s += node.area.fixed_s;
      Sum& launches = node.layer >= 0 ? layers_[node.layer] : groups_[node.group];
      launches.fixed_s += node.launch_s;
      launches.kernels += node.kernels;
    }
  }

  double best() {
    Weights at;
    seconds(at, 0);
    best_s_ = std::max(best_s_, sum({.host = 1}));
    at.chain = 0.1;
    seconds(at, kFirstSteps);
    for (int turn = 0; turn < kTurns; ++turn) {
      improve(at, &Weights::chain, 1 - at.host);
      if (p_.issue_s > 0) {
        improve(at, &Weights::host, 1 - at.chain);
      }
      improve(at, &Weights::launch, 1);
    }
    return best_s_;
  }

 private:
  // Golden sections of one of the weights between 0 and `most`.
  void improve(Weights& at, double Weights::*one, double most) {
    double low = 0;
    double high = most;
    const auto value = [&](double x) {
      Weights w = at;
      w.*one = x;
      return seconds(w, kSteps);
    };
    double left = high - kGolden * (high - low);
    double right = low + kGolden * (high - low);
    double left_s = value(left);
    double right_s = value(right);
    for (int k = 0; k < kSections; ++k) {
      if (left_s >= right_s) {
        high = right;
        right = left;
        right_s = left_s;
        left = high - kGolden * (high - low);
        left_s = value(left);
      } else {
        low = left;
        left = right;
        left_s = right_s;
        right = low + kGolden * (high - low);
        right_s = value(right);
      }
    }
    at.*one = left_s >= right_s ? left : right;
  }

  double seconds(const Weights& w, int steps) {
    double now_s = sum(w);
    for (int k = 0; k < steps; ++k) {
      const int age = steps == kFirstSteps ? k : k + kFirstSteps;
      add_longest_path(w, 2.0 / (age + 2));
      now_s = sum(w);
    }
    best_s_ = std::max(best_s_, now_s);
    return now_s;
  }

  // The share of a node's work on the path that counts with the launches of its layer.
  [[nodiscard]] double launch_share(const PartNode& node, const Weights& w) const {
    if (node.layer < 0) {
      return 0;
    }
    return groups_[node.group].fixed_s > 0 ? w.launch : 1;
  }

  double sum(const Weights& w) {
    for (std::vector<Sum>* sums : {&groups_, &layers_}) {
      for (Sum& one : *sums) {
        one.path_work_s = 0;
      }
    }
    double total_s = w.kernels() * work_s_ / p_.devices;
    for (std::size_t n = 0; n < p_.nodes.size(); ++n) {
      const PartNode& node = p_.nodes[n];
      if (flow_[n] > 0) {
        const double share = launch_share(node, w);
        total_s += w.chain * flow_[n] * node.path.fixed_s;
        groups_[node.group].path_work_s += (1 - share) * flow_[n] * node.path.work_s;
        if (node.layer >= 0) {
          layers_[node.layer].path_work_s += share * flow_[n] * node.path.work_s;
        }
      }
    }
    for (std::vector<Sum>* sums : {&groups_, &layers_}) {
      for (Sum& one : *sums) {
        const double each =
            (w.kernels() * one.fixed_s + w.host * one.kernels * p_.issue_s) / p_.devices;
        const double shared = w.chain * one.path_work_s;
        total_s += least(each, shared).value;
        one.slope = least(each, std::max(shared, kLeastFlow * each)).slope;
      }
    }
    return total_s;
  }

  // Moves a share of the flow to the path that gains most.
  void add_longest_path(const Weights& w, double share) {
    const std::size_t count = p_.nodes.size();
    length_.assign(count, 0);
    from_.assign(count, -1);
    std::size_t end = 0;
    for (std::size_t n = 0; n < count; ++n) {
      const PartNode& node = p_.nodes[n];
      for (const int before : node.before) {
        if (length_[before] > length_[n]) {
          length_[n] = length_[before];
          from_[n] = before;
        }
      }
      length_[n] += gain(node, w);
      end = length_[n] > length_[end] ? n : end;
    }
    for (double& flow : flow_) {
      flow *= 1 - share;
    }
    for (int n = static_cast<int>(end); n >= 0 && count > 0; n = from_[n]) {
      flow_[n] += share;
    }
  }

  // What more flow through the node is worth.
  [[nodiscard]] double gain(const PartNode& node, const Weights& w) const {
    const double share = launch_share(node, w);
    const double in_layer = node.layer >= 0 ? layers_[node.layer].slope : 0;
    return node.path.fixed_s +
           node.path.work_s * ((1 - share) * groups_[node.group].slope + share * in_layer);
  }

  const PartProblem& p_;
  std::vector<Sum> groups_;
  std::vector<Sum> layers_;
  double work_s_ = 0;
  double best_s_ = 0;
  std::vector<double> flow_;    // by node: probability that it is on the path
  std::vector<double> length_;  // by node: the longest path that ends there
  std::vector<int> from_;
};

}  // namespace

double part_bound_seconds(const PartProblem& problem) {
  return PartBound(problem).best();
}

}  // namespace weft
