// Prices and caps over one problem.
//
// g(p) = min over choices of weights·cost + p * limit·cost is concave and piecewise linear in the
// price p; its pieces are the corners of the lower convex hull of (limit·cost, weights·cost). The
// price at which two known corners tie either shows a new corner between them or proves that there
// is none. For a cap M this finds the p with the greatest dual bound g(p) - p * M.
//
// From there on the search is exact. With min-marginals at that price, a choice within the cap that
// is better than the best known one (its weights·cost is U) has a priced total of at most U + p *
// M, so its values all have min-marginals up to there: reduced costs of at most U - (g(p) - p * M).
// A radius below that gap is tried first, then larger ones: each round searches all choices whose
// priced total is within the radius, by labels, so it may lower U, and proves that what it has not
// seen costs at least bound + radius. It ends when the radius is as large as the gap.

#include "weft/solver/choice_solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "weft/base/error.h"
#include "weft/solver/choice_core.h"
#include "weft/solver/choice_labels.h"
#include "weft/solver/choice_price.h"
#include "weft/solver/choice_tree.h"
#include "weft/solver/choice_wide.h"

namespace weft {
namespace {

using choice::kNoise;
using Fixed = std::span<const std::pair<int, int>>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kFirstRadius = 1.0 / 256;
constexpr double kRadiusGrowth = 4;
constexpr int kMostPrices = 60;
constexpr int kMostNodes = 1 << 16;  // of a search in a wide graph
constexpr int kFewNodes = 1 << 11;   // of one of many
constexpr double kTiePrice = 1e-5;   // of the price that matters
constexpr double kTieRounding = 1e-9;
constexpr double kCapRounding = 4e-12;  // by how much sums in another order may be off

double dot(std::span<const double> weights, const std::vector<double>& cost) {
  double sum = 0;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    sum += weights[k] * cost[k];
  }
  return sum;
}

// A choice, where it lies in the plane of the two costs, and a bound on the priced total for which
// it was found.
struct Corner {
  std::vector<int> choice = {};
  std::vector<double> cost = {};
  double time = kInfinity;
  double memory = kInfinity;
  double least = kInfinity;
};

// How far a total of float32 sums may be off.
double noise(const choice::Tree& tree, double total) {
  return kNoise * std::abs(total - tree.priced_base());
}

using Dual = choice::Dual<Corner>;

ChoiceAnswer to_answer(const Corner& corner, double bound) {
  return {.choice = corner.choice, .cost = corner.cost, .total = corner.time, .bound = bound};
}

}  // namespace

struct ChoiceSolver::State {
  ChoiceProblem problem;
  std::vector<char> keep;
  choice::Core core;
  std::unique_ptr<choice::Tree> tree;
  bool wide = false;
  int wide_nodes = kMostNodes;
  std::map<std::pair<int, int>, std::unique_ptr<choice::Tree>> tables;  // by roots

  // The question at hand.
  std::vector<double> weights;
  std::vector<double> limit;
  std::vector<std::pair<int, int>> fixed;  // places of values

  void build();
  void keep_also(const std::vector<int>& variables);
  void ask(std::span<const double> new_weights, std::span<const double> new_limit, Fixed values);
  Corner corner(const std::vector<int>& choice, double time, double memory, double least) const;
  Corner solve(double time, double memory) const;
  Corner solve_wide(double time, double memory) const;
  std::vector<int> problem_values(const choice::Core& from, const std::vector<int>& places) const;

  void break_ties(Corner& fastest, Corner& smallest) const;
  void search(double cap, int most_labels, Dual& dual) const;
  bool search_radius(const std::vector<std::vector<float>>& least, double radius, double cap,
                     int most_labels, Dual& dual) const;
  void search_wide(double cap, int most_labels, Dual& dual) const;
};

void ChoiceSolver::State::build() {
  tables.clear();
  core = choice::make_core(problem);
  choice::drop_dead_ends(keep, core);
  tree = std::make_unique<choice::Tree>(core, std::vector<int>{});
  wide = tree->too_wide();
  if (!wide) {
    tree->fill();
  }
}

// Values of these variables are asked for by name. If some were dropped, all is built again.
void ChoiceSolver::State::keep_also(const std::vector<int>& variables) {
  bool again = false;
  for (const int v : variables) {
    require(v >= 0 && v < core.size(), "choice: variable {} of {}", v, core.size());
    again = again || (keep[v] == 0 && core.count(v) < problem.values[v]);
    keep[v] = 1;
  }
  if (again) {
    build();
  }
}

void ChoiceSolver::State::ask(std::span<const double> new_weights,
                              std::span<const double> new_limit, Fixed values) {
  const auto kinds = static_cast<std::size_t>(problem.kinds);
  require(new_weights.size() == kinds && (new_limit.empty() || new_limit.size() == kinds),
          "choice: {} weights for {} kinds of cost", new_weights.size(), kinds);
  for (const std::span<const double> list : {new_weights, new_limit}) {
    require(std::ranges::all_of(list, [](double w) { return w >= 0 && w < kInfinity; }),
            "choice: a weight is negative or not finite");
  }
  wide_nodes = kMostNodes;
  weights.assign(new_weights.begin(), new_weights.end());
  limit.assign(new_limit.begin(), new_limit.end());
  limit.resize(kinds, 0.0);
  std::vector<int> variables;
  for (const auto& [variable, value] : values) {
    variables.push_back(variable);
  }
  keep_also(variables);
  fixed.clear();
  for (const auto& [variable, value] : values) {
    require(value >= 0 && value < problem.values[variable], "choice: value {} of variable {}",
            value, variable);
    fixed.emplace_back(variable, value);
  }
  if (!wide) {
    tree->weigh(weights, limit, fixed);
  }
}

std::vector<int> ChoiceSolver::State::problem_values(const choice::Core& from,
                                                     const std::vector<int>& places) const {
  std::vector<int> choice;
  for (std::size_t v = 0; v < places.size(); ++v) {
    choice.push_back(from.nodes[v].values[places[v]]);
  }
  return choice;
}

Corner ChoiceSolver::State::corner(const std::vector<int>& choice, double time, double memory,
                                   double least) const {
  Corner result{.choice = choice, .cost = choice_cost(problem, choice)};
  result.time = dot(weights, result.cost);
  result.memory = dot(limit, result.cost);
  result.least = std::min(least, time * result.time + memory * result.memory);
  return result;
}

// The choice of least time * weights·cost + memory * limit·cost.
Corner ChoiceSolver::State::solve(double time, double memory) const {
  if (wide) {
    return solve_wide(time, memory);
  }
  const double total = tree->up(time, memory);
  if (!(total < kInfinity)) {
    return {};
  }
  return corner(problem_values(core, tree->decode()), time, memory, total - noise(*tree, total));
}

// As above; the bound is as good as message passing makes it.
Corner ChoiceSolver::State::solve_wide(double time, double memory) const {
  std::vector<double> sum = weights;
  for (std::size_t k = 0; k < sum.size(); ++k) {
    sum[k] = time * weights[k] + memory * limit[k];
  }
  const choice::Core priced =
      two_kinds(core, all_places(core, fixed), sum, std::vector<double>(sum.size(), 0.0));
  const choice::WideAnswer answer =
      choice::cheapest_wide(priced, {.price = 0, .cap = kInfinity, .most_nodes = wide_nodes}, {});
  if (answer.choice.empty()) {
    return {.choice = {}, .cost = {}, .least = answer.bound};
  }
  return corner(problem_values(priced, answer.choice), time, memory, answer.bound);
}

// One round: all choices whose priced total is within the radius of the least one. False if that
// needs too many labels.
bool ChoiceSolver::State::search_radius(const std::vector<std::vector<float>>& least, double radius,
                                        double cap, int most_labels, Dual& dual) const {
  std::vector<std::vector<int>> places;
  for (const std::vector<float>& values : least) {
    const auto smallest = static_cast<double>(std::ranges::min(values));
    std::vector<int>& left = places.emplace_back();
    for (std::size_t x = 0; x < values.size(); ++x) {
      if (static_cast<double>(values[x]) - smallest <= radius) {
        left.push_back(static_cast<int>(x));
      }
    }
  }
  choice::Core rest = two_kinds(core, places, weights, limit);
  choice::drop_dead_ends(std::vector<char>(places.size(), 0), rest);
  choice::Tree small(rest, {});
  if (small.too_wide()) {
    return false;
  }
  small.fill();
  small.weigh(std::vector{1.0, 0.0}, std::vector{0.0, 1.0}, {});
  const double total = small.up(1, dual.price);
  static_cast<void>(small.down());
  for (const double slack : {0.0, kCapRounding}) {
    const choice::LabelAnswer answer = choice::cheapest_by_labels(
        small, {.price = dual.price,
                .most_total = std::min(dual.best.time + dual.price * cap, total + radius) +
                              2 * noise(small, total),
                .cap = cap - slack * std::abs(cap),
                .most_labels = most_labels});
    if (!answer.complete) {
      return false;
    }
    if (answer.choice.empty()) {
      break;
    }
    Corner found = corner(problem_values(rest, answer.choice), 1, 0, kInfinity);
    if (found.memory <= cap) {
      dual.best = found.time < dual.best.time ? std::move(found) : dual.best;
      break;
    }
  }
  return true;
}

void ChoiceSolver::State::search(double cap, int most_labels, Dual& dual) const {
  const double total = tree->up(1, dual.price);
  const double error = 2 * noise(*tree, total);
  const double bound = total - dual.price * cap;
  const std::vector<std::vector<float>> least = tree->down();
  for (double radius = kFirstRadius * (dual.best.time - bound);; radius *= kRadiusGrowth) {
    const double gap = std::max(0.0, dual.best.time - bound) + error;
    const bool last = radius * 2 >= gap;
    radius = last ? gap : std::max(radius, error);
    if (!search_radius(least, radius + error, cap, most_labels, dual)) {
      return;
    }
    if (last || radius >= dual.best.time - bound + error) {
      dual.bound = dual.best.time;
      return;
    }
    dual.bound = std::max(dual.bound, std::min(dual.best.time, bound + radius - error));
  }
}

// Of the fastest choices one with little memory, of those with least memory a fast one: the best at
// prices near zero and near infinity, if they lose nothing.
void ChoiceSolver::State::break_ties(Corner& fastest, Corner& smallest) const {
  const double slope = (smallest.time - fastest.time) / (fastest.memory - smallest.memory);
  if (!(slope > 0 && slope < kInfinity)) {
    return;
  }
  Corner near = solve(1, kTiePrice * slope);
  if (near.time <= fastest.time + kTieRounding * std::abs(fastest.time)) {
    fastest = std::move(near);
  }
  near = solve(1, slope / kTiePrice);
  if (near.memory <= smallest.memory + kTieRounding * std::abs(smallest.memory)) {
    smallest = std::move(near);
  }
}

void ChoiceSolver::State::search_wide(double cap, int most_labels, Dual& dual) const {
  const choice::Core two = two_kinds(core, all_places(core, fixed), weights, limit);
  std::vector<int> start;
  for (std::size_t v = 0; v < dual.best.choice.size(); ++v) {
    const std::vector<int>& values = two.nodes[v].values;
    start.push_back(
        static_cast<int>(std::ranges::find(values, dual.best.choice[v]) - values.begin()));
  }
  const choice::WideAnswer answer = choice::cheapest_wide(
      two, {.price = dual.price, .cap = cap, .most_nodes = kMostNodes, .most_labels = most_labels},
      start);
  Corner found = corner(problem_values(two, answer.choice), 1, 0, kInfinity);
  if (found.memory <= cap && found.time < dual.best.time) {
    dual.best = std::move(found);
  }
  dual.bound = std::min(dual.best.time, std::max(dual.bound, answer.bound));
}

ChoiceSolver::ChoiceSolver(const ChoiceProblem& problem, const std::vector<int>& keep)
    : state_(std::make_unique<State>()) {
  check_choice_problem(problem);
  state_->problem = problem;
  state_->keep.assign(problem.values.size(), 0);
  for (const int v : keep) {
    require(v >= 0 && v < static_cast<int>(problem.values.size()), "choice: variable {} of {}", v,
            problem.values.size());
    state_->keep[v] = 1;
  }
  state_->build();
}

ChoiceSolver::~ChoiceSolver() = default;
ChoiceSolver::ChoiceSolver(ChoiceSolver&&) noexcept = default;
ChoiceSolver& ChoiceSolver::operator=(ChoiceSolver&&) noexcept = default;

const ChoiceProblem& ChoiceSolver::problem() const {
  return state_->problem;
}

bool ChoiceSolver::narrow() const {
  return !state_->wide;
}

ChoiceAnswer ChoiceSolver::cheapest(std::span<const double> weights, Fixed fixed) {
  state_->ask(weights, {}, fixed);
  const Corner corner = state_->solve(1, 0);
  return to_answer(corner, corner.least);
}

std::vector<double> ChoiceSolver::table(std::span<const double> weights, int first, int second) {
  require(first != second, "choice: a table of variable {} and itself", first);
  state_->keep_also({first, second});
  state_->ask(weights, {}, {});
  std::unique_ptr<choice::Tree>& tree = state_->tables[{first, second}];
  if (tree == nullptr) {
    tree = std::make_unique<choice::Tree>(state_->core, std::vector<int>{first, second});
    if (!tree->too_wide()) {
      tree->fill();
    }
  }
  if (!tree->too_wide()) {
    tree->weigh(weights, {}, {});
    tree->up(1, 0);
    return tree->root_table();
  }
  std::vector<double> result;
  for (int x = 0; x < problem().values[first]; ++x) {
    for (int y = 0; y < problem().values[second]; ++y) {
      const std::vector<std::pair<int, int>> fixed = {{first, x}, {second, y}};
      result.push_back(cheapest(weights, fixed).total);
    }
  }
  return result;
}

ChoiceAnswer ChoiceSolver::cheapest_within(std::span<const double> weights,
                                           std::span<const double> limit, double cap, Fixed fixed,
                                           int most_labels) {
  state_->ask(weights, limit, fixed);
  state_->wide_nodes = kFewNodes;
  const Corner fastest = state_->solve(1, 0);
  if (fastest.choice.empty() || fastest.memory <= cap) {
    return to_answer(fastest, fastest.least);
  }
  const Corner smallest = state_->solve(0, 1);
  if (smallest.choice.empty() || smallest.memory > cap) {
    return to_answer({}, smallest.least > cap ? std::max(kInfinity, fastest.least) : fastest.least);
  }
  const auto solve = [&](double price) { return state_->solve(1, price); };
  Dual dual = state_->wide ? choice::best_of_prices(fastest, smallest, cap, solve)
                           : choice::best_price(fastest, smallest, cap, kMostPrices, solve);
  if (dual.best.time - dual.bound > kNoise * std::abs(dual.best.time)) {
    if (state_->wide) {
      state_->search_wide(cap, most_labels, dual);
    } else {
      state_->search(cap, most_labels, dual);
    }
  }
  return to_answer(dual.best, std::min(dual.bound, dual.best.time));
}

std::vector<ChoiceAnswer> ChoiceSolver::hull(std::span<const double> weights,
                                             std::span<const double> limit, int most, Fixed fixed) {
  require(most >= 2, "choice: a hull of {} corners", most);
  state_->ask(weights, limit, fixed);
  state_->wide_nodes = kFewNodes;
  Corner fastest = state_->solve(1, 0);
  if (fastest.choice.empty()) {
    return {};
  }
  Corner smallest = state_->solve(0, 1);
  state_->break_ties(fastest, smallest);
  std::vector<ChoiceAnswer> answers;
  for (const Corner& corner : choice::lower_hull(
           fastest, smallest, most, [&](double price) { return state_->solve(1, price); })) {
    answers.push_back(to_answer(corner, corner.time));
  }
  return answers;
}

}  // namespace weft
