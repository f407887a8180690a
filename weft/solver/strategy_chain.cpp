// min  sum_i time(s_i) + sum_i change(s_i, s_i+1)   subject to   sum_i memory(s_i) <= M
//
// 1. Prices. With a price p for memory the constraint goes away, and one pass from the back gives
//      back_p(i, s) = least  sum time + change + p memory  of layers i..., if layer i takes s.
//    For each p, min_s back_p(0, s) - p M is a lower bound of the optimum. (time, memory) of the
//    passes' paths are corners of the convex hull of all paths; the price of the edge above M
//    gives the best bound and is found by stepping from one corner to a better one. The best path
//    that fits is the first answer, `best`.
// 2. Labels. From the front, (memory, time) of all partial chains that end in strategy s. One that
//    needs no less memory and no less time than another of the same end is dropped, and so is one
//    that leads to nothing below a limit: time + p memory + back_p(rest) - p M > limit. An answer
//    up to the limit is the optimum. The limit starts near the bound and moves towards `best`.
//
// The second rule does the work. Without it the number of labels grows with the number of mixes of
// strategies; with it, with the number of mixes about as good as the best one.

#include "weft/solver/strategy_chain.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace weft {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // of the time: what sums of doubles may be wrong by
// Labels multiply with the distance from the bound that is allowed: it starts small.
constexpr double kFirstRadius = 64;
constexpr double kRadiusGrowth = 2;

struct Label {
  double memory = 0;
  double time = 0;
  int strategy = 0;
  int previous = -1;  // index of a label
};

double change_between(const StrategyChain& chain, int from, std::size_t to) {
  return from < 0 ? 0 : chain.change[static_cast<std::size_t>(from) * chain.time.size() + to];
}

// back_p of the head comment, without layer i itself: [layer][strategy].
using Back = std::vector<std::vector<double>>;

Back prices_from_back(const StrategyChain& chain, double price) {
  const std::size_t size = chain.time.size();
  Back rest(static_cast<std::size_t>(chain.layers), std::vector<double>(size, 0));
  for (std::size_t layer = rest.size() - 1; layer-- > 0;) {
    for (std::size_t s = 0; s < size; ++s) {
      double least = kInfinite;
      for (std::size_t next = 0; next < size; ++next) {
        least = std::min(least, chain.change[s * size + next] + chain.time[next] +
                                    price * chain.memory[next] + rest[layer + 1][next]);
      }
      rest[layer][s] = least;
    }
  }
  return rest;
}

int last_of(const ChainAnswer& path) {
  return path.strategies.empty() ? -1 : path.strategies.back();
}

void append(const StrategyChain& chain, std::size_t strategy, ChainAnswer& path) {
  const double before = path.strategies.empty() ? 0 : path.time;
  path.time = before + change_between(chain, last_of(path), strategy) + chain.time[strategy];
  path.memory += chain.memory[strategy];
  path.strategies.push_back(static_cast<int>(strategy));
}

// A path that attains the least price; ties go to the first strategy.
ChainAnswer cheapest_path(const StrategyChain& chain, double price, const Back& rest) {
  const std::size_t size = chain.time.size();
  ChainAnswer path;
  for (const std::vector<double>& after : rest) {
    std::size_t best = 0;
    double least = kInfinite;
    for (std::size_t s = 0; s < size; ++s) {
      const double cost = change_between(chain, last_of(path), s) + chain.time[s] +
                          price * chain.memory[s] + after[s];
      if (cost < least) {
        least = cost;
        best = s;
      }
    }
    append(chain, best, path);
  }
  return path;
}

struct Priced {
  double price = 0;
  double least = 0;  // time + price * memory of a chain
  Back rest;
  ChainAnswer best;  // that fits
};

// Steps along the hull between a path that is too large and one that fits.
Priced best_price(const StrategyChain& chain, double memory, ChainAnswer fits) {
  Priced result{
      .price = 0, .least = 0, .rest = prices_from_back(chain, 0), .best = std::move(fits)};
  ChainAnswer large = cheapest_path(chain, 0, result.rest);
  if (large.memory <= memory) {
    result.best = std::move(large);
    return result;
  }
  ChainAnswer small = result.best;
  while (large.memory > small.memory && small.time > large.time) {
    result.price = (small.time - large.time) / (large.memory - small.memory);
    result.rest = prices_from_back(chain, result.price);
    ChainAnswer path = cheapest_path(chain, result.price, result.rest);
    result.least = path.time + result.price * path.memory;
    const double on_edge = small.time + result.price * small.memory;
    if (result.least >= on_edge * (1 - kRounding)) {
      break;
    }
    ChainAnswer& side = path.memory <= memory ? small : large;
    side = std::move(path);
    if (small.time < result.best.time) {
      result.best = small;
    }
  }
  return result;
}

// Keeps the labels that no other beats, ascending in memory.
void drop_beaten(std::vector<Label>& labels) {
  std::ranges::sort(labels, [](const Label& a, const Label& b) {
    return a.memory != b.memory ? a.memory < b.memory : a.time < b.time;
  });
  double least = kInfinite;
  std::erase_if(labels, [&](const Label& label) {
    const bool beaten = label.time >= least;
    least = std::min(least, label.time);
    return beaten;
  });
}

// Adds the labels of one more layer. `first` is the first label of the layer before.
void add_layer(const StrategyChain& chain, std::size_t first, const auto& useful,
               std::vector<Label>& labels) {
  const std::size_t last = labels.size();
  std::vector<Label> here;
  for (std::size_t s = 0; s < chain.time.size(); ++s) {
    here.clear();
    for (std::size_t i = first; i < last; ++i) {
      const Label& from = labels[i];
      const double change = change_between(chain, from.strategy, s);
      const Label label{.memory = from.memory + chain.memory[s],
                        .time = from.time + change + chain.time[s],
                        .strategy = static_cast<int>(s),
                        .previous = static_cast<int>(i)};
      if (useful(label)) {
        here.push_back(label);
      }
    }
    drop_beaten(here);
    labels.insert(labels.end(), here.begin(), here.end());
  }
}

ChainAnswer path_to(const StrategyChain& chain, const std::vector<Label>& labels,
                    const Label& last) {
  std::vector<int> strategies;
  for (const Label* label = &last; label->previous >= 0;
       label = &labels[static_cast<std::size_t>(label->previous)]) {
    strategies.push_back(label->strategy);
  }
  std::ranges::reverse(strategies);
  ChainAnswer path;
  for (const int s : strategies) {
    append(chain, static_cast<std::size_t>(s), path);
  }
  return path;
}

// Replaces `best` by the fastest chain of a time up to `limit`, if there is one that is faster.
void search_below(const StrategyChain& chain, const Priced& priced, double memory, double limit,
                  ChainAnswer& best) {
  const double lightest = std::ranges::min(chain.memory);
  const double priced_limit = limit * (1 + kRounding) + priced.price * memory;
  std::vector<Label> labels = {Label{.memory = 0, .time = 0, .strategy = -1, .previous = -1}};
  std::size_t first = 0;
  for (int layer = 0; layer < chain.layers; ++layer) {
    const double least_rest = (chain.layers - 1 - layer) * lightest;
    const std::vector<double>& rest = priced.rest[static_cast<std::size_t>(layer)];
    const auto useful = [&](const Label& label) {
      const double least =
          label.time + priced.price * label.memory + rest[static_cast<std::size_t>(label.strategy)];
      return label.memory + least_rest <= memory * (1 + kRounding) && least <= priced_limit;
    };
    const std::size_t end = labels.size();
    add_layer(chain, first, useful, labels);
    first = end;
  }
  for (std::size_t i = first; i < labels.size(); ++i) {
    if (labels[i].memory <= memory && labels[i].time < best.time) {
      best = path_to(chain, labels, labels[i]);
    }
  }
}

}  // namespace

ChainAnswer fastest_chain(const StrategyChain& chain, double memory) {
  const auto lightest = std::ranges::min_element(chain.memory) - chain.memory.begin();
  ChainAnswer fits;
  for (int layer = 0; layer < chain.layers; ++layer) {
    append(chain, static_cast<std::size_t>(lightest), fits);
  }
  if (fits.memory > memory) {
    return {};
  }
  const Priced priced = best_price(chain, memory, std::move(fits));
  ChainAnswer best = priced.best;
  if (priced.price == 0) {
    return best;  // the fastest of all chains
  }
  const double bound = priced.least - priced.price * memory;
  const double gap = best.time - bound;
  for (double radius = gap / kFirstRadius; best.time > bound + radius / kRadiusGrowth;
       radius *= kRadiusGrowth) {
    search_below(chain, priced, memory, std::min(bound + radius, best.time), best);
  }
  return best;
}

}  // namespace weft
