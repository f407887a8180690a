#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "commands.h"
#include "weft/base/units.h"
#include "weft/cluster/catalogue.h"
#include "weft/report/table.h"

namespace weft {
namespace {

double best_flops(const DeviceType& type, const char* narrow) {
  const auto it = type.flops_per_s.find(narrow);
  const auto half = type.flops_per_s.find("f16");
  if (it != type.flops_per_s.end()) {
    return it->second;
  }
  return half == type.flops_per_s.end() ? 0 : half->second;
}

std::vector<CatalogueEntry> all_entries() {
  std::vector<CatalogueEntry> entries(catalogue().begin(), catalogue().end());
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  entries.push_back(this_cpu(cores));
  return entries;
}

void print_json(const std::vector<CatalogueEntry>& entries) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const CatalogueEntry& e : entries) {
    list.push_back({{"name", e.type.name},
                    {"flops", e.type.flops_per_s},
                    {"memory_bytes", e.type.memory_bytes},
                    {"memory_bandwidth", e.type.memory_bandwidth},
                    {"reserved_bytes", e.type.reserved_bytes},
                    {"efficiency", e.type.efficiency},
                    {"launch_seconds", e.type.launch_s},
                    {"link_bandwidth", e.device_link_bandwidth},
                    {"link_latency_seconds", e.device_link_latency_s},
                    {"network_bandwidth", e.network_bandwidth},
                    {"network_latency_seconds", e.network_latency_s},
                    {"source", e.source}});
  }
  fmt::print("{}\n", list.dump(2));
}

int list_devices(bool json) {
  const std::vector<CatalogueEntry> entries = all_entries();
  if (json) {
    print_json(entries);
    return kDone;
  }
  Table table{.header = {"name", "bf16/f16", "f32", "memory", "bandwidth", "kept back", "in a host",
                         "between hosts"},
              .right = {1, 2, 3, 4, 5, 6, 7}};
  for (const CatalogueEntry& e : entries) {
    const double half = best_flops(e.type, "bf16");
    const double full = best_flops(e.type, "f32");
    table.rows.push_back(
        {e.type.name, half > 0 ? format_flops(half) : "-", full > 0 ? format_flops(full) : "-",
         format_bytes(e.type.memory_bytes), format_bandwidth(e.type.memory_bandwidth),
         format_bytes(e.type.reserved_bytes), format_bandwidth(e.device_link_bandwidth),
         e.network_bandwidth > 0 ? format_bandwidth(e.network_bandwidth) : "-"});
  }
  fmt::print(
      "{}\n'cpu' is this machine, read from the operating system. Sources and latencies: --json.\n",
      format_table(table));
  return kDone;
}

}  // namespace

void add_devices(CLI::App& app, Command& run) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("devices", "the catalogue of devices");
  command->add_flag("--json", *json, "as JSON, with sources");
  command->callback([&run, json] { run = [json] { return list_devices(*json); }; });
}

}  // namespace weft
