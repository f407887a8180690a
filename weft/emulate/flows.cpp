// Flows that share links.
//
// A flow f that runs at the part r_f of its full speed takes u_fl r_f of link l. No link gives more
// than it has:
//
//   sum over f of u_fl r_f <= 1 for every link l,   0 <= r_f <= 1
//
// Links are shared as transport protocols share them, max-min fair: all flows take the same part y
// of the link that they load most, r_f = y / max_l u_fl, and y rises from 0. A flow stops to rise
// when it has its full speed or one of its links is full; the others go on.
//
// Speeds change only when a flow begins or ends, so time goes from one such event to the next.

#include "weft/emulate/flows.h"

#include <algorithm>
#include <map>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNothing = 1e-9;  // of a flow or a link

double largest_share(const LinkFlow& flow) {
  double largest = 0;
  for (int i = 0; i < flow.share_count; ++i) {
    largest = std::max(largest, flow.shares[i].share);
  }
  return largest;
}

struct Filling {
  double fixed = 0;   // taken by flows that rise no more
  double rising = 0;  // taken by the others for each unit of y
};

/// The y at which the first rising flow must stop.
double next_level(const std::map<int, Filling>& links, const std::vector<double>& peaks,
                  const std::vector<char>& rises) {
  double level = kNever;
  for (std::size_t f = 0; f < peaks.size(); ++f) {
    level = rises[f] != 0 ? std::min(level, peaks[f]) : level;
  }
  for (const auto& [link, filling] : links) {
    if (filling.rising > 0) {
      level = std::min(level, std::max(0.0, 1 - filling.fixed) / filling.rising);
    }
  }
  return level;
}

}  // namespace

std::vector<double> fair_speeds(const std::vector<const LinkFlow*>& flows) {
  std::vector<double> speeds(flows.size(), 1);
  std::vector<double> peaks;
  std::vector<char> rises;
  for (const LinkFlow* flow : flows) {
    peaks.push_back(largest_share(*flow));
    rises.push_back(peaks.back() > 0 ? 1 : 0);
  }
  while (std::ranges::find(rises, 1) != rises.end()) {
    std::map<int, Filling> links;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      for (int i = 0; i < flows[f]->share_count; ++i) {
        const LinkShare& use = flows[f]->shares[i];
        Filling& filling = links[use.link];
        (rises[f] != 0 ? filling.rising : filling.fixed) +=
            rises[f] != 0 ? use.share / peaks[f] : use.share * speeds[f];
      }
    }
    const double level = next_level(links, peaks, rises);
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (rises[f] == 0) {
        continue;
      }
      bool stops = peaks[f] <= level * (1 + kNothing);
      for (int i = 0; i < flows[f]->share_count && !stops; ++i) {
        const Filling& filling = links[flows[f]->shares[i].link];
        stops = filling.fixed + filling.rising * level >= 1 - kNothing;
      }
      if (stops) {
        speeds[f] = std::min(1.0, level / peaks[f]);
        rises[f] = 0;
      }
    }
  }
  return speeds;
}

void move_flows(std::vector<LinkFlow*>& flows, double from_s, double to_s) {
  double now_s = from_s;
  while (now_s < to_s) {
    std::vector<const LinkFlow*> running;
    std::vector<LinkFlow*> changing;
    double event_s = to_s;
    for (LinkFlow* flow : flows) {
      if (flow->end_s >= 0) {
        continue;
      }
      if (flow->start_s > now_s) {
        event_s = std::min(event_s, flow->start_s);
      } else {
        running.push_back(flow);
        changing.push_back(flow);
      }
    }
    const std::vector<double> speeds = fair_speeds(running);
    std::vector<double> ends;
    for (std::size_t f = 0; f < running.size(); ++f) {
      const double speed = std::max(speeds[f], kNothing);
      ends.push_back(now_s + running[f]->left * running[f]->alone_s / speed);
      event_s = std::min(event_s, ends.back());
    }
    if (event_s == kNever) {
      return;  // nothing runs and nothing will
    }
    for (std::size_t f = 0; f < changing.size(); ++f) {
      LinkFlow& flow = *changing[f];
      if (ends[f] <= event_s + kNothing * flow.alone_s) {
        flow.left = 0;
        flow.end_s = ends[f];
      } else {
        flow.left *= 1 - (event_s - now_s) / (ends[f] - now_s);
      }
    }
    now_s = event_s;
  }
}

}  // namespace weft
