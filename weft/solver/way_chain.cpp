// min  sum_l seconds(w_l)   subject to   sum_l bytes(w_l) + max_l working(w_l) <= M
//
// over ways w_l of which each begins at the boundary at which the one before it ends.
//
// 1. The largest working memory W is tried for every value that a way has: then only ways of at
//    most W count, and sum bytes <= M - W is left.
// 2. Prices. With a price p for a byte the limit goes away, and one pass from the back gives
//      back_p(l, q) = least  sum seconds + p bytes  of layers l..., if the boundary before l lies
//      as q.
//    back_p(0, any) - p (M - W) is a lower bound for every p. The best p is found by stepping from
//    one corner of the convex hull of (bytes, seconds) to a better one. The last corner that fits,
//    with as many layers as possible on the way that they have at the next one, is the first
//    answer: of many layers alike it is almost the best.
// 3. Labels. From the front, (bytes, seconds) of all partial chains that end at boundary q. One
//    that another of the same end beats is dropped, and so is one that leads to nothing below a
//    limit: seconds + p bytes + back_p(rest) - p (M - W) > limit. An answer up to the limit is the
//    optimum. The limit starts near the bound and moves towards the best answer.

#include "weft/solver/way_chain.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>
#include <utility>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-12;  // of the seconds: what sums of doubles may be wrong by
// Labels multiply with the distance from the bound that is allowed: it starts small.
constexpr double kFirstRadius = 16;
constexpr double kRadiusGrowth = 4;

struct Path {
  double seconds = kNever;
  double bytes = 0;
  std::vector<int> ways;
};

struct Label {
  double bytes = 0;
  double seconds = 0;
  int way = -1;
  int previous = -1;  // index of a label
};

// The chain with ways of little working memory. Boundaries are counted from 0, the last one is
// "any".
class Chain {
 public:
  Chain(const WayChain& chain, double most_working) : chain_(chain) {
    int states = 0;
    for (const std::vector<ChainWay>& menu : chain.menus) {
      for (const ChainWay& way : menu) {
        states = std::max({states, way.in + 1, way.out + 1});
      }
    }
    any_ = states;
    for (const std::vector<ChainWay>& menu : chain.menus) {
      usable_.emplace_back();
      for (std::size_t w = 0; w < menu.size(); ++w) {
        if (menu[w].working_bytes <= most_working && !is_beaten(menu, w, most_working)) {
          usable_.back().push_back(static_cast<int>(w));
        }
      }
    }
  }

  [[nodiscard]] int layers() const { return static_cast<int>(chain_.menu_of.size()); }
  [[nodiscard]] int states() const { return any_ + 1; }
  [[nodiscard]] int any() const { return any_; }
  [[nodiscard]] int menu_of(int layer) const { return chain_.menu_of[layer]; }
  [[nodiscard]] int menus() const { return static_cast<int>(chain_.menus.size()); }
  [[nodiscard]] const std::vector<int>& usable(int layer) const {
    return usable_[chain_.menu_of[layer]];
  }
  [[nodiscard]] const ChainWay& way(int layer, int number) const {
    return chain_.menus[chain_.menu_of[layer]][number];
  }
  [[nodiscard]] int out(const ChainWay& way) const { return way.out < 0 ? any_ : way.out; }
  [[nodiscard]] bool meets(int state, const ChainWay& way) const {
    return state == any_ || way.in < 0 || way.in == state;
  }

 private:
  // Another way of the same ends needs no more of anything; of equal ones the first stays.
  static bool is_beaten(const std::vector<ChainWay>& menu, std::size_t w, double most_working) {
    for (std::size_t o = 0; o < menu.size(); ++o) {
      const ChainWay& a = menu[o];
      const ChainWay& b = menu[w];
      const bool equal = a.seconds == b.seconds && a.bytes == b.bytes;
      if (o != w && a.in == b.in && a.out == b.out && a.working_bytes <= most_working &&
          a.seconds <= b.seconds && a.bytes <= b.bytes && (!equal || o < w)) {
        return true;
      }
    }
    return false;
  }

  const WayChain& chain_;
  std::vector<std::vector<int>> usable_;  // by menu
  int any_ = 0;
};

// back_p of the head comment: [layer][boundary], with a weight for seconds too.
class Back {
 public:
  Back() = default;
  explicit Back(const Chain& chain)
      : states_(chain.states()),
        totals_(static_cast<std::size_t>(chain.layers() + 1) * chain.states(), 0) {}
  std::span<double> operator[](int layer) {
    return std::span(totals_).subspan(static_cast<std::size_t>(layer) * states_, states_);
  }
  std::span<const double> operator[](int layer) const {
    return std::span(totals_).subspan(static_cast<std::size_t>(layer) * states_, states_);
  }

 private:
  std::size_t states_ = 1;
  std::vector<double> totals_;
};

struct Prices {
  double second = 1;
  double byte = 0;
  double operator()(const ChainWay& way) const { return second * way.seconds + byte * way.bytes; }
};

// By menu: the first way that costs the least, of a chain without boundaries; -1: none is usable.
std::vector<int> cheapest_ways(const Chain& chain, const Prices& prices) {
  std::vector<int> ways(chain.menus(), -1);
  std::vector<char> seen(chain.menus(), 0);
  for (int l = 0; l < chain.layers(); ++l) {
    if (std::exchange(seen[chain.menu_of(l)], 1) != 0) {
      continue;
    }
    double least = kNever;
    for (const int w : chain.usable(l)) {
      if (const double cost = prices(chain.way(l, w)); cost < least) {
        least = cost;
        ways[chain.menu_of(l)] = w;
      }
    }
  }
  return ways;
}

Back from_back(const Chain& chain, const Prices& prices) {
  Back back(chain);
  const bool free = chain.states() == 1;
  const std::vector<int> ways = free ? cheapest_ways(chain, prices) : std::vector<int>();
  for (int l = chain.layers(); l-- > 0;) {
    if (free) {
      const int w = ways[chain.menu_of(l)];
      back[l][0] = w < 0 ? kNever : prices(chain.way(l, w)) + back[l + 1][0];
      continue;
    }
    std::ranges::fill(back[l], kNever);
    for (const int w : chain.usable(l)) {
      const ChainWay& way = chain.way(l, w);
      const double total = prices(way) + back[l + 1][chain.out(way)];
      for (int q = 0; q < chain.states(); ++q) {
        if (chain.meets(q, way)) {
          back[l][q] = std::min(back[l][q], total);
        }
      }
    }
  }
  return back;
}

// The first way of a layer that the least price leads through; -1: none.
int next_way(const Chain& chain, int layer, int state, const Prices& prices,
             std::span<const double> behind) {
  int best = -1;
  double least = kNever;
  for (const int w : chain.usable(layer)) {
    const ChainWay& way = chain.way(layer, w);
    const double total = prices(way) + behind[chain.out(way)];
    if (chain.meets(state, way) && total < least) {
      least = total;
      best = w;
    }
  }
  return best;
}

// A path that attains the least price; ties go to the first way.
Path cheapest_path(const Chain& chain, const Prices& prices, const Back& back) {
  Path path{.seconds = 0, .bytes = 0, .ways = {}};
  const bool free = chain.states() == 1;
  const std::vector<int> ways = free ? cheapest_ways(chain, prices) : std::vector<int>();
  int state = chain.any();
  for (int l = 0; l < chain.layers(); ++l) {
    const int best = free ? ways[chain.menu_of(l)] : next_way(chain, l, state, prices, back[l + 1]);
    if (best < 0) {
      return {};
    }
    const ChainWay& way = chain.way(l, best);
    path.seconds += way.seconds;
    path.bytes += way.bytes;
    path.ways.push_back(best);
    state = chain.out(way);
  }
  return path;
}

struct Priced {
  double price = 0;
  double bound = kNever;
  Back back;
  Path best;  // that fits
};

// Layers of a path that fits go the faster ways of one that does not, one after the other, as long
// as this fits and boundaries stay as they are; then any faster ways that fit into what is left.
Path mixed(const Chain& chain, const Path& fits, const Path& large, double bytes) {
  Path path = fits;
  const auto go = [&](int l, int w) {
    const ChainWay& now = chain.way(l, path.ways[l]);
    const ChainWay& other = chain.way(l, w);
    const double held = path.bytes - now.bytes + other.bytes;
    if (other.seconds < now.seconds && other.in == now.in && other.out == now.out &&
        held <= bytes) {
      path.bytes = held;
      path.ways[l] = w;
    }
  };
  for (int l = 0; l < chain.layers(); ++l) {
    go(l, large.ways[l]);
  }
  for (int l = 0; l < chain.layers(); ++l) {
    for (const int w : chain.usable(l)) {
      go(l, w);
    }
  }
  path.seconds = path.bytes = 0;
  for (int l = 0; l < chain.layers(); ++l) {
    path.seconds += chain.way(l, path.ways[l]).seconds;
    path.bytes += chain.way(l, path.ways[l]).bytes;
  }
  return path.bytes <= bytes ? path : fits;
}

// Steps along the hull between a path that is too large and one that fits.
Priced best_price(const Chain& chain, double bytes) {
  Priced result;
  constexpr Prices kSeconds = {.second = 1, .byte = 0};
  result.back = from_back(chain, kSeconds);
  Path large = cheapest_path(chain, kSeconds, result.back);
  result.bound = large.seconds;
  if (large.bytes <= bytes) {
    result.best = std::move(large);
    return result;
  }
  constexpr Prices kBytes = {.second = 0, .byte = 1};
  Path small = cheapest_path(chain, kBytes, from_back(chain, kBytes));
  if (small.bytes > bytes || small.ways.empty()) {
    result.bound = kNever;
    return result;
  }
  result.best = small;
  while (large.bytes > small.bytes && small.seconds > large.seconds) {
    result.price = (small.seconds - large.seconds) / (large.bytes - small.bytes);
    const Prices prices{.second = 1, .byte = result.price};
    result.back = from_back(chain, prices);
    Path path = cheapest_path(chain, prices, result.back);
    const double least = path.seconds + result.price * path.bytes;
    result.bound = least - result.price * bytes;
    const double on_edge = small.seconds + result.price * small.bytes;
    if (least >= on_edge * (1 - kRounding)) {
      break;
    }
    Path& side = path.bytes <= bytes ? small : large;
    side = std::move(path);
    if (small.seconds < result.best.seconds) {
      result.best = small;
    }
  }
  if (Path mix = mixed(chain, small, large, bytes); mix.seconds < result.best.seconds) {
    result.best = std::move(mix);
  }
  return result;
}

// Keeps the labels that no other beats, ascending in bytes; more bytes must save more than
// `less_s`. (Sums of the same numbers in different orders differ by their rounding.)
void drop_beaten(std::vector<Label>& labels, double less_s) {
  std::ranges::stable_sort(labels, [](const Label& a, const Label& b) {
    return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
  });
  double least = kNever;
  std::erase_if(labels, [&](const Label& label) {
    const bool beaten = label.seconds >= least - less_s;
    least = beaten ? least : label.seconds;
    return beaten;
  });
}

Path path_to(const std::vector<Label>& labels, const Label& last) {
  Path path{.seconds = last.seconds, .bytes = last.bytes, .ways = {}};
  for (const Label* label = &last; label->previous >= 0; label = &labels[label->previous]) {
    path.ways.push_back(label->way);
  }
  std::ranges::reverse(path.ways);
  return path;
}

// Replaces `best` by the fastest path of up to `limit` seconds, if there is one that is faster.
void search_below(const Chain& chain, const Priced& priced, double bytes, double limit,
                  const Back& lightest, double close, Path& best) {
  const double less_s = std::max(kRounding, close / (2 * chain.layers())) * limit;
  const double priced_limit = limit * (1 + kRounding) + priced.price * bytes;
  std::vector<Label> labels = {Label{}};
  std::vector<std::vector<int>> ends(chain.states());  // labels by boundary
  ends[chain.any()] = {0};
  for (int l = 0; l < chain.layers(); ++l) {
    std::vector<std::vector<Label>> next(chain.states());
    for (int q = 0; q < chain.states(); ++q) {
      for (const int from : ends[q]) {
        for (const int w : chain.usable(l)) {
          const ChainWay& way = chain.way(l, w);
          const Label label{.bytes = labels[from].bytes + way.bytes,
                            .seconds = labels[from].seconds + way.seconds,
                            .way = w,
                            .previous = from};
          const int to = chain.out(way);
          if (chain.meets(q, way) && label.bytes + lightest[l + 1][to] <= bytes * (1 + kRounding) &&
              label.seconds + priced.price * label.bytes + priced.back[l + 1][to] <= priced_limit) {
            next[to].push_back(label);
          }
        }
      }
    }
    for (int q = 0; q < chain.states(); ++q) {
      drop_beaten(next[q], less_s);
      ends[q].clear();
      for (const Label& label : next[q]) {
        ends[q].push_back(static_cast<int>(labels.size()));
        labels.push_back(label);
      }
    }
  }
  for (const std::vector<int>& end : ends) {
    for (const int i : end) {
      if (labels[i].bytes <= bytes && labels[i].seconds < best.seconds) {
        best = path_to(labels, labels[i]);
      }
    }
  }
}

// Step 2 and 3 for one W; whatever is no faster than `known_s` need not be found.
Path fastest_path(const Chain& chain, double bytes, double known_s, double close) {
  const Priced priced = best_price(chain, bytes);
  Path best = priced.best;
  if (priced.price == 0 || priced.bound >= known_s || best.seconds <= priced.bound * (1 + close)) {
    return best;  // the fastest of all, none that counts, or good enough
  }
  const Back lightest = from_back(chain, {.second = 0, .byte = 1});
  const double gap = best.seconds - priced.bound;
  // Half of what may be lost is lost by labels that are dropped.
  const auto wanted_s = [&] { return best.seconds / (1 + close / 2); };
  for (double radius = gap / kFirstRadius; wanted_s() > priced.bound + radius / kRadiusGrowth;
       radius *= kRadiusGrowth) {
    search_below(chain, priced, bytes, std::min(priced.bound + radius, wanted_s()), lightest, close,
                 best);
  }
  return best;
}

}  // namespace

ChainWay sum_of_ways(const WayChain& chain, const std::vector<int>& ways) {
  ChainWay sum;
  for (std::size_t l = 0; l < ways.size(); ++l) {
    const ChainWay& way = chain.menus[chain.menu_of[l]][ways[l]];
    sum.seconds += way.seconds;
    sum.bytes += way.bytes;
    sum.working_bytes = std::max(sum.working_bytes, way.working_bytes);
  }
  return sum;
}

WayChainAnswer fastest_ways(const WayChain& chain, double bytes, double close) {
  std::set<double, std::greater<>> working;  // the largest first: it often fits, and none is faster
  for (const int menu : chain.menu_of) {
    for (const ChainWay& way : chain.menus[menu]) {
      working.insert(way.working_bytes);
    }
  }
  WayChainAnswer answer;
  double least_s = 0;  // of ways of at most this working memory
  for (const double most : working) {
    const double enough_s = answer.seconds / (1 + close);
    if (most > bytes || least_s >= enough_s) {
      continue;
    }
    const Chain own(chain, most);
    const Back back = from_back(own, {.second = 1, .byte = 0});
    least_s = back[0][own.any()];
    if (least_s >= enough_s) {
      continue;
    }
    const Path path = fastest_path(own, bytes - most, enough_s, close);
    if (path.seconds < answer.seconds) {
      answer = {.seconds = path.seconds, .ways = path.ways};
    }
  }
  return answer;
}

}  // namespace weft
