#pragma once

#include <functional>

#include "weft/solver/selection_search.h"

namespace weft::selection {

/// Looks at all choices that the dual does not rule out, at most `most_nodes` steps. True if
/// `best`, which it replaces by what is cheaper, is then proved to be the cheapest that fits.
[[nodiscard]] bool branch(const Core& core, const Dual& dual, std::int64_t most_nodes,
                          const std::function<bool()>& stop, Found& best);

}  // namespace weft::selection
