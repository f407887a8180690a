#include "weft/base/random.h"

#include <cmath>
#include <numbers>

namespace weft {
namespace {

// The upper 53 bits of two words, as many as a double holds.
double fraction(std::uint32_t high, std::uint32_t low, double offset) {
  const std::uint64_t bits = (std::uint64_t{high} << 32U | low) >> 11U;
  return (static_cast<double>(bits) + offset) * 0x1p-53;
}

}  // namespace

// Box–Muller: sqrt(-2 ln u) cos(2 pi v) is standard normal for uniform u in (0, 1] and v in [0, 1).
// Each element spends a whole block, so it needs no partner and long tails are reached.
double normal(const RandomStream& stream, std::uint64_t element) {
  const std::array<std::uint32_t, 4> words = stream.block(element);
  const double u = fraction(words[0], words[1], 1.0);  // never 0: the logarithm stays finite
  const double v = fraction(words[2], words[3], 0.0);
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

}  // namespace weft
