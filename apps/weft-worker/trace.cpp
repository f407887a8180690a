#include "trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "weft/base/file.h"
#include "weft/runtime/communicator.h"

namespace weft {
namespace {

using nlohmann::json;

std::string part_path(const std::string& path, int rank) {
  return fmt::format("{}.rank-{}", path, rank);
}

json to_json(const Timeline& timeline) {
  json events = json::array();
  for (const Event& e : timeline.events) {
    events.push_back({e.device, static_cast<int>(e.lane), e.name, e.phase, e.micro_batch, e.start_s,
                      e.end_s, e.memory_bytes});
  }
  return {{"events", std::move(events)},
          {"step_s", timeline.step_s},
          {"peak_memory_bytes", timeline.peak_memory_bytes}};
}

void add(Timeline& all, const json& part) {
  for (const json& e : part.at("events")) {
    all.events.push_back({.device = e[0],
                          .lane = static_cast<Lane>(e[1].get<int>()),
                          .name = e[2],
                          .phase = e[3],
                          .micro_batch = e[4],
                          .start_s = e[5],
                          .end_s = e[6],
                          .memory_bytes = e[7]});
  }
  all.step_s = std::max(all.step_s, part.at("step_s").get<double>());
  const auto peaks = part.at("peak_memory_bytes").get<std::vector<std::int64_t>>();
  all.peak_memory_bytes.resize(std::max(all.peak_memory_bytes.size(), peaks.size()), 0);
  for (std::size_t d = 0; d < peaks.size(); ++d) {
    all.peak_memory_bytes[d] = std::max(all.peak_memory_bytes[d], peaks[d]);
  }
}

}  // namespace

void write_trace(const std::string& path, const Timeline& mine, const Plan& plan,
                 Communicator& communicator) {
  write_file(part_path(path, communicator.rank()), to_json(mine).dump());
  communicator.barrier();
  if (communicator.rank() == 0) {
    Timeline all;
    for (int rank = 0; rank < communicator.world(); ++rank) {
      add(all, read_json(part_path(path, rank)));
      std::filesystem::remove(part_path(path, rank));
    }
    std::ranges::stable_sort(all.events, [](const Event& a, const Event& b) {
      return std::tuple(a.start_s, a.device, a.lane) < std::tuple(b.start_s, b.device, b.lane);
    });
    write_file(path, chrome_trace(all, format_plan(plan)));
  }
}

}  // namespace weft
