#include "weft/plan/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

TEST(Devices, TextFormGoesBothWays) {
  const std::vector<std::pair<std::vector<DeviceId>, const char*>> cases = {
      {{}, ""}, {{3}, "3"}, {{0, 1, 2, 3}, "0-3"}, {{4, 5, 2, 3, 9}, "4-5,2-3,9"}, {{1, 0}, "1,0"}};
  for (const auto& [devices, text] : cases) {
    EXPECT_EQ(format_devices(devices), text);
    EXPECT_EQ(parse_devices(text), devices);
  }
}

TEST(Devices, BadTextIsRefused) {
  for (const char* text : {",", "1,", "a", "3-1", "-1", "1--2", "01", " 1", "0-9999999999",
                           "0-999999,0-999999", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_devices(text)), Error) << text;
  }
}

TEST(Names, RunsAreShortened) {
  EXPECT_THAT(shorten_names({"wte", "h.0", "h.1", "h.2", "h.4", "x.5", "ln"}),
              ElementsAre("wte", "h.0..h.2", "h.4", "x.5", "ln"));
  EXPECT_THAT(shorten_names({"h.9", "h.10"}), ElementsAre("h.9..h.10"));
  EXPECT_THAT(shorten_names({"h.01", "h.02"}), ElementsAre("h.01", "h.02"));
  EXPECT_THAT(shorten_names({"1", "2"}), ElementsAre("1..2"));
  EXPECT_THAT(shorten_names({"h.2", "h.1"}), ElementsAre("h.2", "h.1"));
}

TEST(Names, EntriesAreExpanded) {
  std::vector<std::string> names;
  for (const char* entry : {"wte", "h.9..h.11", "h.1..h.1"}) {
    append_names(entry, names);
  }
  EXPECT_THAT(names, ElementsAre("wte", "h.9", "h.10", "h.11", "h.1"));
  for (const char* bad : {"h.2..h.1", "h.1..x.2", "h..h", "..", "h.0..h.99999999", "h.01..h.02",
                          "h.0..h.99999999999999999999", "h.0..h.9223372036854775807"}) {
    EXPECT_THROW(append_names(bad, names), Error) << bad;
  }
  const std::string prefix(1000, 'h');
  EXPECT_THROW(append_names(prefix + "0.." + prefix + "9", names), Error);
  append_names("h.9223372036854775806..h.9223372036854775807", names);
  EXPECT_EQ(names.back(), "h.9223372036854775807");
}

}  // namespace
}  // namespace weft
