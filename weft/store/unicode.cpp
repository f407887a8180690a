#include "weft/store/unicode.h"

#include <algorithm>
#include <array>
#include <span>

#include "weft/store/unicode_tables.h"

namespace weft {

namespace {

template <typename Range>
const Range* find_range(std::span<const Range> ranges, std::uint32_t code) {
  const auto after = std::ranges::upper_bound(ranges, code, {}, &Range::first);
  if (after == ranges.begin() || (after - 1)->last < code) {
    return nullptr;
  }
  return &*(after - 1);
}

bool is_ascii_letter(std::uint32_t code) {
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}

// The least code that may be written in so many bytes: shorter texts have one form only.
constexpr std::array<std::uint32_t, 5> kLeastCode = {0, 0, 0x80, 0x800, 0x10000};

}  // namespace

Character character_at(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) {
    return {.code = lead, .bytes = 1};
  }
  const std::size_t bytes = lead < 0xC0   ? 0
                            : lead < 0xE0 ? 2
                            : lead < 0xF0 ? 3
                            : lead < 0xF8 ? 4
                                          : 0;
  if (bytes == 0 || text.size() - position < bytes) {
    return {.code = kInvalidCode, .bytes = 1};
  }
  std::uint32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) {
      return {.code = kInvalidCode, .bytes = 1};
    }
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool valid =
      code >= kLeastCode[bytes] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  return valid ? Character{.code = code, .bytes = bytes}
               : Character{.code = kInvalidCode, .bytes = 1};
}

void append_utf8(std::uint32_t code, std::string& text) {
  const auto push = [&](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    push(code);
    return;
  }
  if (code < 0x800) {
    push(0xC0U | code >> 6U);
  } else {
    if (code < 0x10000) {
      push(0xE0U | code >> 12U);
    } else {
      push(0xF0U | code >> 18U);
      push(0x80U | (code >> 12U & 0x3FU));
    }
    push(0x80U | (code >> 6U & 0x3FU));
  }
  push(0x80U | (code & 0x3FU));
}

bool is_letter(std::uint32_t code) {
  return code < 0x80 ? is_ascii_letter(code) : find_range(letter_ranges(), code) != nullptr;
}

bool is_number(std::uint32_t code) {
  return code < 0x80 ? code >= '0' && code <= '9' : find_range(number_ranges(), code) != nullptr;
}

bool is_space(std::uint32_t code) {
  return (code >= 9 && code <= 13) || code == ' ' || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

}  // namespace weft
