#include "weft/solver/selection_core.h"

#include <algorithm>
#include <map>

namespace weft::selection {
namespace {

// Lines (rows or columns) with the same numbers get the same class; classes are numbered in the
// order in which they appear.
int classify(const std::vector<double>& cost, std::size_t lines, bool rows,
             std::vector<std::uint16_t>& classes) {
  const std::size_t length = cost.size() / lines;
  std::map<std::vector<double>, int> known;
  classes.resize(lines);
  std::vector<double> line(length);
  for (std::size_t i = 0; i < lines; ++i) {
    for (std::size_t j = 0; j < length; ++j) {
      line[j] = rows ? cost[i * length + j] : cost[j * lines + i];
    }
    const auto it = known.try_emplace(line, static_cast<int>(known.size())).first;
    classes[i] = static_cast<std::uint16_t>(it->second);
  }
  return static_cast<int>(known.size());
}

CoreEdge to_core_edge(const PairEdge& edge, std::size_t rows, std::size_t columns) {
  CoreEdge made;
  made.count_a = classify(edge.cost, rows, true, made.class_a);
  made.count_b = classify(edge.cost, columns, false, made.class_b);
  made.cost.resize(static_cast<std::size_t>(made.count_a) * made.count_b);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      made.cost[static_cast<std::size_t>(made.class_a[i]) * made.count_b + made.class_b[j]] =
          edge.cost[i * columns + j];
    }
  }
  return made;
}

}  // namespace

Core to_core(const Pairwise& problem, const std::vector<FoldedNode>& folded) {
  Core core;
  core.capacity = problem.capacity;
  core.forbidden = problem.forbidden;
  std::vector<int> place(problem.nodes.size(), 0);
  for (const FoldedNode& f : folded) {
    place[f.node] = -1;
  }
  for (std::size_t i = 0; i < problem.nodes.size(); ++i) {
    if (place[i] == 0) {
      place[i] = core.size();
      const PairNode& node = problem.nodes[i];
      CoreNode made{.node = static_cast<int>(i),
                    .cost = node.cost,
                    .usage = node.usage,
                    .levels = node.usage,
                    .first = node.first,
                    .last = node.last};
      std::ranges::sort(made.levels);
      made.levels.erase(std::unique(made.levels.begin(), made.levels.end()), made.levels.end());
      core.nodes.push_back(std::move(made));
    }
  }
  core.incident.resize(core.nodes.size());
  for (const PairEdge& edge : problem.edges) {
    CoreEdge made =
        to_core_edge(edge, problem.nodes[edge.a].cost.size(), problem.nodes[edge.b].cost.size());
    made.a = place[edge.a];
    made.b = place[edge.b];
    core.incident[made.a].push_back(static_cast<int>(core.edges.size()));
    core.incident[made.b].push_back(static_cast<int>(core.edges.size()));
    core.edges.push_back(std::move(made));
  }
  return core;
}

double cost_of(const Core& core, const std::vector<int>& choice) {
  double cost = 0;
  for (int i = 0; i < core.size(); ++i) {
    cost += core.nodes[i].cost[choice[i]];
  }
  for (const CoreEdge& edge : core.edges) {
    cost += edge.at(choice[edge.a], choice[edge.b]);
  }
  return cost;
}

std::vector<std::int64_t> excess_of(const Core& core, const std::vector<int>& choice) {
  std::vector<std::int64_t> excess(core.capacity.size() + 1, 0);
  for (int i = 0; i < core.size(); ++i) {
    const CoreNode& node = core.nodes[i];
    excess[node.first] += node.bound() ? node.usage[choice[i]] : 0;
    excess[node.last] -= node.bound() ? node.usage[choice[i]] : 0;
  }
  for (std::size_t t = 1; t < excess.size(); ++t) {
    excess[t] += excess[t - 1];
  }
  excess.pop_back();
  for (std::size_t t = 0; t < excess.size(); ++t) {
    excess[t] -= core.capacity[t];
  }
  return excess;
}

bool fits(const Core& core, const std::vector<int>& choice) {
  return std::ranges::all_of(excess_of(core, choice), [](std::int64_t e) { return e <= 0; });
}

}  // namespace weft::selection
