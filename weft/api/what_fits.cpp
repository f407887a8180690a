#include "weft/api/what_fits.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "weft/base/units.h"
#include "weft/cluster/cluster.h"
#include "weft/search/search_plans.h"

namespace weft {
namespace {

constexpr int kBudgetSteps = 4;  // halvings of the interval in which the smallest budget lies
constexpr int kMostDevices = 8192;

std::int64_t peak_of(const Candidate& candidate) {
  return *std::ranges::max_element(candidate.peak_memory_bytes);
}

// The leanest of the plans that fit; nothing if none does.
std::optional<Candidate> find(const Setup& setup, const Task& task, const PlanLimits& limits) {
  const CostModel cost(task.cluster);
  std::optional<Candidate> best;
  for (Candidate& c : search_plans(task, setup.training, setup.ops, cost, limits, {}).candidates) {
    if (c.fits && (!best || peak_of(c) < peak_of(*best))) {
      best = std::move(c);
    }
  }
  return best;
}

std::int64_t budget_of(const Task& task) {
  return *std::ranges::min_element(task.memory_budget_bytes);
}

// Between the budget, which is too small, and what the leanest plan uses, which is enough.
std::int64_t smallest_budget(const Setup& setup, const PlanLimits& limits,
                             const Candidate& leanest) {
  std::int64_t low = budget_of(setup.task);
  std::int64_t high = peak_of(leanest);
  Task task = setup.task;
  for (int i = 0; i < kBudgetSteps && high - low > high / 50; ++i) {
    const std::int64_t middle = low + (high - low) / 2;
    task.memory_budget_bytes.assign(task.memory_budget_bytes.size(), middle);
    const std::optional<Candidate> found = find(setup, task, limits);
    (found ? high : low) = found ? std::min(middle, peak_of(*found)) : middle;
  }
  return high;
}

// "2x8xA100-80GB" as its parts; nothing for others.
struct Shorthand {
  int hosts = 1;
  int devices = 1;
  std::string type;
};
std::optional<Shorthand> shorthand(const Cluster& cluster) {
  const nlohmann::json json = cluster_to_json(cluster);
  if (!json.is_string()) {
    return std::nullopt;
  }
  const auto text = json.get<std::string>();
  const std::size_t first = text.find('x');
  const std::size_t second = text.find('x', first + 1);
  if (first == std::string::npos || text.find('+') != std::string::npos ||
      text.starts_with("local")) {
    return std::nullopt;
  }
  Shorthand result;
  const bool both =
      second != std::string::npos && text.find_first_not_of("0123456789", first + 1) == second;
  result.hosts = both ? std::atoi(text.c_str()) : 1;
  result.devices = std::atoi(text.c_str() + (both ? first + 1 : 0));
  result.type = text.substr((both ? second : first) + 1);
  return result;
}

void find_cluster(const Setup& setup, const PlanLimits& limits, WhatFits& result) {
  std::optional<Shorthand> parts = shorthand(setup.task.cluster);
  const std::int64_t budget = budget_of(setup.task);
  while (parts && parts->hosts * parts->devices * 2 <= kMostDevices) {
    (parts->devices < 8 && parts->hosts == 1 ? parts->devices : parts->hosts) *= 2;
    const std::string text = fmt::format("{}x{}x{}", parts->hosts, parts->devices, parts->type);
    Task task = setup.task;
    task.cluster = parse_cluster(text);
    task.memory_budget_bytes.assign(task.cluster.devices.size(), budget);
    if (find(setup, task, limits)) {
      result.devices = parts->hosts * parts->devices;
      result.cluster = text;
      return;
    }
  }
}

}  // namespace

WhatFits what_fits(const Setup& setup, const PlanLimits& limits, const Candidate& leanest) {
  WhatFits result;
  result.budget_bytes = smallest_budget(setup, limits, leanest);
  find_cluster(setup, limits, result);
  Task task = setup.task;
  while (task.batch > 1) {
    task.batch /= 2;
    if (find(setup, task, limits)) {
      result.batch = task.batch;
      break;
    }
  }
  return result;
}

std::string what_fits_text(const WhatFits& fits) {
  std::vector<std::string> ways;
  if (fits.budget_bytes) {
    ways.push_back(fmt::format("with a budget of {} for each device",
                               format_bytes(static_cast<double>(*fits.budget_bytes))));
  }
  if (fits.devices) {
    ways.push_back(fmt::format("on {} devices (--cluster {})", *fits.devices, fits.cluster));
  }
  if (fits.batch) {
    ways.push_back(fmt::format("with --batch {}", *fits.batch));
  }
  return ways.empty() ? "" : fmt::format("; it would fit {}", fmt::join(ways, ", or "));
}

}  // namespace weft
