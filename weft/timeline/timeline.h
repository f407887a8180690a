#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace weft {

enum class Lane : std::uint8_t { compute, communication, transfer };

struct Event {
  int device = 0;
  Lane lane = Lane::compute;
  std::string name = {};   // what ran: a node's name, "all_reduce wte/weight.grad"
  std::string phase = {};  // "forward", "backward", "sync", …
  int micro_batch = -1;    // -1: once a step
  double start_s = 0;
  double end_s = 0;
  std::int64_t memory_bytes = 0;  // in use on the device when it ends
};

/// When what ran and how much memory was used; predicted or measured.
struct Timeline {
  std::vector<Event> events = {};  // by start, then device, then lane
  double step_s = 0;
  std::vector<double> compute_s = {};  // by device: how long its compute lane was busy
  std::vector<std::int64_t> peak_memory_bytes = {};  // by device
};

/// Chrome/Perfetto trace: a process for each device, a thread for each lane, a memory counter.
/// `plan` is the JSON of the plan that ran; it stands beside the events, so that a trace explains
/// itself.
[[nodiscard]] std::string chrome_trace(const Timeline& timeline, const std::string& plan = "null");
/// The events and the step's time of such a trace. Throws Error{input}; `where` is the file's name.
[[nodiscard]] Timeline read_chrome_trace(const nlohmann::json& trace, const std::string& where);

}  // namespace weft
