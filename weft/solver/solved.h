#pragma once

#include <nlohmann/json.hpp>

namespace weft {

/// The answer to one search problem, as `weft solve` gives it.
struct Solved {
  double cost = 0;        // of the choice; infinite if none was found
  double bound = 0;       // no choice costs less
  bool exact = false;     // cost equals bound, proved
  double seconds = 0;     // that the search took
  nlohmann::json choice;  // as the problem's own files write it
};

}  // namespace weft
