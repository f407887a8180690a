#pragma once

#include <cstdint>
#include <string>

#include "weft/autodiff/differentiate.h"
#include "weft/frontend/model.h"
#include "weft/recipes/recipes.h"

namespace weft {

/// What a search is given.
struct SearchProblem {
  OpTable ops = builtin_ops();
  Task task;
  Graph training;
};

inline SearchProblem search_problem(const std::string& model, const std::string& cluster,
                                    std::int64_t batch,
                                    std::int64_t memory_bytes = std::int64_t{64} << 30,
                                    DType dtype = DType::bf16) {
  SearchProblem p;
  const Model loaded = load_model(model, {.dtype = dtype}, p.ops);
  p.task.model.description = loaded.description;
  p.task.cluster = parse_cluster(cluster);
  p.task.batch = batch;
  p.task.sequence = loaded.sequence;
  p.task.dtype = dtype;
  p.task.memory_budget_bytes.assign(p.task.cluster.devices.size(), memory_bytes);
  p.training = training_graph(loaded.forward, p.task.optimizer, p.ops);
  return p;
}

}  // namespace weft
