#include "weft/timeline/timeline.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"

namespace weft {
namespace {

using Json = nlohmann::json;

Timeline two_devices() {
  return {.events = {{.device = 0,
                      .lane = Lane::compute,
                      .name = "h.0/\"q\"",
                      .phase = "forward",
                      .micro_batch = 2,
                      .start_s = 0.001,
                      .end_s = 0.0035,
                      .memory_bytes = 700},
                     {.device = 1,
                      .lane = Lane::communication,
                      .name = "all_reduce",
                      .phase = "sync",
                      .micro_batch = -1,
                      .start_s = 0.0015,
                      .end_s = 0.002,
                      .memory_bytes = 500}},
          .step_s = 0.0035,
          .peak_memory_bytes = {1024, 2048, 4096}};
}

std::vector<Json> events_of(const Timeline& timeline, const std::string& kind) {
  std::vector<Json> found;
  const Json trace = Json::parse(chrome_trace(timeline));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == kind) {
      found.push_back(event);
    }
  }
  return found;
}

TEST(ChromeTrace, HasASliceForEachEvent) {
  const std::vector<Json> slices = events_of(two_devices(), "X");
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0], Json::parse(R"({"ph": "X", "pid": 0, "tid": 0, "name": "h.0/\"q\"",
      "cat": "forward", "ts": 1000.0, "dur": 2500.0, "args": {"phase": "forward", "micro_batch": 2}})"));
  EXPECT_EQ(slices[1], Json::parse(R"({"ph": "X", "pid": 1, "tid": 1, "name": "all_reduce",
      "cat": "sync", "ts": 1500.0, "dur": 500.0, "args": {"phase": "sync"}})"));
}

TEST(ChromeTrace, CountsMemoryInOrderOfTime) {
  const std::vector<Json> counters = events_of(two_devices(), "C");
  ASSERT_EQ(counters.size(), 2U);
  EXPECT_EQ(counters[0], Json::parse(R"({"ph": "C", "pid": 1, "name": "memory", "ts": 2000.0,
      "args": {"bytes": 500}})"));
  EXPECT_EQ(counters[1], Json::parse(R"({"ph": "C", "pid": 0, "name": "memory", "ts": 3500.0,
      "args": {"bytes": 700}})"));
}

TEST(ChromeTrace, NamesDevicesAndLanes) {
  std::vector<std::string> names;
  for (const Json& event : events_of(two_devices(), "M")) {
    const std::string what = event.at("name");
    if (what == "process_name" || what == "thread_name") {
      names.push_back(event.at("pid").dump() + "." + event.at("tid").dump() + " " +
                      event.at("args").at("name").get<std::string>());
    }
    if (what == "process_labels" && event.at("pid") == 2) {
      EXPECT_EQ(event.at("args").at("labels"), "peak 4.00 KiB");
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"0.0 device 0", "1.0 device 1", "2.0 device 2",
                                             "0.0 compute", "1.1 communication"}));
}

TEST(ChromeTrace, IsValidWithoutEventsAndWithOddNames) {
  EXPECT_TRUE(Json::parse(chrome_trace({})).at("traceEvents").empty());
  Timeline odd = two_devices();
  odd.events[0].name = "\xff\n\x01";
  EXPECT_EQ(events_of(odd, "X")[0].at("name"), "\xEF\xBF\xBD\n\x01");
  EXPECT_EQ(Json::parse(chrome_trace(odd)).at("otherData").at("step_s"), 0.0035);
}

TEST(ChromeTrace, RefusesTimesThatAreNone) {
  Timeline bad = two_devices();
  bad.events[0].end_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(static_cast<void>(chrome_trace(bad)), Error);
  bad.events[0].end_s = 0;
  EXPECT_THROW(static_cast<void>(chrome_trace(bad)), Error) << "ends before it starts";
}

TEST(ReadTrace, GivesBackWhatWasWritten) {
  const Timeline timeline{.events = {{.device = 1,
                                      .lane = Lane::communication,
                                      .name = "all_reduce w.grad",
                                      .phase = "sync",
                                      .start_s = 0.001,
                                      .end_s = 0.0025},
                                     {.device = 0,
                                      .name = "h.0/fc1",
                                      .phase = "forward",
                                      .micro_batch = 3,
                                      .start_s = 0.002,
                                      .end_s = 0.003}},
                          .step_s = 0.004};
  const Json trace = Json::parse(chrome_trace(timeline, R"({"batch": 4})"));
  EXPECT_EQ(trace["otherData"]["plan"]["batch"], 4);
  const Timeline read = read_chrome_trace(trace, "test");
  EXPECT_EQ(read.step_s, 0.004);
  ASSERT_EQ(read.events.size(), 2);
  EXPECT_EQ(read.events[0].lane, Lane::communication);
  EXPECT_EQ(read.events[0].micro_batch, -1);
  EXPECT_NEAR(read.events[0].end_s, 0.0025, 1e-9);
  EXPECT_EQ(read.events[1].name, "h.0/fc1");
  EXPECT_EQ(read.events[1].micro_batch, 3);
  EXPECT_THROW(static_cast<void>(read_chrome_trace(Json::array(), "test")), Error);
  EXPECT_THROW(static_cast<void>(read_chrome_trace(Json::object(), "test")), Error);
}

}  // namespace
}  // namespace weft
