#pragma once

#include <optional>

#include "weft/ops/op.h"
#include "weft/plan/plan.h"
#include "weft/program/program.h"

namespace weft {

/// Makes the plan explicit. Decides nothing: whatever is open is in the plan or fixed by the rules
/// of docs/spec/sharding.md. `graph` is the training graph of the plan's model.
///
/// With `beside`, the program of the plan's training graph, `graph` is another graph of the same
/// model (its evaluation) that runs on the same parameters: they lie as in that program.
[[nodiscard]] Program lower(const Graph& graph, const Plan& plan, const OpTable& ops,
                            const Program* beside = nullptr);

/// Lowers plans one after the other, as `lower` does. Of one that differs from the last one in the
/// order of micro-batches alone, only this is lowered. The arguments must outlive it.
class RepeatedLowering {
 public:
  RepeatedLowering(const Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}
  /// Valid until the next call.
  const Program& program(const Plan& plan);

 private:
  const Graph& graph_;
  const OpTable& ops_;
  std::optional<Plan> plan_;  // the last one
  Program program_;
};

/// By value of a training graph: whether backward makes it again from what it keeps anyway.
[[nodiscard]] std::vector<bool> repeated_values(const Graph& training, const OpTable& ops);

}  // namespace weft
