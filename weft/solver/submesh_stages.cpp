// min  sum t_i + (m - 1) max t_i
//
// For a limit r of max t_i the least sum comes from a dynamic program from the back,
//
//   f_s(i, d) = min over end j and size n with t(n, i, j) <= r of  t(n, i, j) + f_(s-1)(j, d - n)
//
// for s stages from place i on d devices; s also says how many micro-batches are in flight. The
// least r for which there is any cut is found by bisection and gives the first answer. A better one
// with the largest stage below r has a sum of at least the sum at r, S(r), so a larger r than
// (best - S(r)) / (m - 1) need not be tried: from the top, r jumps down until it is below the
// least.

#include "weft/solver/submesh_stages.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Cuts {
 public:
  explicit Cuts(const SubmeshProblem& problem)
      : problem_(problem),
        stages_(std::min({problem.most_stages, problem.places, problem.devices})),
        in_flight_(std::min(stages_, problem.micro_batches)) {
    const int n = problem.places;
    seconds_.reserve(in_flight_ * problem.sizes.size() * n * n);
    for (int k = 1; k <= in_flight_; ++k) {
      for (std::size_t size = 0; size < problem.sizes.size(); ++size) {
        for (int i = 0; i < n; ++i) {
          for (int j = 1; j <= n; ++j) {
            seconds_.push_back(j > i ? problem.seconds(static_cast<int>(size), i, j, k) : kNever);
          }
        }
      }
    }
  }

  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> values = seconds_;
    std::erase(values, kNever);
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    return values;
  }

  // The least sum with no stage above the limit; its stages, or none.
  [[nodiscard]] std::vector<SubmeshStage> cut(double limit) {
    best_.assign(stages_ + 1, std::vector<double>((problem_.places + 1) * width(), kNever));
    best_[0][problem_.places * width()] = 0;
    for (int s = 1; s <= stages_; ++s) {
      for (int i = problem_.places - s; i >= 0; --i) {
        extend(s, i, limit);
      }
    }
    int stages = 0;
    for (int s = 1; s <= stages_; ++s) {
      if (at(s, 0, problem_.devices) < at(stages, 0, problem_.devices)) {
        stages = s;
      }
    }
    return stages == 0 ? std::vector<SubmeshStage>{} : trace(stages, limit);
  }

  // Sum and maximum of the stages.
  [[nodiscard]] std::pair<double, double> costs(const std::vector<SubmeshStage>& stages) const {
    double sum = 0;
    double most = 0;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      const SubmeshStage& stage = stages[i];
      const double t =
          seconds(static_cast<int>(stages.size() - i), stage.size, stage.begin, stage.end);
      sum += t;
      most = std::max(most, t);
    }
    return {sum, most};
  }

 private:
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(problem_.devices) + 1; }
  [[nodiscard]] double at(int stages, int place, int devices) const {
    return best_[stages][place * width() + devices];
  }
  // Of the first of so many stages.
  [[nodiscard]] double seconds(int stages, int size, int begin, int end) const {
    const int k = std::min(stages, in_flight_) - 1;
    const auto n = static_cast<std::size_t>(problem_.places);
    return seconds_[((k * problem_.sizes.size() + size) * n + begin) * n + end - 1];
  }

  void extend(int s, int i, double limit) {
    double* here = &best_[s][i * width()];
    for (std::size_t size = 0; size < problem_.sizes.size(); ++size) {
      const int n = problem_.sizes[size];
      for (int j = i + 1; j <= problem_.places; ++j) {
        const double t = seconds(s, static_cast<int>(size), i, j);
        if (!(t <= limit) || n > problem_.devices) {
          break;
        }
        const double* rest = &best_[s - 1][j * width()];
        for (int d = n; d <= problem_.devices; ++d) {
          here[d] = std::min(here[d], t + rest[d - n]);
        }
      }
    }
  }

  [[nodiscard]] std::vector<SubmeshStage> trace(int s, double limit) const {
    std::vector<SubmeshStage> stages;
    int i = 0;
    int devices = problem_.devices;
    for (; s > 0; --s) {
      SubmeshStage found;
      for (std::size_t size = 0; size < problem_.sizes.size() && found.end == 0; ++size) {
        const int n = problem_.sizes[size];
        for (int j = i + 1; j <= problem_.places && n <= devices && found.end == 0; ++j) {
          const double t = seconds(s, static_cast<int>(size), i, j);
          if (t <= limit && t + at(s - 1, j, devices - n) == at(s, i, devices)) {
            found = {.size = static_cast<int>(size), .begin = i, .end = j};
          }
        }
      }
      stages.push_back(found);
      i = found.end;
      devices -= problem_.sizes[found.size];
    }
    return stages;
  }

  const SubmeshProblem& problem_;
  int stages_;
  int in_flight_;
  std::vector<double> seconds_;            // [in flight - 1][size][begin][end - 1]
  std::vector<std::vector<double>> best_;  // f: by stages, [place][devices]
};

}  // namespace

SubmeshAnswer best_submeshes(const SubmeshProblem& problem) {
  Cuts cuts(problem);
  const std::vector<double> values = cuts.values();
  SubmeshAnswer answer;
  if (values.empty() || cuts.cut(values.back()).empty()) {
    return answer;
  }
  std::size_t low = 0;
  std::size_t high = values.size() - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (cuts.cut(values[middle]).empty()) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const double least = values[low];
  const double more = problem.micro_batches - 1;
  const auto take = [&](std::vector<SubmeshStage> stages) {
    const auto [sum, most] = cuts.costs(stages);
    if (sum + more * most < answer.seconds) {
      answer = {.seconds = sum + more * most, .stages = std::move(stages)};
    }
    return std::pair{sum, most};
  };
  take(cuts.cut(least));
  double limit = values.back();
  while (limit >= least) {
    const auto [sum, most] = take(cuts.cut(limit));
    const double below = std::nextafter(most, 0);
    limit = more > 0 ? std::min(below, (answer.seconds - sum) / more) : 0;
  }
  return answer;
}

}  // namespace weft
