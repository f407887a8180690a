#include "weft/solver/choice_core.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

namespace weft::choice {
namespace {

// Adds tables of `rows` x `columns` cells, turned if their first variable is our second.
void add_costs(const std::vector<std::vector<float>>& from, std::size_t rows, std::size_t columns,
               bool turned, Costs& to) {
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k].empty()) {
      continue;
    }
    std::vector<double>& table = to.kind[k];
    table.resize(rows * columns, 0.0);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        const float cost = from[k][turned ? c * rows + r : r * columns + c];
        if (std::isinf(cost)) {
          to.forbidden.resize(rows * columns, 0);
          to.forbidden[r * columns + c] = 1;
        } else {
          table[r * columns + c] += static_cast<double>(cost);
        }
      }
    }
  }
}

template <typename T>
void take_cells(const std::vector<int>& rows, const std::vector<int>& columns,
                std::size_t old_columns, std::vector<T>& table) {
  if (table.empty()) {
    return;
  }
  std::size_t to = 0;
  for (const int r : rows) {
    for (const int c : columns) {
      table[to++] = table[static_cast<std::size_t>(r) * old_columns + c];
    }
  }
  table.resize(to);
}

void take_cells(const std::vector<int>& rows, const std::vector<int>& columns,
                std::size_t old_columns, Costs& costs) {
  for (std::vector<double>& table : costs.kind) {
    take_cells(rows, columns, old_columns, table);
  }
  take_cells(rows, columns, old_columns, costs.forbidden);
}

// Cells of a table that are left.
std::vector<std::size_t> cells_left(const std::vector<int>& rows, const std::vector<int>& columns,
                                    int old_columns) {
  std::vector<std::size_t> cells;
  for (const int r : rows) {
    for (const int c : columns) {
      cells.push_back(static_cast<std::size_t>(r) * old_columns + c);
    }
  }
  return cells;
}

std::vector<double> weighted(const Costs& costs, const std::vector<std::size_t>& cells,
                             std::span<const double> weights) {
  std::vector<double> sum;
  for (std::size_t k = 0; k < costs.kind.size(); ++k) {
    if (costs.kind[k].empty() || weights[k] == 0) {
      continue;
    }
    sum.resize(cells.size(), 0.0);
    for (std::size_t i = 0; i < cells.size(); ++i) {
      sum[i] += weights[k] * costs.kind[k][cells[i]];
    }
  }
  return sum;
}

}  // namespace

Core make_core(const ChoiceProblem& problem) {
  Core core{.kinds = problem.kinds, .nodes = {}, .pairs = {}};
  const auto kinds = static_cast<std::size_t>(problem.kinds);
  const auto count = [&](int v) { return static_cast<std::size_t>(problem.values[v]); };
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    CoreNode& node = core.nodes.emplace_back();
    for (int x = 0; x < problem.values[v]; ++x) {
      node.values.push_back(x);
    }
    node.costs.kind.resize(kinds);
    if (!problem.cost.empty()) {
      add_costs(problem.cost[v], 1, node.values.size(), false, node.costs);
    }
  }
  std::map<std::pair<int, int>, std::size_t> place;
  for (const ChoicePair& pair : problem.pairs) {
    const auto [first, second] = std::minmax(pair.first, pair.second);
    const auto [at, fresh] = place.try_emplace({first, second}, core.pairs.size());
    if (fresh) {
      core.pairs.push_back({first, second, {.kind = std::vector<std::vector<double>>(kinds)}});
    }
    add_costs(pair.cost, count(first), count(second), pair.first != first,
              core.pairs[at->second].costs);
  }
  return core;
}

void restrict_node(int variable, const std::vector<int>& places, const std::vector<int>& incident,
                   Core& core) {
  for (const int p : incident) {
    CorePair& pair = core.pairs[p];
    std::vector<int> all(
        core.nodes[pair.first == variable ? pair.second : pair.first].values.size());
    std::iota(all.begin(), all.end(), 0);
    take_cells(pair.first == variable ? places : all, pair.first == variable ? all : places,
               core.nodes[pair.second].values.size(), pair.costs);
  }
  CoreNode& node = core.nodes[variable];
  take_cells({0}, places, node.values.size(), node.costs);
  take_cells({0}, places, node.values.size(), node.values);
}

Core two_kinds(const Core& core, const std::vector<std::vector<int>>& places,
               std::span<const double> weights, std::span<const double> limit) {
  Core result{.kinds = 2, .nodes = {}, .pairs = {}};
  const auto convert = [&](const Costs& costs, const std::vector<std::size_t>& cells) {
    Costs two{{weighted(costs, cells, weights), weighted(costs, cells, limit)}, {}};
    if (!costs.forbidden.empty()) {
      for (const std::size_t cell : cells) {
        two.forbidden.push_back(costs.forbidden[cell]);
      }
    }
    return two;
  };
  for (int v = 0; v < core.size(); ++v) {
    const CoreNode& node = core.nodes[v];
    CoreNode& to = result.nodes.emplace_back();
    for (const int place : places[v]) {
      to.values.push_back(node.values[place]);
    }
    to.costs = convert(node.costs, cells_left({0}, places[v], core.count(v)));
  }
  for (const CorePair& pair : core.pairs) {
    const std::vector<std::size_t> cells =
        cells_left(places[pair.first], places[pair.second], core.count(pair.second));
    result.pairs.push_back({pair.first, pair.second, convert(pair.costs, cells)});
  }
  return result;
}

std::vector<std::vector<int>> all_places(const Core& core,
                                         std::span<const std::pair<int, int>> fixed) {
  std::vector<std::vector<int>> places;
  for (int v = 0; v < core.size(); ++v) {
    places.emplace_back(core.nodes[v].values.size());
    std::iota(places.back().begin(), places.back().end(), 0);
  }
  for (const auto& [variable, place] : fixed) {
    places[variable] = {place};
  }
  return places;
}

}  // namespace weft::choice
