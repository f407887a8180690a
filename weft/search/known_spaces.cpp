#include "weft/search/known_spaces.h"

#include "weft/search/evaluate.h"

namespace weft {

std::vector<Candidate> best_of_known_spaces(const Task& task, const Graph& training,
                                            const OpTable& ops) {
  const CostModel cost(task.cluster);
  std::vector<Candidate> result;
  for (auto* const plans : {&galvatron_plans, &alpa_plans}) {
    const std::vector<Candidate> all = (*plans)(task, training, ops, cost);
    if (const Candidate* best = best_that_runs(all, training, ops)) {
      result.push_back(*best);
    }
  }
  return result;
}

}  // namespace weft
