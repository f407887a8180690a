#include "weft/cluster/route.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <random>
#include <tuple>

#include "weft/base/error.h"

namespace weft {
namespace {

// Devices on one host each, links as given.
Cluster bare(int devices, int hosts) {
  Cluster cluster;
  cluster.types = {
      {.name = "d", .flops_per_s = {{"f32", 1e12}}, .memory_bytes = 1e9, .memory_bandwidth = 1e11}};
  for (int h = 0; h < hosts; ++h) {
    cluster.hosts.push_back({.name = "h" + std::to_string(h)});
  }
  for (int d = 0; d < devices; ++d) {
    cluster.devices.push_back({.type = 0, .host = d % hosts, .name = "d" + std::to_string(d)});
  }
  return cluster;
}

// Tries every simple path. Slow, obviously right, and so the judge of the fast search.
struct BruteForce {
  const Cluster& cluster;
  int to = 0;
  bool anything_relays = false;
  std::vector<int> path = {};
  std::vector<bool> seen = {};
  std::vector<int> best = {};

  using Rank = std::tuple<double, double, std::size_t, std::vector<int>>;
  [[nodiscard]] Rank rank(const std::vector<int>& links) const {
    double width = std::numeric_limits<double>::infinity();
    double latency_s = 0;
    for (const int link : links) {
      width = std::min(width, cluster.links[link].bandwidth);
      latency_s += cluster.links[link].latency_s;
    }
    return {-width, latency_s, links.size(), links};
  }
  [[nodiscard]] bool may_relay(int vertex) const {
    const int devices = static_cast<int>(cluster.devices.size());
    const bool memory = vertex >= memory_vertex(cluster, 0) && vertex < fabric_vertex(cluster);
    return anything_relays || (vertex >= devices && !memory);
  }
  void extend(int vertex) {
    if (vertex == to) {
      if (best.empty() || rank(path) < rank(best)) {
        best = path;
      }
      return;
    }
    for (std::size_t i = 0; i < cluster.links.size(); ++i) {
      const Link& link = cluster.links[i];
      if (link.from == vertex && !seen[link.to] && (link.to == to || may_relay(link.to))) {
        seen[link.to] = true;
        path.push_back(static_cast<int>(i));
        extend(link.to);
        path.pop_back();
        seen[link.to] = false;
      }
    }
  }
  std::vector<int> run(int from) {
    for (const bool relay : {false, true}) {
      anything_relays = relay;
      seen.assign(vertex_count(cluster), false);
      seen[from] = true;
      extend(from);
      if (!best.empty()) {
        break;
      }
    }
    return best;
  }
};

// Few different speeds, so that ties are common; latencies add up without rounding.
Cluster random_cluster(std::mt19937& random, int devices, int hosts, int links) {
  Cluster cluster = bare(devices, hosts);
  std::uniform_int_distribution<int> vertex(0, vertex_count(cluster) - 1);
  std::uniform_int_distribution<int> speed(1, 3);
  while (static_cast<int>(cluster.links.size()) < links) {
    const Link link{vertex(random), vertex(random), 1e9 * speed(random), speed(random) / 1024.0};
    if (link.from != link.to) {
      cluster.links.push_back(link);
    }
  }
  return cluster;
}

TEST(Route, IsTheBestOfAllSimplePaths) {
  int found = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const Cluster cluster = random_cluster(random, 3, 2, 12 + static_cast<int>(seed % 9));
    Routes routes(cluster);
    for (int from = 0; from < 3; ++from) {
      for (int to = 0; to < 3; ++to) {
        const std::vector<int> expected =
            from == to ? std::vector<int>{} : BruteForce{.cluster = cluster, .to = to}.run(from);
        if (from != to && expected.empty()) {
          EXPECT_THROW((void)routes.between(from, to), Error);
          continue;
        }
        ++found;
        EXPECT_EQ(routes.between(from, to), expected) << seed << ": " << from << " to " << to;
        EXPECT_EQ(route(cluster, from, to), expected);
      }
    }
  }
  EXPECT_GT(found, 200);
}

TEST(Route, PrefersTheWideDetour) {
  Cluster cluster = bare(2, 1);
  const int hub = switch_vertex(cluster, 0);
  cluster.links = {{0, 1, 1e9, 1e-6}, {0, hub, 2e9, 1e-3}, {hub, 1, 2e9, 1e-3}};
  EXPECT_EQ(route(cluster, 0, 1), (std::vector<int>{1, 2}));
  cluster.links[0].bandwidth = 2e9;  // as wide, and quicker
  EXPECT_EQ(route(cluster, 0, 1), (std::vector<int>{0}));
}

TEST(Route, DevicesRelayOnlyIfTheyMust) {
  Cluster cluster = bare(3, 1);
  const int hub = switch_vertex(cluster, 0);
  // 0 -> 1 -> 2 is wide, over the switch is narrow.
  cluster.links = {{0, 1, 9e9, 0}, {1, 2, 9e9, 0}, {0, hub, 1e9, 0}, {hub, 2, 1e9, 0}};
  EXPECT_EQ(route(cluster, 0, 2), (std::vector<int>{2, 3}));
  cluster.links.resize(2);
  EXPECT_EQ(route(cluster, 0, 2), (std::vector<int>{0, 1}));
}

TEST(Route, FailedSearchIsNotKept) {
  Cluster cluster = bare(2, 1);
  cluster.links = {{0, 1, 1e9, 0}};
  Routes routes(cluster);
  EXPECT_THROW((void)routes.between(1, 0), Error);
  EXPECT_THROW((void)routes.between(1, 0), Error);
}

TEST(Route, ShorthandUsesTheSwitchInsideAndTheFabricBetweenHosts) {
  const Cluster cluster = parse_cluster("2x4xA100-80GB");
  const auto vertices = [&](int from, int to) {
    std::vector<int> list = {from};
    for (const int link : route(cluster, from, to)) {
      list.push_back(cluster.links[link].to);
    }
    return list;
  };
  EXPECT_EQ(vertices(0, 3), (std::vector<int>{0, switch_vertex(cluster, 0), 3}));
  EXPECT_EQ(vertices(5, 4), (std::vector<int>{5, switch_vertex(cluster, 1), 4}));
  EXPECT_EQ(vertices(0, 4), (std::vector<int>{0, fabric_vertex(cluster), 4}));
}

TEST(Route, AThousandDevicesAreQuick) {
  const Cluster cluster = parse_cluster("128x8xA100-80GB");
  const std::clock_t start = std::clock();  // processor time: other work does not disturb it
  Routes routes(cluster);
  std::size_t hops = 0;
  for (int i = 0; i < 1024; ++i) {
    hops += routes.between(i, (i + 8) % 1024).size();
  }
  EXPECT_EQ(hops, 2048U);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, 10);  // a few ms; not minutes
}

}  // namespace
}  // namespace weft
