#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft::choice {

/// Relative error of sums in float32.
inline constexpr double kNoise = 1e-6;

/// What a search for the best price of memory found.
template <typename Point>
struct Dual {
  Point best = {};   // the least time within the cap, of all points seen
  double price = 0;  // with the best bound
  double bound = 0;  // no choice within the cap takes less time
};

/// Cutting planes for the price with the greatest bound. A point has a choice's `time` and `memory`
/// and `least`, below which no choice's priced total lies; `solve(price)` gives one of least
/// time + price * memory. `over` is the fastest point and needs more than the cap, `within` does
/// not. The price at which the two tie either shows a point below the line between them, which
/// replaces one of them, or is the best one.
template <typename Point, typename Solve>
Dual<Point> best_price(const Point& over, const Point& within, double cap, int most_prices,
                       const Solve& solve) {
  Dual<Point> dual{.best = within, .price = 0, .bound = over.least};
  Point low = over;
  Point high = within;
  for (int i = 0; i < most_prices; ++i) {
    const double price = (high.time - low.time) / (low.memory - high.memory);
    if (!(price > 0)) {
      break;
    }
    Point middle = solve(price);
    if (middle.least - price * cap > dual.bound || dual.price == 0) {
      dual.bound = std::max(dual.bound, middle.least - price * cap);
      dual.price = price;
    }
    if (middle.memory <= cap && middle.time < dual.best.time) {
      dual.best = middle;
    }
    const double line = low.time + price * low.memory;
    if (line - (middle.time + price * middle.memory) <= kNoise * std::abs(line)) {
      break;
    }
    (middle.memory > cap ? low : high) = std::move(middle);
  }
  return dual;
}

/// The same where points are not optimal, so that lines between them tell nothing: tries prices
/// around the one at which the two given points tie.
template <typename Point, typename Solve>
Dual<Point> best_of_prices(const Point& over, const Point& within, double cap, const Solve& solve) {
  Dual<Point> dual{.best = within, .price = 0, .bound = over.least};
  const double tie = (within.time - over.time) / (over.memory - within.memory);
  const auto consider = [&](double price) {
    Point point = solve(price);
    if (point.least - price * cap > dual.bound) {
      dual.bound = point.least - price * cap;
      dual.price = price;
    }
    if (point.memory <= cap && point.time < dual.best.time) {
      dual.best = std::move(point);
    }
  };
  for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0}) {
    if (tie > 0) {
      consider(factor * tie);
    }
  }
  for (const double factor : {0.7, 1.4}) {
    if (dual.price > 0) {
      consider(factor * dual.price);
    }
  }
  return dual;
}

/// Corners of the lower convex hull of (memory, time) from the fastest point to the one of least
/// memory, at most so many; where the hull leaves most room between two corners, it looks first.
template <typename Point, typename Solve>
std::vector<Point> lower_hull(const Point& fastest, const Point& smallest, int most,
                              const Solve& solve) {
  std::vector<Point> corners = {fastest};
  if (smallest.memory < fastest.memory) {
    corners.push_back(smallest);
  }
  std::vector<char> closed(corners.size(), 0);  // nothing lies between this corner and the next
  const auto area = [&](std::size_t i) {
    return closed[i] != 0 ? 0.0
                          : (corners[i + 1].time - corners[i].time) *
                                (corners[i].memory - corners[i + 1].memory);
  };
  while (static_cast<int>(corners.size()) < most) {
    std::size_t i = 0;
    for (std::size_t j = 1; j + 1 < corners.size(); ++j) {
      i = area(j) > area(i) ? j : i;
    }
    if (corners.size() < 2 || !(area(i) > 0)) {
      break;
    }
    const Point& low = corners[i];
    const Point& high = corners[i + 1];
    const double price = (high.time - low.time) / (low.memory - high.memory);
    Point middle = solve(price);
    const double line = low.time + price * low.memory;
    const double fall = line - (middle.time + price * middle.memory);
    if (fall <= kNoise * std::abs(line) || middle.memory >= low.memory ||
        middle.memory <= high.memory) {
      closed[i] = 1;
      continue;
    }
    const auto place = static_cast<std::ptrdiff_t>(i) + 1;
    corners.insert(corners.begin() + place, std::move(middle));
    closed.insert(closed.begin() + place, 0);
  }
  return corners;
}

}  // namespace weft::choice
