#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

// Readers of short texts such as "n/64:3:1" take them apart from the front.
namespace weft {

/// Takes the character off the front; false if another one, or none, stands there.
bool take(std::string_view& text, char c);
/// Takes digits off the front; nothing if there are none or they are more than 64 bits hold.
[[nodiscard]] std::optional<std::int64_t> take_number(std::string_view& text);

}  // namespace weft
