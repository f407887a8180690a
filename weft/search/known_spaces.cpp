#include "weft/search/known_spaces.h"

#include "weft/search/evaluate.h"

namespace weft {

std::vector<Candidate> best_of_known_spaces(const Task& task, const Graph& training,
                                            const OpTable& ops) {
  const CostModel cost(task.cluster);
  std::vector<Candidate> result;
  for (auto* const plans : {&galvatron_plans, &alpa_plans}) {
    const Candidate* best = nullptr;
    const std::vector<Candidate> all = (*plans)(task, training, ops, cost);
    for (const Candidate& candidate : all) {
      best = best == nullptr || better(candidate, *best) ? &candidate : best;
    }
    if (best != nullptr) {
      check_program(best->plan, training, ops);
      result.push_back(*best);
    }
  }
  return result;
}

}  // namespace weft
