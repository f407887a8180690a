#pragma once

#include <optional>

#include "weft/plan/plan.h"
#include "weft/program/graph_facts.h"
#include "weft/program/program.h"

namespace weft {

/// Makes the plan explicit. Decides nothing: whatever is open is in the plan or fixed by the rules
/// of docs/spec/sharding.md. `graph` is the training graph of the plan's model.
///
/// With `beside`, the program of the plan's training graph, `graph` is another graph of the same
/// model (its evaluation) that runs on the same parameters: they lie as in that program.
[[nodiscard]] Program lower(const Graph& graph, const Plan& plan, const OpTable& ops,
                            const Program* beside = nullptr);
/// The same of a graph of which the facts are known.
[[nodiscard]] Program lower(const GraphFacts& facts, const Plan& plan,
                            const Program* beside = nullptr);

/// Lowers plans one after the other, as `lower` does. Of one that differs from the last one in the
/// order of micro-batches alone, only this is lowered. The arguments must outlive it.
class RepeatedLowering {
 public:
  RepeatedLowering(const Graph& graph, const OpTable& ops) : facts_(graph, ops) {}
  /// Valid until the next call.
  const Program& program(const Plan& plan);

 private:
  GraphFacts facts_;
  std::optional<Plan> plan_;  // the last one
  Program program_;
};

/// By value of a training graph: whether backward makes it again from what it keeps anyway.
/// `readers` are the users of each value.
[[nodiscard]] std::vector<bool> repeated_values(const Graph& training, const OpTable& ops,
                                                const std::vector<std::vector<NodeId>>& readers);

}  // namespace weft
