#include "weft/base/random.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/base/hash.h"

namespace weft {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that come with Random123.
TEST(Random, PhiloxMatchesRandom123) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, EveryPartOfAStreamMatters) {
  const RandomStream stream{.seed = 1, .step = 2, .node = 3};
  const std::uint64_t far = 5 + (std::uint64_t{1} << 34U);
  EXPECT_EQ(stream.word(5), (RandomStream{1, 2, 3}.block(1)[1]));
  EXPECT_NE(stream.word(5), (RandomStream{9, 2, 3}.word(5)));
  EXPECT_NE(stream.word(5), (RandomStream{1 + (std::uint64_t{1} << 32U), 2, 3}.word(5)));
  EXPECT_NE(stream.word(5), (RandomStream{1, 9, 3}.word(5)));
  EXPECT_NE(stream.word(5), (RandomStream{1, 2, 9}.word(5)));
  EXPECT_NE(stream.word(5), stream.word(far)) << "indices have 64 bits";
}

TEST(Random, UniformCoversItsInterval) {
  const RandomStream stream{.seed = 7, .step = 0, .node = 0};
  constexpr int count = 20'000;
  double sum = 0;
  for (int i = 0; i < count; ++i) {
    const double u = stream.uniform(static_cast<std::uint64_t>(i));
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
  }
  EXPECT_NEAR(sum / count, 0.5, 4 / std::sqrt(12.0 * count));
}

// Four standard errors of each estimate: 1, sqrt(2), sqrt(96) over sqrt(n) for a normal number.
TEST(Random, NormalHasTheMomentsOfANormal) {
  const RandomStream stream{.seed = 11, .step = 0, .node = 42};
  constexpr int count = 40'000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  int above_one = 0;
  for (int i = 0; i < count; ++i) {
    const double x = normal(stream, static_cast<std::uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += x * x;
    fourths += x * x * x * x;
    above_one += x > 1 ? 1 : 0;
  }
  const double root = std::sqrt(static_cast<double>(count));
  EXPECT_NEAR(sum / count, 0, 4 / root);
  EXPECT_NEAR(squares / count, 1, 4 * std::sqrt(2.0) / root);
  EXPECT_NEAR(fourths / count, 3, 4 * std::sqrt(96.0) / root);
  EXPECT_NEAR(above_one / static_cast<double>(count), 0.158655, 4 * 0.3654 / root);
  EXPECT_EQ(normal(stream, 5), normal(stream, 5));
}

TEST(Hash, IsFnv1a) {
  // Published test vectors of FNV-1a.
  EXPECT_EQ(hash_text(""), 0xcbf29ce484222325U);
  EXPECT_EQ(hash_text("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(hash_text("foobar"), 0x85944171f73967e8U);
  EXPECT_EQ(hash_text("bar", hash_text("foo")), hash_text("foobar"));
  EXPECT_EQ(hash_hex(0xaf63dc4c8601ec8cU), "af63dc4c8601ec8c");
  EXPECT_EQ(hash_hex(1), "0000000000000001");
}

TEST(Errors, CarryWhoHasToAct) {
  const auto blame_of = [](auto function) {
    try {
      function();
    } catch (const Error& error) {
      return error.blame();
    }
    throw std::logic_error("no error");
  };
  EXPECT_NO_THROW(require(true, "fine"));
  EXPECT_EQ(blame_of([] { require(false, "{} is wrong", 3); }), Blame::input);
  EXPECT_EQ(blame_of([] { fail_environment("{}", "disk"); }), Blame::environment);
  EXPECT_EQ(blame_of([] { WEFT_CHECK(1 + 1 == 3); }), Blame::bug);
  try {
    WEFT_CHECK(1 + 1 == 3);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("1 + 1 == 3"), std::string::npos);
  }
}

}  // namespace
}  // namespace weft
