#include "weft/solver/choice_problem.h"

#include <cstddef>

#include "weft/base/error.h"

namespace weft {
namespace {

void check_tables(const std::vector<std::vector<float>>& cost, int kinds, std::size_t cells) {
  require(cost.empty() || static_cast<int>(cost.size()) == kinds,
          "choice: {} kinds of cost, expected {}", cost.size(), kinds);
  for (const std::vector<float>& table : cost) {
    require(table.empty() || table.size() == cells, "choice: a table of {} costs, expected {}",
            table.size(), cells);
  }
}

}  // namespace

void check_choice_problem(const ChoiceProblem& problem) {
  const int variables = static_cast<int>(problem.values.size());
  require(problem.kinds >= 1, "choice: {} kinds of cost", problem.kinds);
  require(problem.cost.empty() || problem.cost.size() == problem.values.size(),
          "choice: costs of {} variables, expected {}", problem.cost.size(), variables);
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    require(problem.values[v] >= 1, "choice: variable {} has no values", v);
    if (!problem.cost.empty()) {
      check_tables(problem.cost[v], problem.kinds, static_cast<std::size_t>(problem.values[v]));
    }
  }
  for (const ChoicePair& pair : problem.pairs) {
    require(pair.first >= 0 && pair.first < variables && pair.second >= 0 &&
                pair.second < variables && pair.first != pair.second,
            "choice: a pair of variables {} and {} among {}", pair.first, pair.second, variables);
    check_tables(pair.cost, problem.kinds,
                 static_cast<std::size_t>(problem.values[pair.first]) *
                     static_cast<std::size_t>(problem.values[pair.second]));
  }
}

std::vector<double> choice_cost(const ChoiceProblem& problem, const std::vector<int>& choice) {
  std::vector<double> sum(static_cast<std::size_t>(problem.kinds), 0.0);
  const auto add = [&](const std::vector<std::vector<float>>& cost, std::size_t cell) {
    for (std::size_t k = 0; k < cost.size(); ++k) {
      sum[k] += cost[k].empty() ? 0.0 : static_cast<double>(cost[k][cell]);
    }
  };
  for (std::size_t v = 0; v < problem.cost.size(); ++v) {
    add(problem.cost[v], static_cast<std::size_t>(choice[v]));
  }
  for (const ChoicePair& pair : problem.pairs) {
    add(pair.cost, static_cast<std::size_t>(choice[pair.first]) * problem.values[pair.second] +
                       choice[pair.second]);
  }
  return sum;
}

}  // namespace weft
