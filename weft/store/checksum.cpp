// XXH64 by Yann Collet: four lanes take 8 bytes each of every 32, so that four multiplications are
// under way at once: lane = rotl(lane + word · P2, 31) · P1. The lanes are merged, the rest of less
// than 32 bytes is mixed in, and the last lines spread every bit over all others.
#include "weft/store/checksum.h"

#include <bit>
#include <cstring>
#include <initializer_list>

namespace weft {
namespace {

constexpr std::uint64_t kP1 = 0x9E3779B185EBCA87ULL;
constexpr std::uint64_t kP2 = 0xC2B2AE3D27D4EB4FULL;
constexpr std::uint64_t kP3 = 0x165667B19E3779F9ULL;
constexpr std::uint64_t kP4 = 0x85EBCA77C2B2AE63ULL;
constexpr std::uint64_t kP5 = 0x27D4EB2F165667C5ULL;
constexpr std::size_t kStripe = 32;
static_assert(std::endian::native == std::endian::little, "words are read as they lie");

template <typename Word>
std::uint64_t word_at(const std::byte* at) {
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kP2, 31) * kP1;
}

std::uint64_t mix_rest(std::uint64_t hash, const std::byte* at, std::size_t left) {
  for (; left >= 8; left -= 8, at += 8) {
    hash = std::rotl(hash ^ round(0, word_at<std::uint64_t>(at)), 27) * kP1 + kP4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ (word_at<std::uint32_t>(at) * kP1), 23) * kP2 + kP3;
    at += 4;
    left -= 4;
  }
  for (; left > 0; --left, ++at) {
    hash = std::rotl(hash ^ (word_at<std::uint8_t>(at) * kP5), 11) * kP1;
  }
  return hash;
}

}  // namespace

std::uint64_t checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = seed + kP5;
  if (left >= kStripe) {
    std::uint64_t a = seed + kP1 + kP2;
    std::uint64_t b = seed + kP2;
    std::uint64_t c = seed;
    std::uint64_t d = seed - kP1;
    for (; left >= kStripe; left -= kStripe, at += kStripe) {
      a = round(a, word_at<std::uint64_t>(at));
      b = round(b, word_at<std::uint64_t>(at + 8));
      c = round(c, word_at<std::uint64_t>(at + 16));
      d = round(d, word_at<std::uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const std::uint64_t lane : {a, b, c, d}) {
      hash = (hash ^ round(0, lane)) * kP1 + kP4;
    }
  }
  hash = mix_rest(hash + bytes.size(), at, left);
  hash = (hash ^ (hash >> 33U)) * kP2;
  hash = (hash ^ (hash >> 29U)) * kP3;
  return hash ^ (hash >> 32U);
}

}  // namespace weft
