#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// FNV-1a, 64 bits. The same on every machine, so it may be written to files.
[[nodiscard]] constexpr std::uint64_t hash_text(std::string_view text,
                                                std::uint64_t seed = 14695981039346656037ULL) {
  std::uint64_t h = seed;
  for (const char c : text) {
    h = (h ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return h;
}

[[nodiscard]] std::string hash_hex(std::uint64_t hash);

}  // namespace weft
