// With t_s the seconds of a micro-batch in stage s and x_s of sending it on, the step of m
// micro-batches is
//
//   (m - 1) r + sum (t_s + 2 x_s),   r = max (t_s + 2 x_s)
//
// since with as few micro-batches in flight as 1F1B has, a stage waits for what it sends to come
// back. t_s depends on the number of stages behind s, which says how many micro-batches are in
// flight. So both recursions go from the last stage to the first, w stages on the devices from p
// on:
//
//   reach_w(p)   the earliest layer from which w stages cover the rest, none with t_s > r. A stage
//                that ends earlier may begin earlier, so for each run of devices only the earliest
//                end counts, and bisection finds the beginning. The least r is found by bisection.
//                Sends are left out, so no cut has a smaller r.
//   sum_w(p, l)  the least sum of t_s + 2 x_s of w stages from layer l on, none above a limit of r.
//                Only for layers l that the devices before p can reach with stages within the
//                limit, if each has one micro-batch in flight.
//
// Let c be the best step so far and b the sum without the limit and with one micro-batch in flight.
// A better cut has (m - 1) r + b < c: that is the first limit. The answer for a limit has some r;
// no better answer has a larger one, so the next limit lies below that, by the precision, until the
// least r is reached.

#include "weft/solver/mesh_cut.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kPrecision = 1e-3;  // of the least r
constexpr int kDoublings = 60;

// By device, and one behind the last: the host's number, or that of the host that begins there.
std::vector<int> hosts_of(const std::vector<int>& hosts) {
  std::vector<int> host_of;
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    host_of.insert(host_of.end(), hosts[h], static_cast<int>(h));
  }
  host_of.push_back(static_cast<int>(hosts.size()));
  return host_of;
}

bool may_run(const std::vector<int>& host_of, int first, int size) {
  const int end = first + size;
  if (end >= static_cast<int>(host_of.size())) {
    return false;
  }
  const bool whole_hosts =
      (first == 0 || host_of[first - 1] != host_of[first]) && host_of[end - 1] != host_of[end];
  return whole_hosts || host_of[first] == host_of[end - 1];
}

class Cutter {
 public:
  explicit Cutter(const MeshCutProblem& problem)
      : p_(problem),
        host_of_(hosts_of(problem.hosts)),
        devices_(static_cast<int>(host_of_.size()) - 1),
        sizes_(static_cast<int>(problem.sizes.size())),
        flights_(std::min(problem.most_stages, problem.micro_batches)),
        known_(static_cast<std::size_t>(sizes_) * flights_ * (p_.layers + 1) * (p_.layers + 1),
               -1) {}

  MeshCut run() {
    const double least = least_limit();
    if (least == kNever) {
      return {};
    }
    const double more = p_.micro_batches - 1;
    const double others = sum_bound();
    MeshCut best;
    double limit = least;
    // Sends may need a larger limit than the stages do.
    for (int i = 0; i < kDoublings && best.stages.empty(); ++i, limit *= 2) {
      best = least_sum(limit);
    }
    if (best.stages.empty()) {
      best = least_sum(kNever);
    }
    limit = more > 0 ? (best.step_s - others) / more : kNever;
    while (limit >= least * (1 - 2 * kPrecision)) {
      const MeshCut cut = least_sum(limit);
      if (cut.step_s < best.step_s) {
        best = cut;
      }
      if (cut.stages.empty() || more == 0) {
        break;
      }
      limit = std::min(below(std::min(limit, slowest(cut))), (best.step_s - others) / more);
    }
    place(best);
    return best;
  }

 private:
  struct Entry {
    double sum = kNever;
    int size = -1;  // of the first stage; -1: its device stays idle
    int end = 0;
  };

  [[nodiscard]] double below(double limit) const {
    return std::min(std::nextafter(limit, 0), limit * (1 - p_.precision));
  }

  double seconds(int size, int behind, int first, int end) {
    behind = std::min(behind, flights_ - 1);
    if (!p_.like.empty()) {
      const int like = p_.like[static_cast<std::size_t>(first) * (p_.layers + 1) + end];
      end += like - first;
      first = like;
    }
    double& known =
        known_[((static_cast<std::size_t>(size) * flights_ + behind) * (p_.layers + 1) + first) *
                   (p_.layers + 1) +
               end];
    if (known < 0) {
      known = p_.seconds(size, behind, first, end);
    }
    return known;
  }

  // The least r of stages alone, to the precision and possible; infinite if nothing fits.
  double least_limit() {
    double high = kNever;
    if (!reaches(high)) {
      return kNever;
    }
    double low = 0;
    for (int s = 0; s < sizes_; ++s) {
      high = std::min(high, seconds(s, 0, 0, p_.layers));
    }
    high = high == kNever ? 1 : high;
    for (int i = 0; i < kDoublings && !reaches(high); ++i) {
      low = high;
      high *= 2;
    }
    while (high - low > kPrecision * high) {
      const double middle = (low + high) / 2;
      (reaches(middle) ? high : low) = middle;
    }
    return high;
  }

  bool reaches(double limit) {
    std::vector<int> reach(static_cast<std::size_t>(devices_) + 1, p_.layers);
    for (int w = 1; w <= p_.most_stages; ++w) {
      std::vector<int> next(reach.size(), p_.layers + 1);
      for (int d = devices_ - 1; d >= 0; --d) {
        next[d] = next[d + 1];
        for (int s = 0; s < sizes_; ++s) {
          const int size = p_.sizes[s];
          if (may_run(host_of_, d, size)) {
            next[d] = std::min(next[d], earliest(s, w, reach[d + size], limit));
          }
        }
      }
      reach = std::move(next);
      if (w >= p_.fewest_stages && reach[0] == 0) {
        return true;
      }
    }
    return false;
  }

  // The first layer of a stage, the w-th from the end, that ends at a layer.
  int earliest(int size, int w, int end, double limit) {
    const int least = std::max(0, p_.fewest_stages - w);  // each stage before has a layer
    if (end > p_.layers || end <= least || !(seconds(size, w - 1, end - 1, end) <= limit)) {
      return p_.layers + 1;
    }
    int low = least;
    int high = end - 1;
    while (low < high) {
      const int middle = (low + high) / 2;
      if (seconds(size, w - 1, middle, end) <= limit) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // The least sum of t_s over all cuts, if each stage had one micro-batch in flight.
  double sum_bound() {
    std::vector<double> sum(static_cast<std::size_t>(p_.layers) + 1, kNever);
    sum[p_.layers] = 0;
    for (int l = p_.layers - 1; l >= 0; --l) {
      for (int end = l + 1; end <= p_.layers; ++end) {
        for (int s = 0; s < sizes_; ++s) {
          sum[l] = std::min(sum[l], sum[end] + seconds(s, 0, l, end));
        }
      }
    }
    return sum[0];
  }

  // By device: how many layers the devices before it can take.
  std::vector<int> fronts(double limit) {
    std::vector<int> front(static_cast<std::size_t>(devices_) + 1, 0);
    for (int d = 0; d < devices_; ++d) {
      front[d + 1] = std::max(front[d + 1], front[d]);
      for (int s = 0; s < sizes_; ++s) {
        if (may_run(host_of_, d, p_.sizes[s])) {
          int& reached = front[d + p_.sizes[s]];
          reached = std::max(reached, latest(s, front[d], limit));
        }
      }
    }
    return front;
  }

  // The last end of a stage from a layer on.
  int latest(int size, int first, double limit) {
    int low = first;
    int high = p_.layers;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (seconds(size, 0, first, middle) <= limit) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  Entry& entry(int w, int device, int layer) {
    return entries_[(static_cast<std::size_t>(w) * (devices_ + 1) + device) * (p_.layers + 1) +
                    layer];
  }

  MeshCut least_sum(double limit) {
    entries_.assign(static_cast<std::size_t>(p_.most_stages + 1) * (devices_ + 1) * (p_.layers + 1),
                    {});
    for (int d = 0; d <= devices_; ++d) {
      entry(0, d, p_.layers).sum = 0;
    }
    fronts_ = fronts(limit);
    for (int w = 1; w <= p_.most_stages; ++w) {
      for (int d = devices_ - 1; d >= 0; --d) {
        for (int l = 0; l < p_.layers; ++l) {
          entry(w, d, l) = {.sum = entry(w, d + 1, l).sum};
        }
        for (int s = 0; s < sizes_; ++s) {
          if (may_run(host_of_, d, p_.sizes[s])) {
            add_stages(w, d, s, limit);
          }
        }
      }
    }
    int best = 0;
    double least = kNever;
    for (int w = p_.fewest_stages; w <= p_.most_stages; ++w) {
      if (entry(w, 0, 0).sum < least) {
        least = entry(w, 0, 0).sum;
        best = w;
      }
    }
    return best == 0 ? MeshCut{} : follow(best);
  }

  // All stages of a size from a device on, the w-th from the end.
  void add_stages(int w, int device, int size, double limit) {
    const int next = device + p_.sizes[size];
    for (int end = w == 1 ? p_.layers : 1; end <= p_.layers; ++end) {
      const double rest = entry(w - 1, next, end).sum;
      if (rest == kNever) {
        continue;
      }
      const double sends = w == 1 ? 0 : 2 * p_.send_seconds(size, end);
      for (int first = std::min(end - 1, fronts_[device]); first >= 0; --first) {
        const double t = seconds(size, w - 1, first, end) + sends;
        if (!(t <= limit) || t == kNever) {
          break;
        }
        Entry& known = entry(w, device, first);
        if (t + rest < known.sum) {
          known = {.sum = t + rest, .size = size, .end = end};
        }
      }
    }
  }

  MeshCut follow(int w) {
    MeshCut cut;
    int layer = 0;
    for (int device = 0; w > 0;) {
      const Entry& here = entry(w, device, layer);
      if (here.size < 0) {
        ++device;
        continue;
      }
      cut.stages.push_back(
          {.first = layer, .end = here.end, .size = here.size, .first_device = device});
      device += p_.sizes[here.size];
      layer = here.end;
      --w;
    }
    const std::vector<double> t = times(cut);
    cut.step_s = (p_.micro_batches - 1) * slowest(cut) + std::accumulate(t.begin(), t.end(), 0.0);
    return cut;
  }

  // Of each stage, with its sends.
  std::vector<double> times(const MeshCut& cut) {
    std::vector<double> result;
    const int stages = static_cast<int>(cut.stages.size());
    for (int i = 0; i < stages; ++i) {
      const MeshCutStage& stage = cut.stages[i];
      const double send = i + 1 < stages ? p_.send_seconds(stage.size, stage.end) : 0;
      result.push_back(seconds(stage.size, stages - 1 - i, stage.first, stage.end) + 2 * send);
    }
    return result;
  }

  double slowest(const MeshCut& cut) {
    const std::vector<double> t = times(cut);
    return *std::ranges::max_element(t);
  }

  void place(MeshCut& cut) const {
    std::vector<int> sizes;
    for (const MeshCutStage& stage : cut.stages) {
      sizes.push_back(p_.sizes[stage.size]);
    }
    const std::vector<int> first = place_runs(p_.hosts, sizes);
    for (std::size_t i = 0; i < cut.stages.size(); ++i) {
      cut.stages[i].first_device = first[i];
    }
  }

  const MeshCutProblem& p_;
  std::vector<int> host_of_;
  int devices_;
  int sizes_;
  int flights_;                 // numbers of micro-batches in flight that differ
  std::vector<double> known_;   // by size, stages behind, first, end; less than 0: not asked yet
  std::vector<Entry> entries_;  // by w, device, layer
  std::vector<int> fronts_;     // by device
};

}  // namespace

MeshCut best_mesh_cut(const MeshCutProblem& problem) {
  return Cutter(problem).run();
}

std::vector<int> place_runs(const std::vector<int>& hosts, const std::vector<int>& sizes) {
  const std::vector<int> host_of = hosts_of(hosts);
  std::vector<int> first;
  int device = 0;
  for (const int size : sizes) {
    while (device + size < static_cast<int>(host_of.size()) && !may_run(host_of, device, size)) {
      ++device;
    }
    if (!may_run(host_of, device, size)) {
      return {};
    }
    first.push_back(device);
    device += size;
  }
  return first;
}

}  // namespace weft
