#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "weft/cluster/cluster.h"

namespace weft {

/// `route` for many pairs: the graph is indexed once and answers are kept. One thread at a time.
/// The cluster must outlive it.
///
/// A new pair costs O((s + l) log s) for s switches and l links between switches that can be
/// reached; that is O(1) in a shorthand's cluster of any size.
class Routes {
 public:
  explicit Routes(const Cluster& cluster);

  /// Valid as long as this object.
  [[nodiscard]] const std::vector<int>& between(DeviceId from, DeviceId to);

 private:
  // Links by one of their ends: those of vertex v are links[first[v]] .. links[first[v + 1] - 1].
  struct Index {
    std::vector<int> first;
    std::vector<int> links;
  };
  // The best way from a vertex to the target that is known so far.
  struct Label {
    double width = -1;  // bandwidth of the narrowest link; < 0: none known
    double latency_s = 0;
    int hops = 0;
    int next_link = -1;
  };

  [[nodiscard]] bool relays(int vertex) const;
  [[nodiscard]] Index index_links(int Link::*end, bool from_relays_only) const;
  [[nodiscard]] std::vector<int> search(DeviceId from, DeviceId to, const Index& incoming);
  [[nodiscard]] double widest(DeviceId from, DeviceId to, const Index& incoming);
  void quickest(DeviceId to, double width, const Index& incoming);
  void clear_labels();

  const Cluster* cluster_;
  Index outgoing_;
  Index incoming_;         // all links
  Index incoming_relays_;  // those that come from a switch or the fabric
  std::vector<Label> labels_;
  std::vector<int> labelled_;  // which labels to clear
  std::unordered_map<std::uint64_t, std::vector<int>> known_;
};

}  // namespace weft
