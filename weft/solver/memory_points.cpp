// A point of time matters only if the nodes that live there could break the limit together, and if
// they are not all alive at another point too. Nodes are intervals of points, so the sets that no
// other contains are those of points where some node begins and which some node does not survive:
// at any other point the neighbour before or behind has the same nodes and perhaps more.

#include <algorithm>

#include "weft/solver/selection_pairs.h"

namespace weft::selection {
namespace {

bool settled(const PairNode& node) {
  return std::ranges::all_of(node.usage, [&](std::int64_t u) { return u == node.usage[0]; });
}

// Points where some node begins since the last end, and behind which some node ends.
std::vector<char> largest_sets(const Pairwise& problem) {
  const std::size_t points = problem.capacity.size();
  std::vector<char> begins(points + 1, 0);
  std::vector<char> ends(points + 1, 0);
  for (const PairNode& node : problem.nodes) {
    if (node.first < node.last && std::ranges::max(node.usage) > 0) {
      begins[node.first] = 1;
      ends[node.last] = 1;
    }
  }
  std::vector<char> result(points, 0);
  bool grew = false;
  for (std::size_t t = 0; t < points; ++t) {
    grew = begins[t] != 0 || (grew && ends[t] == 0);
    result[t] = static_cast<char>(grew && ends[t + 1] != 0);
  }
  return result;
}

// Points whose capacity the largest usages together exceed.
std::vector<char> breakable(const Pairwise& problem) {
  const std::size_t points = problem.capacity.size();
  std::vector<std::int64_t> most(points + 1, 0);
  for (const PairNode& node : problem.nodes) {
    if (node.first < node.last) {
      most[node.first] += std::ranges::max(node.usage);
      most[node.last] -= std::ranges::max(node.usage);
    }
  }
  std::vector<char> result(points, 0);
  std::int64_t sum = 0;
  for (std::size_t t = 0; t < points; ++t) {
    sum += most[t];
    result[t] = static_cast<char>(sum > problem.capacity[t]);
  }
  return result;
}

void keep_points(Pairwise& problem, const std::vector<char>& keep) {
  std::vector<std::int64_t> capacity;
  std::vector<int> before(keep.size() + 1, 0);  // points kept
  for (std::size_t t = 0; t < keep.size(); ++t) {
    before[t + 1] = before[t] + (keep[t] != 0 ? 1 : 0);
    if (keep[t] != 0) {
      capacity.push_back(problem.capacity[t]);
    }
  }
  problem.capacity = std::move(capacity);
  for (PairNode& node : problem.nodes) {
    node.first = before[node.first];
    node.last = before[node.last];
  }
}

}  // namespace

void keep_largest_sets(Pairwise& problem) {
  keep_points(problem, largest_sets(problem));
}

void settle_memory(Pairwise& problem) {
  keep_points(problem, breakable(problem));
  for (PairNode& node : problem.nodes) {
    if (node.first < node.last && settled(node)) {
      for (int t = node.first; t < node.last; ++t) {
        problem.capacity[t] -= node.usage[0];
      }
      node.last = node.first;
    }
  }
}

}  // namespace weft::selection
