#include "weft/store/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

namespace weft {
namespace {

std::uint64_t sum_of(std::string_view text, std::uint64_t seed = 0) {
  return checksum(std::as_bytes(std::span(text)), seed);
}

// Figures of `xxhsum -H64` (xxHash 0.8).
TEST(Checksum, IsXxh64) {
  EXPECT_EQ(sum_of(""), 0xef46db3751d8e999ULL);
  EXPECT_EQ(sum_of("a"), 0xd24ec4f1a98c6e5bULL);
  EXPECT_EQ(sum_of("abc"), 0x44bc2cf5ad770999ULL);
  EXPECT_EQ(sum_of("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1ULL);
  EXPECT_NE(sum_of("abc", 1), sum_of("abc"));
}

TEST(Checksum, SeesEveryBit) {
  std::vector<std::byte> bytes(101, std::byte{7});
  const std::uint64_t whole = checksum(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_NE(checksum(bytes), whole) << "byte " << i << " bit " << bit;
      bytes[i] ^= static_cast<std::byte>(1 << bit);
    }
    EXPECT_NE(checksum(std::span(bytes).first(i)), whole);
  }
}

// Time of this thread, so that what else the machine does counts little.
double thread_seconds() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(Checksum, SaysItsSpeed) {
  const std::vector<std::byte> bytes(std::size_t{64} << 20U, std::byte{3});
  double best_s = 1e9;
  for (int i = 0; i < 3; ++i) {
    const double begin = thread_seconds();
    EXPECT_NE(checksum(bytes), 0U);
    best_s = std::min(best_s, thread_seconds() - begin);
  }
  const double speed = static_cast<double>(bytes.size()) / best_s / 1e9;
  RecordProperty("gigabytes_per_second", std::to_string(speed));
  EXPECT_GT(speed, 0.1);  // sanitizers take most of it
}

}  // namespace
}  // namespace weft
