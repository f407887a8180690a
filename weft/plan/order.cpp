// The order of micro-batches on a mesh, and the names of orders.
#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/base/take.h"
#include "weft/plan/plan.h"

namespace weft {
namespace {

constexpr std::int64_t kMostEntries = 10'000'000;

OrderEntry parse_entry(std::string_view word) {
  constexpr std::int64_t kNone = std::numeric_limits<int>::max();  // more than any plan has
  std::string_view rest = word.substr(1);
  const std::int64_t micro_batch = take_number(rest).value_or(kNone);
  const std::int64_t chunk = take(rest, '.') ? take_number(rest).value_or(kNone) : 0;
  const bool known = word[0] == 'F' || word[0] == 'B' || word[0] == 'W';
  require(known && micro_batch < kNone && chunk < kNone && rest.empty(),
          "'{}' is no entry of an order; write F, B or W, a micro-batch and, if the mesh has "
          "several stages, which of them: F3, B0.1",
          word);
  return {.phase = word[0],
          .micro_batch = static_cast<int>(micro_batch),
          .chunk = static_cast<int>(chunk)};
}

}  // namespace

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
