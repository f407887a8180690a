// Problems of the iopddl contest, compressed or not; small ones go through the solver too.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/solver/gunzip.h"
#include "weft/solver/selection_file.h"
#include "weft/solver/solve_selection.h"

namespace weft::fuzz {

void selection(std::string_view bytes) {
  constexpr std::size_t most_bytes = 1'000'000;
  constexpr std::size_t most_nodes = 50;
  const std::string text =
      is_gzip(bytes) ? gunzip(bytes, "problem.json.gz", most_bytes) : std::string(bytes);
  const nlohmann::json json = parse_json(text, "problem.json");
  require(is_selection(json), "another kind of file");
  const SelectionProblem problem = selection_from_json(json, "problem.json");
  if (problem.nodes.size() > most_nodes) {
    return;
  }
  SolveLimits limits{.seconds = 1, .threads = 1};
  limits.interrupted = [] { return true; };
  const Solved solved = solve_selection(problem, limits);
  WEFT_CHECK(solved.choice.is_null() ||
             check_selection(problem, solved.choice.get<Selection>()).violation.empty());
  WEFT_CHECK(solved.bound <= solved.cost);
}

}  // namespace weft::fuzz
