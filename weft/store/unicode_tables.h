#pragma once

#include <cstdint>
#include <span>

namespace weft {

struct CodeRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};
struct CombiningRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  std::uint32_t combining_class = 0;
};
struct Decomposition {
  std::uint32_t code = 0;
  std::uint32_t first = 0;
  std::uint32_t second = 0;    // 0: none
  std::uint32_t composes = 0;  // 1: NFC makes `code` of the two again
};

/// Sorted; what is in no range has not the property. Hangul syllables are not in the
/// decompositions.
[[nodiscard]] std::span<const CodeRange> letter_ranges();      // \p{L}
[[nodiscard]] std::span<const CodeRange> number_ranges();      // \p{N}
[[nodiscard]] std::span<const CodeRange> nfc_unsafe_ranges();  // NFC may change it or join it
[[nodiscard]] std::span<const CombiningRange> combining_ranges();
[[nodiscard]] std::span<const Decomposition> decompositions();

}  // namespace weft
