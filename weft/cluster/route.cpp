// The best path is the widest; among these the quickest, then the shortest, then the first by link
// ids. Width and latency do not add up in one label, so two searches run from the target backwards:
//
//   1. width(v) = max over links v -> u of min(bandwidth, width(u))        gives the width W
//   2. (latency, hops)(v) = min over links with bandwidth >= W of (latency, 1) + (latency, hops)(u)
//
// Whatever gives v its label has fewer hops and no more latency, so it is settled before v, and v
// can keep the lowest link id among equals: following these links gives the lowest list of ids.
//
// Devices pass nothing on for others, so the searches visit switches only, and the source's own
// links are tried at the end. If that finds no path, any vertex may pass data on.

#include "weft/cluster/route.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "weft/base/error.h"

namespace weft {

Routes::Routes(const Cluster& cluster)
    : cluster_(&cluster),
      outgoing_(index_links(&Link::from, false)),
      incoming_(index_links(&Link::to, false)),
      incoming_relays_(index_links(&Link::to, true)),
      labels_(vertex_count(cluster)) {
}

bool Routes::relays(int vertex) const {
  const int devices = static_cast<int>(cluster_->devices.size());
  const int hosts = static_cast<int>(cluster_->hosts.size());
  return vertex >= devices && (vertex < devices + hosts || vertex == fabric_vertex(*cluster_));
}

// Counting sort, so the links of a vertex stay in the order of their ids.
Routes::Index Routes::index_links(int Link::*end, bool from_relays_only) const {
  const std::vector<Link>& links = cluster_->links;
  const auto wanted = [&](const Link& link) { return !from_relays_only || relays(link.from); };
  Index index;
  index.first.assign(vertex_count(*cluster_) + 1, 0);
  for (const Link& link : links) {
    index.first.at(link.*end + 1) += wanted(link) ? 1 : 0;
  }
  for (std::size_t v = 1; v < index.first.size(); ++v) {
    index.first[v] += index.first[v - 1];
  }
  index.links.resize(index.first.back());
  std::vector<int> next = index.first;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (wanted(links[i])) {
      index.links[next[links[i].*end]++] = static_cast<int>(i);
    }
  }
  return index;
}

void Routes::clear_labels() {
  for (const int vertex : labelled_) {
    labels_[vertex] = {};
  }
  labelled_.clear();
}

// The width of the widest path, negative if there is none.
double Routes::widest(DeviceId from, DeviceId to, const Index& incoming) {
  clear_labels();
  std::priority_queue<std::pair<double, int>> open;
  const auto relax = [&](int vertex, double width) {
    if (width > labels_[vertex].width) {
      labels_[vertex].width = width;
      labelled_.push_back(vertex);
      open.emplace(width, vertex);
    }
  };
  relax(to, std::numeric_limits<double>::infinity());
  while (!open.empty()) {
    const auto [width, vertex] = open.top();
    open.pop();
    if (width < labels_[vertex].width) {
      continue;  // a wider way came after this entry
    }
    for (int i = incoming.first[vertex]; i < incoming.first[vertex + 1]; ++i) {
      const Link& link = cluster_->links[incoming.links[i]];
      relax(link.from, std::min(width, link.bandwidth));
    }
  }
  double best = -1;
  for (int i = outgoing_.first[from]; i < outgoing_.first[from + 1]; ++i) {
    const Link& link = cluster_->links[outgoing_.links[i]];
    best = std::max(best, std::min(link.bandwidth, labels_[link.to].width));
  }
  return best;
}

// Labels every vertex that reaches the target over links at least this wide.
void Routes::quickest(DeviceId to, double width, const Index& incoming) {
  clear_labels();
  using Entry = std::tuple<double, int, int>;  // latency, hops, vertex
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  const auto relax = [&](int link_id, double latency_s, int hops) {
    const Link& link = cluster_->links[link_id];
    Label& label = labels_[link.from];
    if (link.bandwidth < width) {
      return;
    }
    latency_s += link.latency_s;
    const bool fresh = label.width < 0;
    if (fresh || std::tie(latency_s, hops, link_id) <
                     std::tie(label.latency_s, label.hops, label.next_link)) {
      const bool queued = !fresh && latency_s == label.latency_s && hops == label.hops;
      label = {.width = width, .latency_s = latency_s, .hops = hops, .next_link = link_id};
      labelled_.push_back(link.from);
      if (!queued) {
        open.emplace(latency_s, hops, link.from);
      }
    }
  };
  labels_[to] = {.width = width};
  labelled_.push_back(to);
  open.emplace(0.0, 0, to);
  while (!open.empty()) {
    const auto [latency_s, hops, vertex] = open.top();
    open.pop();
    if (std::tie(latency_s, hops) > std::tie(labels_[vertex].latency_s, labels_[vertex].hops)) {
      continue;
    }
    for (int i = incoming.first[vertex]; i < incoming.first[vertex + 1]; ++i) {
      relax(incoming.links[i], latency_s, hops + 1);
    }
  }
}

std::vector<int> Routes::search(DeviceId from, DeviceId to, const Index& incoming) {
  const double width = widest(from, to, incoming);
  if (width < 0) {
    return {};
  }
  quickest(to, width, incoming);
  int first = -1;
  std::tuple<double, int> best;
  for (int i = outgoing_.first[from]; i < outgoing_.first[from + 1]; ++i) {
    const Link& link = cluster_->links[outgoing_.links[i]];
    const Label& rest = labels_[link.to];
    if (link.bandwidth < width || rest.width < 0) {
      continue;
    }
    const std::tuple<double, int> whole{rest.latency_s + link.latency_s, rest.hops + 1};
    if (first < 0 || whole < best) {
      first = outgoing_.links[i];
      best = whole;
    }
  }
  std::vector<int> path;
  for (int link = first; link >= 0; link = labels_[cluster_->links[link].to].next_link) {
    path.push_back(link);
  }
  return path;
}

const std::vector<int>& Routes::between(DeviceId from, DeviceId to) {
  const int devices = static_cast<int>(cluster_->devices.size());
  WEFT_CHECK(from >= 0 && from < devices && to >= 0 && to < devices);
  const std::uint64_t key =
      static_cast<std::uint64_t>(from) << 32U | static_cast<std::uint32_t>(to);
  const auto place = known_.find(key);
  if (place != known_.end()) {
    return place->second;
  }
  std::vector<int> path;
  if (from != to) {
    path = search(from, to, incoming_relays_);
    if (path.empty()) {
      path = search(from, to, incoming_);
    }
    WEFT_CHECK(!path.empty());  // `violations` refuses a cluster without this path
  }
  return known_.emplace(key, std::move(path)).first->second;
}

std::vector<int> route(const Cluster& cluster, DeviceId from, DeviceId to) {
  return Routes(cluster).between(from, to);
}

}  // namespace weft
