// Dead-end elimination (Goldstein) for costs of several kinds.
//
// Value r of variable v is never needed if some value t of v satisfies, for every kind k,
//
//   c_k(t) - c_k(r) + sum over neighbours u of max over s in u of ( w_k(t, s) - w_k(r, s) ) <= 0,
//
// where a forbidden pair costs infinity in every kind, and values s that forbid r do not count: in
// any choice r can then be exchanged for t, at no cost in any kind. With
//
//   low_k(x) = c_k(x) + sum over u of min over s of w_k(x, s)
//
// low_k(t) <= low_k(r) is necessary, since a maximum of differences is at least the difference of
// the minima; it is tested first, and the sum starts from low_k(t) - low_k(r), so that it can stop
// as soon as it is positive. Values are dropped one at a time, so of two equal values one stays.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "weft/solver/choice_core.h"

namespace weft::choice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-13;  // of the largest costs

// Costs of one pair seen from one of its ends, and the least of each row.
struct Side {
  int kind = 0;
  std::size_t columns = 0;
  std::vector<double> cost;  // [value][value of the neighbour]; infinity: forbidden
  std::vector<double> low;   // by value
};

// All that one variable is compared by.
struct View {
  int kinds = 0;
  std::vector<Side> sides;
  std::vector<std::vector<double>> low;  // [value][kind]
  std::vector<double> rounding;          // by kind
};

std::vector<double> side_table(const Costs& costs, const std::vector<double>& kind,
                               std::size_t rows, std::size_t columns, bool turned) {
  std::vector<double> table(rows * columns, 0.0);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t cell = turned ? c * rows + r : r * columns + c;
      const bool forbidden = !costs.forbidden.empty() && costs.forbidden[cell] != 0;
      table[r * columns + c] = forbidden ? kInfinity : kind.empty() ? 0.0 : kind[cell];
    }
  }
  return table;
}

void add_side(Side side, View& view) {
  const std::size_t values = view.low.size();
  double largest = 0;
  for (std::size_t x = 0; x < values; ++x) {
    const auto row = side.cost.begin() + static_cast<std::ptrdiff_t>(x * side.columns);
    const auto end = row + static_cast<std::ptrdiff_t>(side.columns);
    side.low.push_back(*std::min_element(row, end));
    view.low[x][side.kind] += side.low.back();
    for (auto at = row; at != end; ++at) {
      largest = std::max(largest, std::isinf(*at) ? 0.0 : std::abs(*at));
    }
  }
  view.rounding[side.kind] += kRounding * largest;
  view.sides.push_back(std::move(side));
}

// A kind that is all zeros matters only where something is forbidden; one such side is enough.
View view_of(const Core& core, int v, const std::vector<int>& incident) {
  const std::size_t values = core.nodes[v].values.size();
  const auto kinds = static_cast<std::size_t>(core.kinds);
  View view{.kinds = core.kinds, .sides = {}, .low = {}, .rounding = {}};
  view.low.assign(values, std::vector<double>(kinds, 0.0));
  view.rounding.assign(kinds, 0.0);
  const auto add = [&](const Costs& costs, std::size_t columns, bool turned) {
    bool any = false;
    for (std::size_t k = 0; k < kinds; ++k) {
      const bool last_chance = k + 1 == kinds && !any && !costs.forbidden.empty();
      if (!costs.kind[k].empty() || last_chance) {
        add_side({static_cast<int>(k),
                  columns,
                  side_table(costs, costs.kind[k], values, columns, turned),
                  {}},
                 view);
        any = true;
      }
    }
  };
  add(core.nodes[v].costs, 1, false);
  for (const int p : incident) {
    const CorePair& pair = core.pairs[p];
    const bool turned = pair.second == v;
    add(pair.costs, core.nodes[turned ? pair.first : pair.second].values.size(), turned);
  }
  return view;
}

bool possible(const View& view, int x) {
  return std::ranges::none_of(view.low[x], [](double low) { return low == kInfinity; });
}

// max over s of w(t, s) - w(r, s); stops above `most`.
double largest_difference(const double* t, const double* r, std::size_t columns, double most) {
  double largest = -kInfinity;
  for (std::size_t s = 0; s < columns && largest <= most; ++s) {
    const double difference = t[s] - r[s];
    largest = difference > largest ? difference : largest;  // not if both are infinite
  }
  return largest;
}

bool beats(const View& view, int t, int r, std::vector<double>& sum) {
  const std::vector<double>& low_t = view.low[t];
  const std::vector<double>& low_r = view.low[r];
  for (int k = 0; k < view.kinds; ++k) {
    sum[k] = low_t[k] - low_r[k];
    if (sum[k] > view.rounding[k]) {
      return false;
    }
  }
  for (const Side& side : view.sides) {
    const double least = side.low[t] - side.low[r];
    const double room = view.rounding[side.kind] - sum[side.kind] + least;
    const double difference = largest_difference(
        &side.cost[static_cast<std::size_t>(t) * side.columns],
        &side.cost[static_cast<std::size_t>(r) * side.columns], side.columns, room);
    if (difference > room) {
      return false;
    }
    sum[side.kind] += difference - least;
  }
  return true;
}

// Places of the values of v that are needed.
std::vector<int> needed(const Core& core, int v, const std::vector<int>& incident) {
  const View view = view_of(core, v, incident);
  const int values = core.count(v);
  std::vector<char> alive(static_cast<std::size_t>(values), 1);
  std::vector<double> sum(static_cast<std::size_t>(core.kinds));
  int left = values;
  for (int r = 0; r < values && left > 1; ++r) {
    bool dead = !possible(view, r);
    for (int t = 0; t < values && !dead; ++t) {
      dead = t != r && alive[t] != 0 && possible(view, t) && beats(view, t, r, sum);
    }
    alive[r] = static_cast<char>(!dead);
    left -= static_cast<int>(dead);
  }
  std::vector<int> places;
  for (int x = 0; x < values; ++x) {
    if (alive[x] != 0) {
      places.push_back(x);
    }
  }
  return places;
}

}  // namespace

void drop_dead_ends(const std::vector<char>& keep, Core& core) {
  std::vector<std::vector<int>> incident(core.nodes.size());
  for (int p = 0; p < static_cast<int>(core.pairs.size()); ++p) {
    incident[core.pairs[p].first].push_back(p);
    incident[core.pairs[p].second].push_back(p);
  }
  std::vector<char> todo(core.nodes.size(), 1);
  for (bool changed = true; changed;) {
    changed = false;
    for (int v = 0; v < core.size(); ++v) {
      if (todo[v] == 0 || keep[v] != 0 || core.count(v) == 1) {
        continue;
      }
      todo[v] = 0;
      const std::vector<int> places = needed(core, v, incident[v]);
      if (static_cast<int>(places.size()) == core.count(v)) {
        continue;
      }
      restrict_node(v, places, incident[v], core);
      changed = true;
      for (const int p : incident[v]) {
        todo[core.pairs[p].first + core.pairs[p].second - v] = 1;
      }
    }
  }
}

}  // namespace weft::choice
