#include "weft/launch/fault.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Fault, StrikesAtItsPlaceOnce) {
  Fault fault(parse_fault("exception@rank=1,step=2,phase=backward"), 1, 0);
  fault.at(1, "backward");
  fault.at(2, "forward");
  EXPECT_THROW(fault.at(2, "backward"), Error);
  fault.at(2, "backward");
}

TEST(Fault, SparesOtherRanksAndOtherAttempts) {
  const FaultSpec spec = parse_fault("exception@rank=1,phase=load,restart=1");
  Fault other_rank(spec, 0, 1);
  other_rank.at(0, "load");
  Fault other_attempt(spec, 1, 0);
  other_attempt.at(0, "load");
  Fault mine(spec, 1, 1);
  EXPECT_THROW(mine.at(7, "load"), Error);
}

TEST(Fault, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"", "kill", "boom@phase=load", "kill@rank=1", "kill@phase",
                           "kill@phase=load,step=x", "kill@phase=load,when=now"}) {
    EXPECT_THROW(static_cast<void>(parse_fault(text)), Error) << text;
  }
}

}  // namespace
}  // namespace weft
