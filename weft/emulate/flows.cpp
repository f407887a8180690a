// Flows that share links. Speeds change only when a flow begins or ends, so time goes from one such
// event to the next.

#include "weft/emulate/flows.h"

#include <algorithm>

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kNothing = 1e-9;  // of a flow

}  // namespace

std::vector<double> fair_speeds(const std::vector<const LinkFlow*>& flows) {
  std::vector<Flow> sharing;
  int links = 0;
  for (const LinkFlow* flow : flows) {
    const std::span<const Use> uses(flow->uses, static_cast<std::size_t>(flow->use_count));
    for (const Use& use : uses) {
      links = std::max(links, use.resource + 1);
    }
    sharing.push_back({.uses = uses, .most = uses.empty() ? 1 : flow->most});
  }
  const std::vector<double> whole(static_cast<std::size_t>(links), 1.0);
  FairShare share(whole);
  share(sharing);
  std::vector<double> speeds;
  for (const Flow& flow : sharing) {
    speeds.push_back(flow.rate / flow.most);
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
