#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/numerics/harness.h"

namespace weft {

/// Cases of the mixture-of-experts ops and of the tables of positions.
[[nodiscard]] std::vector<OpCase> moe_cases();
/// Replaces drawn inputs by probabilities, choices and counts where these ops need them.
void set_moe_inputs(const OpCase& c, Tensors& inputs);
void add_moe_references(std::map<std::string, Reference>& table);

}  // namespace weft
