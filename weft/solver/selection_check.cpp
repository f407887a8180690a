// cost = sum of node costs + sum of edge costs; usage(t) = sum of usages of nodes with begin <= t <
// end. Usage changes only where an interval begins or ends: after sorting these events one pass
// gives the peak. Nothing here is shared with the solver, whose answers it judges.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "weft/solver/selection.h"

namespace weft {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}

std::string wrong_shape(const SelectionProblem& problem, const Selection& selection) {
  if (selection.size() != problem.nodes.size()) {
    return fmt::format("{} strategies for {} nodes", selection.size(), problem.nodes.size());
  }
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const auto count = static_cast<int>(problem.nodes[i].cost.size());
    if (selection[i] < 0 || selection[i] >= count) {
      return fmt::format("node {} has {} strategies, not one with index {}", i, count,
                         selection[i]);
    }
  }
  return {};
}

struct Peak {
  std::int64_t usage = 0;
  std::int64_t time = 0;
};

// Usages are summed in two words, so that what is added can be taken away again exactly.
Peak peak_usage(const SelectionProblem& problem, const Selection& selection) {
  struct Event {
    std::int64_t time = 0;
    std::int64_t usage = 0;
    bool ends = false;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < selection.size(); ++i) {
    const SelectionNode& node = problem.nodes[i];
    if (node.begin < node.end) {
      const std::int64_t usage = node.usage[static_cast<std::size_t>(selection[i])];
      events.push_back({node.begin, usage, false});
      events.push_back({node.end, usage, true});
    }
  }
  std::ranges::sort(events, [](const Event& x, const Event& y) {
    return std::pair(x.time, !x.ends) < std::pair(y.time, !y.ends);  // half-open: ends come first
  });
  constexpr std::int64_t word = std::int64_t{1} << 32;
  std::int64_t high = 0;
  std::int64_t low = 0;
  Peak peak;
  for (const Event& event : events) {
    const std::int64_t sign = event.ends ? -1 : 1;
    high += sign * (event.usage / word);
    low += sign * (event.usage % word);
    std::int64_t usage = 0;
    if (__builtin_mul_overflow(high, word, &usage)) {
      usage = kMost;
    }
    usage = saturating_sum(usage, low);
    if (usage > peak.usage) {
      peak = {usage, event.time};
    }
  }
  return peak;
}

}  // namespace

SelectionCheck check_selection(const SelectionProblem& problem, const Selection& selection) {
  SelectionCheck check;
  check.violation = wrong_shape(problem, selection);
  if (!check.violation.empty()) {
    return check;
  }
  const auto chosen = [&](int node) {
    return static_cast<std::size_t>(selection[static_cast<std::size_t>(node)]);
  };
  for (std::size_t i = 0; i < selection.size(); ++i) {
    check.cost =
        saturating_sum(check.cost, problem.nodes[i].cost[static_cast<std::size_t>(selection[i])]);
  }
  for (const SelectionEdge& edge : problem.edges) {
    const std::size_t columns = problem.nodes[static_cast<std::size_t>(edge.b)].cost.size();
    check.cost = saturating_sum(check.cost, edge.cost[chosen(edge.a) * columns + chosen(edge.b)]);
  }
  const Peak peak = peak_usage(problem, selection);
  check.peak_usage = peak.usage;
  if (problem.usage_limit && peak.usage > *problem.usage_limit) {
    check.violation = fmt::format("usage {} at time {} is more than the limit {}", peak.usage,
                                  peak.time, *problem.usage_limit);
  }
  return check;
}

}  // namespace weft
