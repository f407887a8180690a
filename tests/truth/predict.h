#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/autodiff/differentiate.h"
#include "weft/frontend/model.h"
#include "weft/program/program.h"
#include "weft/recipes/recipes.h"

namespace weft::truth {

/// A training run whose step time is known.
struct Run {
  std::string model;   // "gpt:layers=24,…"
  std::string recipe;  // "dp=2,tp=4,…"
  std::int64_t batch = 0;
  int devices = 0;
};

/// Lowers runs as Megatron-LM lays them out: equal numbers of blocks on all stages, embedding on
/// the first and head on the last, gradients reduced at the end of the step. Keeps graphs and
/// programs, so that many clusters can be tried.
class Predictor {
 public:
  Predictor() : ops_(builtin_ops()) {}

  /// Seconds of a step on this cluster, by the simulator.
  [[nodiscard]] double seconds(const Run& run, const Cluster& cluster);
  /// Forgets programs (not graphs).
  void forget() { programs_.clear(); }

 private:
  struct Graphs {
    Graph forward;
    Graph training;
    std::int64_t sequence = 0;
  };
  const Graphs& graphs(const std::string& model);
  const Program& program(const Run& run, const Cluster& cluster);

  OpTable ops_;
  std::map<std::string, Graphs> graphs_;
  std::map<std::string, Program> programs_;
};

/// The constants that make a loss small: Nelder and Mead's simplex in the logarithms of the
/// constants, `evaluations` times.
[[nodiscard]] std::vector<double> fit(const std::function<double(const std::vector<double>&)>& loss,
                                      std::vector<double> start, int evaluations);

/// WEFT_REFERENCE_DATA/name, or empty if that is not set or there is no such file.
[[nodiscard]] std::string reference_file(const std::string& name);

}  // namespace weft::truth
