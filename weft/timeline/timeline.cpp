// The trace event format, as chrome://tracing and ui.perfetto.dev read it: one JSON object with a
// list of events. Times are microseconds; three decimals keep nanoseconds.
#include "weft/timeline/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/units.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 3> kLanes = {"compute", "communication", "transfer"};

// Quotes included. Bytes that are not UTF-8 are replaced: a trace with an odd name is better than
// none.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(double seconds) {
  WEFT_CHECK(std::isfinite(seconds));
  return fmt::format("{:.3f}", seconds * 1e6);
}

int device_count(const Timeline& timeline) {
  int count = static_cast<int>(timeline.peak_memory_bytes.size());
  for (const Event& event : timeline.events) {
    WEFT_CHECK(event.device >= 0);
    count = std::max(count, event.device + 1);
  }
  return count;
}

std::string metadata(int device, int thread, std::string_view what, const std::string& args) {
  return fmt::format(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", device, thread,
                     what, args);
}

// Names of devices and lanes, and the order in which they are shown.
void describe_devices(const Timeline& timeline, std::vector<std::string>& lines) {
  std::set<std::pair<int, int>> lanes;
  for (const Event& event : timeline.events) {
    lanes.emplace(event.device, static_cast<int>(event.lane));
  }
  for (int device = 0; device < device_count(timeline); ++device) {
    lines.push_back(
        metadata(device, 0, "process_name", fmt::format(R"("name":"device {}")", device)));
    lines.push_back(
        metadata(device, 0, "process_sort_index", fmt::format(R"("sort_index":{})", device)));
    const auto index = static_cast<std::size_t>(device);
    if (index < timeline.peak_memory_bytes.size()) {
      const auto peak = static_cast<double>(timeline.peak_memory_bytes[index]);
      lines.push_back(metadata(device, 0, "process_labels",
                               fmt::format(R"("labels":"peak {}")", format_bytes(peak))));
    }
  }
  for (const auto& [device, lane] : lanes) {
    lines.push_back(
        metadata(device, lane, "thread_name", fmt::format(R"("name":"{}")", kLanes.at(lane))));
    lines.push_back(
        metadata(device, lane, "thread_sort_index", fmt::format(R"("sort_index":{})", lane)));
  }
}

std::string slice(const Event& event) {
  WEFT_CHECK(event.end_s >= event.start_s);
  std::string args = R"("phase":)" + json_text(event.phase);
  if (event.micro_batch >= 0) {
    args += fmt::format(R"(,"micro_batch":{})", event.micro_batch);
  }
  return fmt::format(
      R"({{"ph":"X","pid":{},"tid":{},"name":{},"cat":{},"ts":{},"dur":{},"args":{{{}}}}})",
      event.device, static_cast<int>(event.lane), json_text(event.name), json_text(event.phase),
      microseconds(event.start_s), microseconds(event.end_s - event.start_s), args);
}

// Memory is known where events end, which is another order than that of the events.
void count_memory(const Timeline& timeline, std::vector<std::string>& lines) {
  std::vector<const Event*> by_end;
  by_end.reserve(timeline.events.size());
  for (const Event& event : timeline.events) {
    by_end.push_back(&event);
  }
  std::ranges::stable_sort(
      by_end, {}, [](const Event* event) { return std::pair(event->end_s, event->device); });
  for (const Event* event : by_end) {
    lines.push_back(
        fmt::format(R"({{"ph":"C","pid":{},"name":"memory","ts":{},"args":{{"bytes":{}}}}})",
                    event->device, microseconds(event->end_s), event->memory_bytes));
  }
}

}  // namespace

std::string chrome_trace(const Timeline& timeline, const std::string& plan) {
  std::vector<std::string> lines;
  describe_devices(timeline, lines);
  for (const Event& event : timeline.events) {
    lines.push_back(slice(event));
  }
  count_memory(timeline, lines);
  WEFT_CHECK(std::isfinite(timeline.step_s));
  const std::string with_plan = plan == "null" ? "" : ",\"plan\":" + plan;
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"step_s\":{}{}}},\"traceEvents\":[\n{}\n]}}\n",
      timeline.step_s, with_plan, fmt::join(lines, ",\n"));
}

Timeline read_chrome_trace(const nlohmann::json& trace, const std::string& where) {
  Timeline timeline;
  try {
    timeline.step_s = trace.at("otherData").at("step_s").get<double>();
    for (const nlohmann::json& line : trace.at("traceEvents")) {
      if (line.at("ph") != "X") {
        continue;
      }
      const int lane = line.at("tid").get<int>();
      require(lane >= 0 && lane < static_cast<int>(kLanes.size()), "{}: there is no lane {}", where,
              lane);
      Event event{.device = line.at("pid").get<int>(),
                  .lane = static_cast<Lane>(lane),
                  .name = line.at("name").get<std::string>(),
                  .phase = line.at("args").at("phase").get<std::string>(),
                  .micro_batch = line.at("args").value("micro_batch", -1),
                  .start_s = 1e-6 * line.at("ts").get<double>()};
      event.end_s = event.start_s + 1e-6 * line.at("dur").get<double>();
      timeline.events.push_back(std::move(event));
    }
  } catch (const nlohmann::json::exception& error) {
    require(false, "{} is no trace that weft wrote: {}", where, error.what());
  }
  return timeline;
}

}  // namespace weft
