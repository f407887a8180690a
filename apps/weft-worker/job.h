#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "options.h"
#include "weft/frontend/model.h"
#include "weft/plan/plan.h"
#include "weft/program/program.h"
#include "weft/runtime/job_place.h"
#include "weft/store/dataset.h"

namespace weft {

/// The evaluation of the model on the tensors of the training program.
struct EvaluationJob {
  Graph graph = {};
  Program program = {};
};

/// All that a rank knows before it meets the others. Holds no tensors.
struct WorkerJob {
  OpTable ops;
  Plan plan;
  Model model;
  Graph graph;  // training graph
  Program program;
  std::optional<EvaluationJob> evaluation;         // if it is asked for
  std::vector<DeviceId> devices;                   // by rank
  std::vector<std::int64_t> predicted_peak_bytes;  // by device of the cluster
  std::unique_ptr<Dataset> data;
};

/// Reads the plan, builds its model and program, checks them. Throws Error{no_fit} with figures if
/// the program needs more memory than the plan allows.
[[nodiscard]] WorkerJob prepare_job(const WorkerOptions& options, int world);

}  // namespace weft
