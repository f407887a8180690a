// For graphs too wide for elimination: a dual bound, values that it rules out, depth-first search.
//
// Moving costs between a pair's table and its two variables changes no choice's total, and the sum
// of the minima of all tables is a bound on each. A handshake over pair (u, v) pushes what u and v
// have into the table and gives it back in equal min-marginals (MPLP++); the bound never falls.
// With price p of memory and cap M, the bound is that of time + p * memory, minus p * M.
//
// A value whose cost at its variable is above the least one by more than (best known) - bound is
// not part of a better choice. If what is left can be eliminated, it is, and the answer is exact.
// Otherwise the search assigns variables one by one (first the one with the fewest values left),
// adds the rows of its pairs to its neighbours, and bounds by the sum of all minima.

#include "weft/solver/choice_wide.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/solver/choice_labels.h"
#include "weft/solver/choice_tree.h"

namespace weft::choice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-9;
constexpr double kMostWork = 4e8;  // values looked at while branching
constexpr int kMostSweeps = 200;
constexpr double kEnough = 1e-6;  // a gain of the bound that is worth another ten sweeps

struct WidePair {
  int first = 0;
  int second = 0;
  std::vector<double> cost = {};    // priced; what was moved
  std::vector<double> memory = {};  // as it is
};

// Costs in one number; what is forbidden costs more than any choice that is not.
struct Wide {
  std::vector<std::vector<double>> cost;
  std::vector<std::vector<double>> memory;
  std::vector<WidePair> pairs;
  std::vector<std::vector<int>> incident;
  double forbidden = 0;  // totals from here on have something forbidden
};

std::vector<double> kind_of(const Costs& costs, int kind, std::size_t cells) {
  std::vector<double> table = costs.kind[kind];
  table.resize(cells, 0.0);
  return table;
}

double spread(const std::vector<double>& table) {
  const auto [low, high] = std::ranges::minmax(table);
  return high - low;
}

Wide make_wide(const Core& core, double price) {
  Wide wide;
  wide.incident.resize(core.nodes.size());
  const auto priced = [&](const Costs& costs, std::size_t cells) {
    std::vector<double> table = kind_of(costs, 0, cells);
    const std::vector<double> memory = kind_of(costs, 1, cells);
    for (std::size_t i = 0; i < cells; ++i) {
      const bool forbidden = !costs.forbidden.empty() && costs.forbidden[i] != 0;
      table[i] = forbidden ? 0.0 : table[i] + price * memory[i];
    }
    return table;
  };
  double all = 1;
  double least = 0;
  const auto count = [&](const std::vector<double>& table) {
    all += spread(table);
    least += std::ranges::max(table);
  };
  for (const CoreNode& node : core.nodes) {
    wide.cost.push_back(priced(node.costs, node.values.size()));
    wide.memory.push_back(kind_of(node.costs, 1, node.values.size()));
    count(wide.cost.back());
  }
  for (const CorePair& pair : core.pairs) {
    const std::size_t cells =
        static_cast<std::size_t>(core.count(pair.first)) * core.count(pair.second);
    wide.incident[pair.first].push_back(static_cast<int>(wide.pairs.size()));
    wide.incident[pair.second].push_back(static_cast<int>(wide.pairs.size()));
    wide.pairs.push_back(
        {pair.first, pair.second, priced(pair.costs, cells), kind_of(pair.costs, 1, cells)});
    count(wide.pairs.back().cost);
  }
  // Any choice costs at most `least` = the sum of maxima; one with a forbidden cell costs more.
  const double penalty = 2 * all;
  wide.forbidden = least + 0.5 * all;
  const auto forbid = [&](const Costs& costs, std::vector<double>& table) {
    for (std::size_t i = 0; i < costs.forbidden.size(); ++i) {
      table[i] += costs.forbidden[i] != 0 ? penalty : 0.0;
    }
  };
  for (std::size_t v = 0; v < core.nodes.size(); ++v) {
    forbid(core.nodes[v].costs, wide.cost[v]);
  }
  for (std::size_t p = 0; p < core.pairs.size(); ++p) {
    forbid(core.pairs[p].costs, wide.pairs[p].cost);
  }
  return wide;
}

void handshake(WidePair& pair, std::vector<double>& first, std::vector<double>& second) {
  const std::size_t columns = second.size();
  std::vector<double> given(columns, kInfinity);
  for (std::size_t i = 0; i < first.size(); ++i) {
    double* row = &pair.cost[i * columns];
    double least = kInfinity;
    for (std::size_t j = 0; j < columns; ++j) {
      row[j] += first[i] + second[j];
      least = std::min(least, row[j]);
    }
    first[i] = 0.5 * least;
    for (std::size_t j = 0; j < columns; ++j) {
      row[j] -= first[i];
      given[j] = std::min(given[j], row[j]);
    }
  }
  second = given;
  for (std::size_t i = 0; i < first.size(); ++i) {
    double* row = &pair.cost[i * columns];
    double least = kInfinity;
    for (std::size_t j = 0; j < columns; ++j) {
      row[j] -= given[j];
      least = std::min(least, row[j]);
    }
    first[i] += least;
    for (std::size_t j = 0; j < columns; ++j) {
      row[j] -= least;
    }
  }
}

double bound_of(const Wide& wide) {
  double bound = 0;
  for (const std::vector<double>& node : wide.cost) {
    bound += std::ranges::min(node);
  }
  for (const WidePair& pair : wide.pairs) {
    bound += std::ranges::min(pair.cost);
  }
  return bound;
}

double ascend(Wide& wide) {
  double bound = bound_of(wide);
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    for (std::size_t n = 0; n < wide.pairs.size(); ++n) {
      WidePair& pair = wide.pairs[sweep % 2 == 0 ? n : wide.pairs.size() - 1 - n];
      handshake(pair, wide.cost[pair.first], wide.cost[pair.second]);
    }
    if (sweep % 10 == 9) {
      const double now = bound_of(wide);
      if (now - bound <= kEnough * std::abs(now)) {
        return std::max(bound, now);
      }
      bound = now;
    }
  }
  return std::max(bound, bound_of(wide));
}

// Depth-first search over what the dual left.
class Branch {
 public:
  Branch(const Wide& wide, double cap, double most_nodes)
      : wide_(wide),
        cap_(cap),
        left_(most_nodes),
        cost_(wide.cost),
        memory_(wide.memory),
        choice_(wide.cost.size(), -1) {
    for (const WidePair& pair : wide.pairs) {
      least_cost_.push_back(std::ranges::min(pair.cost));
      least_memory_.push_back(std::ranges::min(pair.memory));
    }
  }

  /// Looks for a choice with a total below `best`; `evaluate` gives that of one. True if there is
  /// no better one than found().
  template <typename Evaluate>
  bool run(double best, const Evaluate& evaluate) {
    best_ = best;
    step(0, std::reduce(least_cost_.begin(), least_cost_.end()),
         std::reduce(least_memory_.begin(), least_memory_.end()), evaluate);
    return left_ > 0;
  }

  [[nodiscard]] const std::vector<int>& found() const { return found_; }

 private:
  [[nodiscard]] double bound(double cost, const std::vector<std::vector<double>>& table) const {
    for (std::size_t v = 0; v < table.size(); ++v) {
      cost += choice_[v] >= 0 ? 0.0 : std::ranges::min(table[v]);
    }
    return cost;
  }

  // The variable with the fewest values that may still be better; of equal ones the first.
  [[nodiscard]] int next_variable(double total) const {
    int next = -1;
    std::ptrdiff_t fewest = 0;
    for (std::size_t v = 0; v < cost_.size(); ++v) {
      if (choice_[v] >= 0) {
        continue;
      }
      const double most = best_ - total + std::ranges::min(cost_[v]);
      const auto values = std::ranges::count_if(cost_[v], [&](double c) { return c < most; });
      if (next < 0 || values < fewest) {
        next = static_cast<int>(v);
        fewest = values;
      }
    }
    return next;
  }

  // Adds or takes away the rows of the pairs of v to its neighbours without a value.
  void assign(int v, int value, double sign) {
    for (const int p : wide_.incident[v]) {
      const WidePair& pair = wide_.pairs[p];
      const int u = pair.first == v ? pair.second : pair.first;
      if (choice_[u] >= 0) {
        continue;
      }
      const std::size_t columns = cost_[pair.second].size();
      for (std::size_t x = 0; x < cost_[u].size(); ++x) {
        const std::size_t cell = pair.first == v ? value * columns + x : x * columns + value;
        cost_[u][x] += sign * (pair.cost[cell] - least_cost_[p]);
        memory_[u][x] += sign * (pair.memory[cell] - least_memory_[p]);
      }
    }
  }

  template <typename Evaluate>
  void step(std::size_t depth, double cost, double memory, const Evaluate& evaluate) {
    if (depth == choice_.size()) {
      const double total = evaluate(choice_);
      if (total < best_) {
        best_ = total;
        found_ = choice_;
      }
      return;
    }
    if (--left_ <= 0) {
      return;
    }
    const double total = bound(cost, cost_);
    const double most = best_ - kRounding * std::abs(best_);
    if (total >= most || bound(memory, memory_) > cap_ + kRounding * std::abs(cap_)) {
      return;
    }
    const int v = next_variable(total);
    std::vector<int> order(cost_[v].size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](int x) { return cost_[v][x]; });
    const double least = cost_[v][order[0]];
    for (const int x : order) {
      const double mine = cost_[v][x];
      if (total + mine - least >= most) {
        break;
      }
      choice_[v] = x;
      assign(v, x, 1);
      step(depth + 1, cost + mine, memory + memory_[v][x], evaluate);
      assign(v, x, -1);
      choice_[v] = -1;
    }
  }

  const Wide& wide_;
  double cap_;
  double left_;  // nodes
  double best_ = kInfinity;
  std::vector<std::vector<double>> cost_;
  std::vector<std::vector<double>> memory_;
  std::vector<int> choice_;
  std::vector<int> found_;
  std::vector<double> least_cost_;  // by pair
  std::vector<double> least_memory_;
};

// Time of a choice; infinite if it is forbidden or above the cap.
double time_within(const Core& core, const std::vector<int>& choice, double cap) {
  double time = 0;
  double memory = 0;
  bool forbidden = false;
  const auto add = [&](const Costs& costs, std::size_t cell) {
    time += costs.kind[0].empty() ? 0.0 : costs.kind[0][cell];
    memory += costs.kind[1].empty() ? 0.0 : costs.kind[1][cell];
    forbidden = forbidden || (!costs.forbidden.empty() && costs.forbidden[cell] != 0);
  };
  for (std::size_t v = 0; v < core.nodes.size(); ++v) {
    add(core.nodes[v].costs, static_cast<std::size_t>(choice[v]));
  }
  for (const CorePair& pair : core.pairs) {
    add(pair.costs, static_cast<std::size_t>(choice[pair.first]) * core.count(pair.second) +
                        choice[pair.second]);
  }
  if (forbidden || memory > cap) {
    return kInfinity;
  }
  return time;
}

// Time of one value of v given the others.
double local_time(const Core& core, const Wide& wide, const std::vector<int>& choice, int v,
                  int value) {
  double time = 0;
  const auto add = [&](const Costs& costs, std::size_t cell) {
    time += costs.kind[0].empty() ? 0.0 : costs.kind[0][cell];
    if (!costs.forbidden.empty() && costs.forbidden[cell] != 0) {
      time = kInfinity;
    }
  };
  add(core.nodes[v].costs, static_cast<std::size_t>(value));
  for (const int p : wide.incident[v]) {
    const CorePair& pair = core.pairs[p];
    const int first = pair.first == v ? value : choice[pair.first];
    const int second = pair.second == v ? value : choice[pair.second];
    add(pair.costs, static_cast<std::size_t>(first) * core.count(pair.second) + second);
  }
  return time;
}

// Changes single variables while that saves time and stays within the cap.
void descend(const Core& core, const Wide& wide, double cap, std::vector<int>& choice) {
  if (choice.empty()) {
    return;
  }
  std::vector<int> next = choice;
  double least = time_within(core, choice, cap);
  for (bool changed = true; changed;) {
    changed = false;
    for (int v = 0; v < core.size(); ++v) {
      const double now = local_time(core, wide, choice, v, choice[v]);
      for (int x = 0; x < core.count(v); ++x) {
        if (local_time(core, wide, choice, v, x) >= now - kRounding * std::abs(now)) {
          continue;
        }
        next[v] = x;
        const double time = time_within(core, next, cap);
        if (time < least - kRounding * std::abs(least)) {
          least = time;
          choice[v] = x;
          changed = true;
        }
        next[v] = choice[v];
      }
    }
  }
}

// Places of the values that may be part of a choice whose total is at most `gap` above the bound.
std::vector<std::vector<int>> places_within(const Wide& wide, double gap) {
  std::vector<std::vector<int>> places;
  for (const std::vector<double>& node : wide.cost) {
    const double least = std::ranges::min(node);
    std::vector<int>& left = places.emplace_back();
    for (std::size_t x = 0; x < node.size(); ++x) {
      if (node[x] - least <= gap) {
        left.push_back(static_cast<int>(x));
      }
    }
  }
  return places;
}

// Solves what is left exactly if it can be eliminated; false if not. `choice` stays if there is
// nothing better.
bool eliminate_rest(const Core& core, const std::vector<std::vector<int>>& places,
                    const LabelLimits& limits, std::vector<int>& choice) {
  const Core rest = two_kinds(core, places, std::vector{1.0, 0.0}, std::vector{0.0, 1.0});
  Tree tree(rest, {});
  if (tree.too_wide()) {
    return false;
  }
  tree.fill();
  tree.weigh(std::vector{1.0, 0.0}, std::vector{0.0, 1.0}, {});
  std::vector<int> found;
  if (tree.up(1, limits.price) < kInfinity && std::isinf(limits.cap)) {
    found = tree.decode();
  } else if (!std::isinf(limits.cap)) {
    static_cast<void>(tree.down());
    LabelAnswer answer = cheapest_by_labels(tree, limits);
    if (!answer.complete) {
      return false;
    }
    found = std::move(answer.choice);
  }
  for (std::size_t v = 0; v < found.size(); ++v) {
    found[v] = places[v][found[v]];
  }
  if (!found.empty() && (choice.empty() || time_within(core, found, limits.cap) <
                                               time_within(core, choice, limits.cap))) {
    choice = std::move(found);
  }
  return true;
}

}  // namespace

WideAnswer cheapest_wide(const Core& core, const WideLimits& limits,
                         const std::vector<int>& start) {
  Wide wide = make_wide(core, limits.price);
  const double paid = limits.price > 0 ? limits.price * limits.cap : 0.0;
  const double bound = ascend(wide);
  if (bound >= wide.forbidden) {
    return {.choice = {}, .bound = kInfinity};
  }
  const auto total = [&](const std::vector<int>& choice) {
    return choice.empty() ? kInfinity : time_within(core, choice, limits.cap) + paid;
  };
  double values = 1;
  for (const std::vector<double>& node : wide.cost) {
    values += static_cast<double>(node.size());
  }
  WideAnswer answer{.choice = start, .bound = bound - paid};
  bool proved = false;
  const auto branch = [&](double most_nodes) {
    Branch search(wide, limits.cap, std::min(most_nodes, kMostWork / values));
    proved = search.run(std::min(total(answer.choice), wide.forbidden), total);
    answer.choice = search.found().empty() ? answer.choice : search.found();
    descend(core, wide, limits.cap, answer.choice);
  };
  branch(2.0 * static_cast<double>(wide.cost.size()) + 1000);
  if (!proved && !answer.choice.empty()) {
    const double most = total(answer.choice) + kRounding * std::abs(total(answer.choice));
    const LabelLimits labels{limits.price, most, limits.cap, limits.most_labels};
    proved = eliminate_rest(core, places_within(wide, most - bound), labels, answer.choice);
  }
  if (!proved) {
    branch(limits.most_nodes);
  }
  if (proved) {
    answer.bound = total(answer.choice) - paid;
  }
  return answer;
}

}  // namespace weft::choice
