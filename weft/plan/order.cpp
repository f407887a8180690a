// Which stages share a mesh, and the order of micro-batches on it.
#include <algorithm>
#include <charconv>
#include <set>

#include "weft/base/error.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

constexpr std::int64_t kMostEntries = 10'000'000;

/// A number at the front of the text; -1 if there is none.
int take_number(std::string_view& text) {
  int number = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) {
    return -1;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

OrderEntry parse_entry(std::string_view word) {
  OrderEntry entry{.phase = word.front()};
  std::string_view rest = word.substr(1);
  entry.micro_batch = take_number(rest);
  if (!rest.empty() && rest.front() == '.') {
    rest.remove_prefix(1);
    entry.chunk = take_number(rest);
  }
  const bool known = entry.phase == 'F' || entry.phase == 'B' || entry.phase == 'W';
  require(known && entry.micro_batch >= 0 && entry.chunk >= 0 && rest.empty(),
          "'{}' is no entry of an order; write F, B or W, a micro-batch and, if the mesh has "
          "several stages, which of them: F3, B0.1",
          word);
  return entry;
}

}  // namespace

std::vector<PlanMesh> meshes(const Plan& plan) {
  std::vector<PlanMesh> result;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Mesh& mesh = plan.stages[s].mesh;
    auto it = std::ranges::find(result, mesh, &PlanMesh::mesh);
    if (it == result.end()) {
      it = result.insert(it, PlanMesh{.mesh = mesh, .stages = {}});
    }
    it->stages.push_back(static_cast<int>(s));
  }
  return result;
}

std::vector<DeviceId> used_devices(const Plan& plan) {
  std::set<DeviceId> devices;
  for (const StagePlan& stage : plan.stages) {
    devices.insert(stage.mesh.devices.begin(), stage.mesh.devices.end());
  }
  return {devices.begin(), devices.end()};
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = {"gpipe", "1f1b",        "zb-h1", "zb-h2",
                                                 "zb-v",  "interleaved", "listed"};
  return names;
}

std::vector<OrderEntry> parse_order(std::string_view text) {
  std::vector<OrderEntry> order;
  while (true) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) {
      return order;
    }
    text.remove_prefix(begin);
    const std::string_view word = text.substr(0, text.find(' '));
    order.push_back(parse_entry(word));
    require(static_cast<std::int64_t>(order.size()) <= kMostEntries,
            "an order has more than {} entries", kMostEntries);
    text.remove_prefix(word.size());
  }
}

std::string format_order(const std::vector<OrderEntry>& order) {
  std::string text;
  for (const OrderEntry& entry : order) {
    text += fmt::format("{}{}{}{}", text.empty() ? "" : " ", entry.phase, entry.micro_batch,
                        entry.chunk > 0 ? fmt::format(".{}", entry.chunk) : "");
  }
  return text;
}

bool has_weight_phase(const Plan& plan) {
  return plan.schedule.starts_with("zb-") ||
         (plan.schedule == "listed" && std::ranges::any_of(plan.order, [](const std::string& text) {
            return text.find('W') != std::string::npos;
          }));
}

}  // namespace weft
