// A move takes one layer from a stage and gives it to another one; all boundaries between the two
// shift by a layer, the stages there keep their size. Of the moves from one mesh the best is made,
// if it helps: meshes in the order of their time, the slowest first. A cut is better if it takes
// less, or as long with a smaller sum of squares of the meshes' times: so that of several slowest
// meshes one after the other gets faster.

#include "weft/solver/layer_moves.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>

namespace weft {
namespace {

constexpr double kEqual = 1e-9;

class CutImprovement {
 public:
  CutImprovement(const LayerMoves& problem, int effort, std::vector<int>& ends)
      : p_(problem),
        effort_(effort),
        ends_(ends),
        meshes_(*std::ranges::max_element(problem.mesh_of) + 1) {
    for (int s = 0; s < std::ssize(ends); ++s) {
      times_.push_back(stage_s(s, ends));
    }
    value_ = value_of(times_, ends_);
  }

  double run() {
    while (improve()) {
    }
    return value_.step_s;
  }

 private:
  struct Value {
    double step_s = 0;
    double squares = 0;
    [[nodiscard]] bool better_than(const Value& other) const {
      return step_s < other.step_s * (1 - kEqual) ||
             (step_s <= other.step_s * (1 + kEqual) && squares < other.squares * (1 - kEqual));
    }
  };
  struct Cut {
    std::vector<int> ends;
    std::vector<double> times;  // by stage
    Value value;
  };

  static int first(int stage, const std::vector<int>& ends) {
    return stage == 0 ? 0 : ends[stage - 1];
  }

  // Moves ask for the same few cuts of a stage again and again.
  double stage_s(int stage, const std::vector<int>& ends) {
    const std::int64_t layers = p_.layers + 1;
    const std::int64_t key = (stage * layers + first(stage, ends)) * layers + ends[stage];
    const auto [known, fresh] = stage_s_.try_emplace(key, 0);
    if (fresh) {
      known->second = p_.stage_s(stage, first(stage, ends), ends[stage]);
    }
    return known->second;
  }

  [[nodiscard]] std::vector<double> mesh_times(const std::vector<double>& times) const {
    std::vector<double> sums(static_cast<std::size_t>(meshes_), 0);
    for (std::size_t s = 0; s < times.size(); ++s) {
      sums[p_.mesh_of[s]] += times[s];
    }
    return sums;
  }

  [[nodiscard]] Value value_of(const std::vector<double>& times,
                               const std::vector<int>& ends) const {
    const std::vector<double> sums = mesh_times(times);
    return {.step_s = p_.step_s(times, ends),
            .squares = std::inner_product(sums.begin(), sums.end(), sums.begin(), 0.0)};
  }

  // The best move of a layer from a mesh, if it helps.
  bool improve() {
    const std::vector<double> sums = mesh_times(times_);
    std::vector<int> meshes(static_cast<std::size_t>(meshes_));
    std::iota(meshes.begin(), meshes.end(), 0);
    std::ranges::stable_sort(meshes, [&](int a, int b) { return sums[a] > sums[b]; });
    for (const int mesh : meshes) {
      Cut best{.ends = {}, .times = {}, .value = value_};
      for (int from = 0; from < std::ssize(ends_); ++from) {
        for (int to = 0; to < std::ssize(ends_) && p_.mesh_of[from] == mesh; ++to) {
          try_move(from, to, best);
        }
      }
      if (!best.ends.empty()) {
        ends_ = std::move(best.ends);
        times_ = std::move(best.times);
        value_ = best.value;
        return true;
      }
    }
    return false;
  }

  void try_move(int from, int to, Cut& best) {
    if (from == to || ends_[from] - first(from, ends_) < 2 || effort_-- <= 0) {
      return;
    }
    Cut moved{.ends = ends_, .times = times_, .value = {}};
    for (int s = std::min(from, to); s < std::max(from, to); ++s) {
      moved.ends[s] += from < to ? -1 : 1;
    }
    for (int s = std::min(from, to); s <= std::max(from, to); ++s) {
      moved.times[s] = stage_s(s, moved.ends);
      if (std::isinf(moved.times[s])) {
        return;
      }
    }
    if (p_.least_s && p_.least_s(moved.times) > best.value.step_s * (1 + kEqual)) {
      return;
    }
    moved.value = value_of(moved.times, moved.ends);
    if (moved.value.better_than(best.value)) {
      best = std::move(moved);
    }
  }

  const LayerMoves& p_;
  int effort_;
  std::vector<int>& ends_;
  int meshes_;
  std::unordered_map<std::int64_t, double> stage_s_;  // by stage, first layer and end
  std::vector<double> times_;                         // by stage
  Value value_;
};

}  // namespace

double improve_cut(const LayerMoves& problem, int effort, std::vector<int>& ends) {
  return CutImprovement(problem, effort, ends).run();
}

}  // namespace weft
