// The cluster file that people write, for a cluster of one host whose devices have the same links.

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/cluster/cluster.h"
#include "weft/cluster/type_json.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// A file says of a link between devices what two links to the switch take together.
Json link_json(const Json& between, const Link& link, double latency_s) {
  return {{"between", between},
          {"bandwidth", link.bandwidth},
          {"latency", latency_s},
          {"origin", origin_name(link.origin)}};
}

}  // namespace

std::string cluster_file_text(const Cluster& cluster) {
  require(cluster.hosts.size() == 1, "a profile is of one host; this cluster has {}",
          cluster.hosts.size());
  const Host& host = cluster.hosts[0];
  Json devices = Json::array();
  for (std::size_t first = 0; first < cluster.devices.size();) {
    std::size_t end = first;
    while (end < cluster.devices.size() &&
           cluster.devices[end].type == cluster.devices[first].type) {
      ++end;
    }
    Json device = device_to_json(cluster.types[cluster.devices[first].type]);
    device["type"] = cluster.types[cluster.devices[first].type].name;
    device["count"] = end - first;
    devices.push_back(std::move(device));
    first = end;
  }
  Json links = Json::array();
  if (const Link* link = find_link(cluster, 0, switch_vertex(cluster, 0))) {
    links.push_back(link_json("devices", *link, 2 * link->latency_s));
  }
  if (const Link* link = find_link(cluster, 0, memory_vertex(cluster, 0))) {
    links.push_back(link_json(Json::array({"devices", "host"}), *link, link->latency_s));
  }
  Json one = {{"name", host.name}};
  if (host.memory_bytes > 0) {
    one["memory"] = host.memory_bytes;
  }
  if (host.disk_bandwidth > 0) {
    one["disk"] = {{"bandwidth", host.disk_bandwidth}};
  }
  if (!host.collectives.empty()) {
    one["collectives"] = collectives_to_json(host.collectives);
  }
  one["origin"] = origins_to_json(host.origins);
  one["devices"] = devices;
  one["links"] = links;
  Json file = {{"hosts", Json::array({one})}};
  return file.dump(2) + "\n";
}

}  // namespace weft
