#pragma once

#include <vector>

#include "weft/solver/eliminate.h"

namespace weft::selection {

/// Lets each node of the block take the strategies whose usage is at most a cap of its own. The
/// caps together fit, so every choice within them does. They start from the usages of `choice`, are
/// lowered where these do not fit and for `squeezed` random nodes, and are then raised in random
/// order as far as there is room. A node whose allowed strategies are all above its cap may take
/// any below it. `choice` must fit outside of what the block can mend.
void cap_usages(const Core& core, const std::vector<int>& choice, int squeezed, Random& random,
                Block& block);

}  // namespace weft::selection
