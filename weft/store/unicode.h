#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// A character of UTF-8 text. A byte that begins no valid character is one by itself, with code
/// kInvalidCode.
struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};
inline constexpr std::uint32_t kInvalidCode = 0xFFFFFFFF;

/// The character at `position`, which is below the size.
[[nodiscard]] Character character_at(std::string_view text, std::size_t position);
void append_utf8(std::uint32_t code, std::string& text);

[[nodiscard]] bool is_letter(std::uint32_t code);  // \p{L}
[[nodiscard]] bool is_number(std::uint32_t code);  // \p{N}
[[nodiscard]] bool is_space(std::uint32_t code);   // \s

/// Whether NFC may change the text; almost all texts are told apart in one pass.
[[nodiscard]] bool needs_nfc(std::string_view text);
/// Canonical composition. Bytes that are no UTF-8 stay as they are.
[[nodiscard]] std::string to_nfc(std::string_view text);

}  // namespace weft
