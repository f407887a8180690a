#include "weft/launch/cause.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Cause, TheBetterOneIsKeptAndOfEqualOnesTheFirst) {
  std::optional<Cause> known;
  add_cause(known, {.cls = 2, .rank = 0, .text = "a peer failed"});
  EXPECT_FALSE(is_settled(*known));
  add_cause(known, {.cls = 1, .rank = 2, .text = "left"});
  EXPECT_EQ(known->rank, 2);
  EXPECT_FALSE(is_settled(*known));
  const auto first_heard = known->at;
  add_cause(known, {.cls = 0, .rank = 1, .text = "out of memory"});
  add_cause(known, {.cls = 0, .rank = 3, .text = "out of memory too"});
  EXPECT_EQ(known->rank, 1);
  EXPECT_EQ(known->at, first_heard);
  EXPECT_TRUE(is_settled(*known));
}

}  // namespace
}  // namespace weft
