#pragma once

#include <string_view>

namespace weft {

/// `*` matches any run of characters, everything else itself. Takes |pattern| * |name| steps at
/// most.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

}  // namespace weft
