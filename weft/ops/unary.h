#pragma once

#include <string>
#include <vector>

namespace weft::ops {

/// The names that attribute `function` of op `unary` may have, and of `binary`; in order.
[[nodiscard]] std::vector<std::string> unary_functions();
[[nodiscard]] std::vector<std::string> binary_functions();

}  // namespace weft::ops
