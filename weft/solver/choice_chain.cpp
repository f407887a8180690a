// A chain of blocks at a price p of memory: C_l(i, j) is the least priced total of block l with
// values i and j at its ends, and
//
//   f_0(j) = 0,   f_(l+1)(j) = min over i of f_l(i) + C_l(i, j),   b likewise from the end.
//
// min f - p * M is a bound for a cap M on memory, and the price with the greatest one is found by
// cutting planes. The gap that is left is at most that of one block (Shapley and Folkman), so it
// fades with the length of the chain: the answer mixes columns, which are answers of blocks at
// given ends. Labels (time, memory) go along the chain; one at ends j after l blocks is dropped if
// time + p * memory + b_l(j) is above (best known time) + p * M, and the rest is thinned to one in
// each step of memory. At last single blocks are solved again with the memory that is left.
//
// A short chain is one problem: the ends that two blocks share become one variable.

#include "weft/solver/choice_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "weft/base/error.h"
#include "weft/solver/choice_price.h"

namespace weft {
namespace {

using choice::kNoise;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::size_t kShort = 4;  // blocks
constexpr int kMostPrices = 40;
constexpr int kCorners = 12;          // columns of a pair of ends, from its hull
constexpr std::size_t kMostEnds = 8;  // pairs of ends of a block that get them
constexpr int kPolishRounds = 6;
constexpr std::size_t kMixLabels[] = {16, 128, 1024};  // of each end
constexpr double kCloseEnough = 1e-4;                  // a gap that is not worth polishing

double dot(std::span<const double> weights, const std::vector<double>& cost) {
  double sum = 0;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    sum += weights[k] * cost[k];
  }
  return sum;
}

// Costs of a variable as costs of a pair that has it: sums of float32 costs would be rounded.
ChoicePair as_pair(const ChoiceProblem& block, const ChoiceLink& link) {
  const auto near = std::ranges::find_if(block.pairs, [&](const ChoicePair& pair) {
    return pair.first == link.in || pair.second == link.in;
  });
  const bool alone = near == block.pairs.end();
  const int other = alone ? link.out : near->first == link.in ? near->second : near->first;
  ChoicePair result{.first = link.in, .second = other, .cost = block.cost[link.in]};
  for (std::vector<float>& table : result.cost) {
    std::vector<float> wide;
    for (const float cost : table) {
      wide.insert(wide.end(), static_cast<std::size_t>(block.values[other]), cost);
    }
    table = std::move(wide);
  }
  return result;
}

// The chain as one problem: the in-variable of a block is the out-variable of the one before.
ChoiceProblem joined(std::span<const ChoiceLink> chain, std::vector<std::vector<int>>& place) {
  ChoiceProblem whole;
  int border = -1;
  for (const ChoiceLink& link : chain) {
    const ChoiceProblem& block = link.block->problem();
    whole.kinds = block.kinds;
    std::vector<int>& to = place.emplace_back();
    std::vector<ChoicePair> pairs = block.pairs;
    for (int v = 0; v < static_cast<int>(block.values.size()); ++v) {
      const bool shared = v == link.in && border >= 0;
      to.push_back(shared ? border : static_cast<int>(whole.values.size()));
      if (!shared) {
        whole.values.push_back(block.values[v]);
        whole.cost.push_back(block.cost.empty() ? std::vector<std::vector<float>>{}
                                                : block.cost[v]);
      } else if (!block.cost.empty()) {
        pairs.push_back(as_pair(block, link));
      }
    }
    for (ChoicePair& pair : pairs) {
      pair.first = to[pair.first];
      pair.second = to[pair.second];
      whole.pairs.push_back(std::move(pair));
    }
    border = to[link.out];
  }
  return whole;
}

// What a block does with given ends.
struct Column {
  ChoiceAnswer answer = {};
  double time = 0;
  double memory = 0;
};

struct Ends {
  int kind = 0;  // of block
  int in = 0;
  int out = 0;
  bool operator<(const Ends& other) const {
    return std::tie(kind, in, out) < std::tie(other.kind, other.in, other.out);
  }
};

// A choice for the whole chain.
struct ChainPoint {
  std::vector<Ends> ends = {};
  std::vector<Column> columns = {};  // by block of the chain
  double time = kInfinity;
  double memory = kInfinity;
  double least = kInfinity;
};

// A partial choice: the chain up to some block.
struct Label {
  double time = 0;
  double memory = 0;
  int before = -1;  // label of the block before
  int end = 0;      // value where it ends
  const Column* column = nullptr;
};

class Chain {
 public:
  Chain(std::span<const ChoiceLink> chain, std::span<const double> weights,
        std::span<const double> limit);

  ChainPoint solve(double time, double memory);
  void add_columns(double price, double gap);
  /// The best mix of columns with labels thinned to so many for each end; lowers `best`.
  void mix(double price, double cap, std::size_t most_labels, ChainPoint& best);
  void polish(double cap, double bound, ChainPoint& best) const;

 private:
  [[nodiscard]] std::vector<double> priced(double time, double memory) const;
  void find_tables(const std::vector<double>& weights);
  void find_rests();
  [[nodiscard]] double bound_without_tables(const std::vector<double>& weights) const;
  Column column(const std::vector<double>& weights, const Ends& ends);
  [[nodiscard]] std::vector<std::pair<int, int>> fixed(const Ends& ends) const;
  void extend(std::size_t l, double price, double most_total, std::size_t most_labels);

  std::span<const ChoiceLink> chain_;
  std::span<const double> weights_;
  std::span<const double> limit_;
  std::vector<ChoiceLink> kinds_;  // blocks that differ
  std::vector<int> kind_of_;       // by block of the chain
  int values_ = 0;                 // at the ends
  bool narrow_ = true;
  std::vector<std::vector<double>> table_;  // by kind of block: [in][out]
  std::vector<std::vector<double>> until_;  // f, by number of blocks
  std::vector<std::vector<double>> rest_;   // b, by number of blocks before
  std::map<Ends, std::vector<Column>> pool_;
  std::vector<std::vector<Label>> labels_;  // by number of blocks
};

Chain::Chain(std::span<const ChoiceLink> chain, std::span<const double> weights,
             std::span<const double> limit)
    : chain_(chain), weights_(weights), limit_(limit) {
  for (const ChoiceLink& link : chain) {
    const auto same = std::ranges::find_if(kinds_, [&](const ChoiceLink& other) {
      return std::tie(other.block, other.in, other.out) == std::tie(link.block, link.in, link.out);
    });
    kind_of_.push_back(static_cast<int>(same - kinds_.begin()));
    if (same == kinds_.end()) {
      kinds_.push_back(link);
      narrow_ = narrow_ && link.block->narrow();
    }
  }
  values_ = chain[0].block->problem().values[chain[0].in];
}

std::vector<double> Chain::priced(double time, double memory) const {
  std::vector<double> sum;
  for (std::size_t k = 0; k < weights_.size(); ++k) {
    sum.push_back(time * weights_[k] + memory * limit_[k]);
  }
  return sum;
}

std::vector<std::pair<int, int>> Chain::fixed(const Ends& ends) const {
  return {{kinds_[ends.kind].in, ends.in}, {kinds_[ends.kind].out, ends.out}};
}

Column Chain::column(const std::vector<double>& weights, const Ends& ends) {
  Column result{.answer = kinds_[ends.kind].block->cheapest(weights, fixed(ends))};
  result.time = dot(weights_, result.answer.cost);
  result.memory = dot(limit_, result.answer.cost);
  return result;
}

void Chain::find_tables(const std::vector<double>& weights) {
  table_.clear();
  for (const ChoiceLink& kind : kinds_) {
    table_.push_back(kind.block->table(weights, kind.in, kind.out));
  }
  const auto n = static_cast<std::size_t>(values_);
  until_.assign(chain_.size() + 1, std::vector<double>(n, 0.0));
  for (std::size_t l = 0; l < chain_.size(); ++l) {
    const std::vector<double>& table = table_[kind_of_[l]];
    std::vector<double>& to = until_[l + 1];
    std::ranges::fill(to, kInfinity);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        to[j] = std::min(to[j], until_[l][i] + table[i * n + j]);
      }
    }
  }
}

void Chain::find_rests() {
  const auto n = static_cast<std::size_t>(values_);
  rest_.assign(chain_.size() + 1, std::vector<double>(n, 0.0));
  for (std::size_t l = chain_.size(); l-- > 0;) {
    const std::vector<double>& table = table_[kind_of_[l]];
    std::ranges::fill(rest_[l], kInfinity);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        rest_[l][i] = std::min(rest_[l][i], table[i * n + j] + rest_[l + 1][j]);
      }
    }
  }
}

// Tables of wide blocks are not bounds: their ends are left free instead.
double Chain::bound_without_tables(const std::vector<double>& weights) const {
  std::vector<double> bounds;
  for (const ChoiceLink& kind : kinds_) {
    bounds.push_back(kind.block->cheapest(weights).bound);
  }
  double sum = 0;
  for (const int kind : kind_of_) {
    sum += bounds[kind];
  }
  return sum;
}

ChainPoint Chain::solve(double time, double memory) {
  const std::vector<double> weights = priced(time, memory);
  find_tables(weights);
  const double total = std::ranges::min(until_.back());
  ChainPoint point;
  point.least = narrow_ ? total - kNoise * std::abs(total) : bound_without_tables(weights);
  if (!(total < kInfinity)) {
    return point;
  }
  const auto n = static_cast<std::size_t>(values_);
  auto end =
      static_cast<std::size_t>(std::ranges::min_element(until_.back()) - until_.back().begin());
  for (std::size_t l = chain_.size(); l-- > 0;) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < n; ++i) {
      const std::vector<double>& table = table_[kind_of_[l]];
      best = until_[l][i] + table[i * n + end] < until_[l][best] + table[best * n + end] ? i : best;
    }
    point.ends.push_back({kind_of_[l], static_cast<int>(best), static_cast<int>(end)});
    end = best;
  }
  std::ranges::reverse(point.ends);
  point.time = point.memory = 0;
  std::map<Ends, Column> known;
  for (const Ends& ends : point.ends) {
    const auto [at, fresh] = known.try_emplace(ends);
    if (fresh) {
      at->second = column(weights, ends);
      pool_[ends].push_back(at->second);
    }
    point.columns.push_back(at->second);
    point.time += at->second.time;
    point.memory += at->second.memory;
  }
  point.least = std::min(point.least, time * point.time + memory * point.memory);
  return point;
}

// Leaves the Pareto front, by rising memory and falling time.
template <typename Point>
void keep_best(std::vector<Point>& points) {
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return a.memory < b.memory || (a.memory == b.memory && a.time < b.time);
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (kept == 0 || points[i].time < points[kept - 1].time) {
      if (i != kept) {
        points[kept] = std::move(points[i]);
      }
      ++kept;
    }
  }
  points.resize(kept);
}

// Corners of the hulls of those pairs of ends that are nearest to the best priced total.
void Chain::add_columns(double price, double gap) {
  find_tables(priced(1, price));
  find_rests();
  const auto n = static_cast<std::size_t>(values_);
  const double total = std::ranges::min(until_.back());
  std::map<Ends, double> above;
  for (std::size_t l = 0; l < chain_.size(); ++l) {
    for (std::size_t cell = 0; cell < n * n; ++cell) {
      const Ends ends{kind_of_[l], static_cast<int>(cell / n), static_cast<int>(cell % n)};
      const double here =
          until_[l][cell / n] + table_[ends.kind][cell] + rest_[l + 1][cell % n] - total;
      if (here <= gap) {
        const auto [at, fresh] = above.try_emplace(ends, here);
        at->second = std::min(at->second, here);
      }
    }
  }
  std::vector<std::pair<double, Ends>> order;
  order.reserve(above.size());
  for (const auto& [ends, here] : above) {
    order.emplace_back(here, ends);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> taken(kinds_.size(), 0);
  for (const auto& [here, ends] : order) {
    if (taken[ends.kind]++ >= kMostEnds) {
      continue;
    }
    for (ChoiceAnswer& corner :
         kinds_[ends.kind].block->hull(weights_, limit_, kCorners, fixed(ends))) {
      const double memory = dot(limit_, corner.cost);
      const double time = corner.total;
      pool_[ends].push_back({std::move(corner), time, memory});
    }
  }
  for (auto& [ends, columns] : pool_) {
    keep_best(columns);
  }
}

// Of the labels of one end the Pareto front, and of that the best priced one of each step of
// memory.
void thin(double price, std::size_t most, std::vector<Label>& labels) {
  keep_best(labels);
  if (labels.size() <= most) {
    return;
  }
  const double first = labels.front().memory;
  const double step = (labels.back().memory - first) / static_cast<double>(most - 1);
  std::vector<Label> result{labels.front()};
  double place = -1;
  for (std::size_t i = 1; i < labels.size(); ++i) {
    const Label& label = labels[i];
    const double here = std::floor((label.memory - first) / step);
    if (here > place) {
      result.push_back(label);
      place = here;
    } else if (label.time + price * label.memory <
               result.back().time + price * result.back().memory) {
      result.back() = label;
    }
  }
  labels = std::move(result);
}

void Chain::extend(std::size_t l, double price, double most_total, std::size_t most_labels) {
  std::vector<std::vector<Label>> by_end(static_cast<std::size_t>(values_));
  for (const auto& [ends, columns] : pool_) {
    if (ends.kind != kind_of_[l]) {
      continue;
    }
    for (int i = 0; i < static_cast<int>(labels_[l].size()); ++i) {
      const Label& label = labels_[l][i];
      if (label.end != ends.in && l > 0) {
        continue;
      }
      for (const Column& column : columns) {
        const Label next{label.time + column.time, label.memory + column.memory, i, ends.out,
                         &column};
        if (next.time + price * next.memory + rest_[l + 1][ends.out] <= most_total) {
          by_end[ends.out].push_back(next);
        }
      }
    }
  }
  labels_[l + 1].clear();
  for (std::vector<Label>& labels : by_end) {
    thin(price, most_labels, labels);
    labels_[l + 1].insert(labels_[l + 1].end(), labels.begin(), labels.end());
  }
}

void Chain::mix(double price, double cap, std::size_t most_labels, ChainPoint& best) {
  const double most_total = best.time + price * cap;
  labels_.assign(chain_.size() + 1, {});
  labels_[0] = {Label{}};
  for (std::size_t l = 0; l < chain_.size(); ++l) {
    extend(l, price, most_total + kNoise * std::abs(most_total), most_labels);
  }
  const Label* found = nullptr;
  for (const Label& label : labels_.back()) {
    if (label.memory <= cap && label.time < best.time &&
        (found == nullptr || label.time < found->time)) {
      found = &label;
    }
  }
  if (found == nullptr) {
    return;
  }
  ChainPoint point{.ends = {}, .columns = {}, .time = found->time, .memory = found->memory};
  for (std::size_t l = chain_.size(); l-- > 0;) {
    const std::vector<int>& choice = found->column->answer.choice;
    const ChoiceLink& link = chain_[l];
    point.columns.push_back(*found->column);
    point.ends.push_back({kind_of_[l], choice[link.in], choice[link.out]});
    found = &labels_[l][found->before];
  }
  std::ranges::reverse(point.columns);
  std::ranges::reverse(point.ends);
  best = std::move(point);
}

// Gives all memory that is left to the one block that gains most from it, again and again.
void Chain::polish(double cap, double bound, ChainPoint& best) const {
  for (int round = 0; round < kPolishRounds; ++round) {
    if (best.time - bound <= kCloseEnough * std::abs(best.time)) {
      return;
    }
    std::map<std::tuple<Ends, double, double>, std::size_t> tried;
    Column better;
    double most_gain = 0;
    std::size_t place = 0;
    for (std::size_t l = 0; l < chain_.size(); ++l) {
      const Column& now = best.columns[l];
      if (!tried.try_emplace({best.ends[l], now.time, now.memory}, l).second) {
        continue;
      }
      const ChoiceAnswer answer = chain_[l].block->cheapest_within(
          weights_, limit_, now.memory + cap - best.memory, fixed(best.ends[l]));
      const double gain = answer.choice.empty() ? 0.0 : now.time - answer.total;
      if (gain > most_gain) {
        most_gain = gain;
        better = {answer, answer.total, dot(limit_, answer.cost)};
        place = l;
      }
    }
    const double memory = best.memory + better.memory - best.columns[place].memory;
    if (most_gain <= kNoise * std::abs(best.time) || memory > cap) {
      return;
    }
    best.time -= most_gain;
    best.memory = memory;
    best.columns[place] = std::move(better);
  }
}

ChoiceChainAnswer to_answer(const ChainPoint& point, double bound,
                            std::span<const double> weights) {
  ChoiceChainAnswer answer{.blocks = {}, .total = kInfinity, .bound = bound, .cost = {}};
  if (point.columns.empty()) {
    return answer;
  }
  answer.cost.assign(weights.size(), 0.0);
  for (const Column& column : point.columns) {
    ChoiceAnswer& block = answer.blocks.emplace_back(column.answer);
    block.total = block.bound = column.time;
    for (std::size_t k = 0; k < weights.size(); ++k) {
      answer.cost[k] += column.answer.cost[k];
    }
  }
  answer.total = dot(weights, answer.cost);
  answer.bound = std::min(bound, answer.total);
  return answer;
}

ChoiceChainAnswer solve_long(std::span<const ChoiceLink> links, std::span<const double> weights,
                             std::span<const double> limit, double cap) {
  Chain chain(links, weights, limit);
  const ChainPoint fastest = chain.solve(1, 0);
  if (fastest.columns.empty() || fastest.memory <= cap) {
    return to_answer(fastest, fastest.least, weights);
  }
  const ChainPoint smallest = chain.solve(0, 1);
  if (smallest.memory > cap) {
    return to_answer({}, smallest.least > cap ? std::max(kInfinity, fastest.least) : fastest.least,
                     weights);
  }
  choice::Dual<ChainPoint> dual = choice::best_price(
      fastest, smallest, cap, kMostPrices, [&](double price) { return chain.solve(1, price); });
  if (dual.best.time - dual.bound > kCloseEnough * std::abs(dual.best.time)) {
    chain.add_columns(dual.price, dual.best.time - dual.bound);
    for (const std::size_t most_labels : kMixLabels) {
      if (dual.best.time - dual.bound > kCloseEnough * std::abs(dual.best.time)) {
        chain.mix(dual.price, cap, most_labels, dual.best);
      }
    }
    chain.polish(cap, dual.bound, dual.best);
  }
  return to_answer(dual.best, dual.bound, weights);
}

// The chain as one problem. Its parts are answers of the blocks.
ChoiceChainAnswer solve_short(std::span<const ChoiceLink> chain, std::span<const double> weights,
                              std::span<const double> limit, double cap) {
  std::vector<std::vector<int>> place;
  ChoiceSolver solver(joined(chain, place));
  const ChoiceAnswer whole = solver.cheapest_within(weights, limit, cap);
  ChainPoint point;
  for (std::size_t l = 0; l < chain.size() && !whole.choice.empty(); ++l) {
    Column& column = point.columns.emplace_back();
    for (const int v : place[l]) {
      column.answer.choice.push_back(whole.choice[v]);
    }
    column.answer.cost = choice_cost(chain[l].block->problem(), column.answer.choice);
    column.time = dot(weights, column.answer.cost);
  }
  return to_answer(point, whole.bound, weights);
}

void check_chain(std::span<const ChoiceLink> chain) {
  require(!chain.empty(), "chain: no blocks");
  int values = 0;
  for (const ChoiceLink& link : chain) {
    WEFT_CHECK(link.block != nullptr);
    const ChoiceProblem& block = link.block->problem();
    const int variables = static_cast<int>(block.values.size());
    require(link.in >= 0 && link.in < variables && link.out >= 0 && link.out < variables &&
                link.in != link.out,
            "chain: ends {} and {} of a block of {} variables", link.in, link.out, variables);
    values = values == 0 ? block.values[link.in] : values;
    require(block.values[link.in] == values && block.values[link.out] == values,
            "chain: ends with {}, {} and {} values", values, block.values[link.in],
            block.values[link.out]);
    require(block.kinds == chain[0].block->problem().kinds, "chain: blocks of {} and {} kinds",
            chain[0].block->problem().kinds, block.kinds);
  }
}

}  // namespace

ChoiceChainAnswer cheapest_chain_within(std::span<const ChoiceLink> chain,
                                        std::span<const double> weights,
                                        std::span<const double> limit, double cap) {
  check_chain(chain);
  if (chain.size() > kShort) {
    return solve_long(chain, weights, limit, cap);
  }
  ChoiceChainAnswer exact = solve_short(chain, weights, limit, cap);
  if (exact.bound >= exact.total - 2 * kNoise * std::abs(exact.total)) {
    return exact;
  }
  ChoiceChainAnswer other = solve_long(chain, weights, limit, cap);
  const double bound = std::max(exact.bound, other.bound);
  ChoiceChainAnswer& better = exact.total <= other.total ? exact : other;
  better.bound = std::min(bound, better.total);
  return better;
}

}  // namespace weft
