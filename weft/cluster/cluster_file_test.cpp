#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/cluster/catalogue.h"
#include "weft/cluster/cluster.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

// The example of the command line's contract.
const char* const kExample = R"({
  "hosts": [
    {"name": "a", "memory": "512GiB", "disk": {"bandwidth": "3GB/s"},
     "devices": [{"type": "A100-80GB", "count": 8}],
     "links": [{"between": "devices", "bandwidth": "300GB/s", "latency": "5us"},
               {"between": ["devices", "host"], "bandwidth": "25GB/s", "latency": "10us"}]},
    {"name": "b", "like": "a"}
  ],
  "links": [{"between": ["a", "b"], "bandwidth": "25GB/s", "latency": "10us"},
            {"between": ["a.0", "b.3"], "bandwidth": "50GB/s", "latency": "5us"}]
})";

Cluster read(const Json& json) {
  return cluster_from_json(json, "c.json");
}

std::string complaint(const Json& json) {
  try {
    (void)read(json);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

// The example with one value replaced.
std::string complaint_with(const char* pointer, const Json& value) {
  Json json = Json::parse(kExample);
  json[Json::json_pointer(pointer)] = value;
  return complaint(json);
}

std::vector<int> vertices(const Cluster& cluster, int from, int to) {
  std::vector<int> list = {from};
  for (const int link : route(cluster, from, to)) {
    list.push_back(cluster.links[link].to);
  }
  return list;
}

double latency(const Cluster& cluster, int from, int to) {
  double sum = 0;
  for (const int link : route(cluster, from, to)) {
    sum += cluster.links[link].latency_s;
  }
  return sum;
}

TEST(ClusterFile, TheExampleOfTheContract) {
  const Cluster cluster = read(Json::parse(kExample));
  ASSERT_EQ(cluster.devices.size(), 16U);
  EXPECT_EQ(cluster.devices[11].name, "b.3");
  EXPECT_EQ(cluster.hosts[1],
            (Host{.name = "b", .memory_bytes = 549755813888.0, .disk_bandwidth = 3e9}));
  const int a = switch_vertex(cluster, 0);
  const int b = switch_vertex(cluster, 1);
  EXPECT_EQ(vertices(cluster, 0, 7), (std::vector<int>{0, a, 7}));
  EXPECT_EQ(vertices(cluster, 1, 8), (std::vector<int>{1, a, b, 8}));
  EXPECT_EQ(vertices(cluster, 0, 11), (std::vector<int>{0, 11}));  // its own, wider link
  EXPECT_DOUBLE_EQ(latency(cluster, 0, 7), 5e-6);
  EXPECT_DOUBLE_EQ(latency(cluster, 1, 8), 15e-6);
  // All devices of a share one link to b.
  EXPECT_EQ(route(cluster, 1, 8)[1], route(cluster, 2, 9)[1]);
}

TEST(ClusterFile, LikeMayBeOverridden) {
  Json json = Json::parse(kExample);
  json["hosts"][1]["devices"] = {{{"type", "V100-16GB"}, {"count", 4}}};
  json["hosts"][1]["memory"] = "256GiB";
  const Cluster cluster = read(json);
  EXPECT_EQ(cluster.devices.size(), 12U);
  EXPECT_EQ(cluster.types.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster.hosts[1].memory_bytes, 256.0 * (1 << 30));
  EXPECT_DOUBLE_EQ(cluster.hosts[1].disk_bandwidth, 3e9);
}

TEST(ClusterFile, DevicesInFullAndOverrides) {
  const Cluster cluster = read(Json::parse(R"({"hosts": [{"name": "a", "devices": [
      {"type": "mine", "flops": {"f32": "10TFLOP/s", "bf16": 4e13}, "memory": "16GiB",
       "memory_bandwidth": "900GB/s", "efficiency": 0.5, "launch": "2us"},
      {"type": "T4", "memory": "8GiB"}],
      "links": [{"between": "devices", "bandwidth": "10GB/s"}]}]})"));
  EXPECT_EQ(cluster.types[0], (DeviceType{.name = "mine",
                                          .flops_per_s = {{"bf16", 4e13}, {"f32", 1e13}},
                                          .memory_bytes = 16.0 * (1 << 30),
                                          .memory_bandwidth = 900e9,
                                          .reserved_bytes = 0,
                                          .efficiency = 0.5,
                                          .launch_s = 2e-6}));
  DeviceType half = find_device("T4")->type;
  half.memory_bytes = 8.0 * (1 << 30);
  half.origins.exceptions["memory"] = Origin::spec;
  EXPECT_EQ(cluster.types[1], half);
}

TEST(ClusterFile, LinksLeftOutComeFromTheCatalogue) {
  const Cluster cluster = read(Json::parse(R"({
    "hosts": [{"name": "a", "devices": [{"type": "V100-16GB", "count": 2}]},
              {"name": "b", "devices": [{"type": "mine", "flops": {"f32": 1e12},
                                         "memory": 1e9, "memory_bandwidth": 1e11}]}],
    "links": [{"between": ["a", "b"], "bandwidth": "7GB/s", "latency": "3us"}]})"));
  EXPECT_DOUBLE_EQ(cluster.links[route(cluster, 0, 1)[0]].bandwidth, 0.77 * 150e9);
  const std::vector<int> path = route(cluster, 0, 2);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_DOUBLE_EQ(cluster.links[path[2]].bandwidth, 7e9);  // a lone device: as fast as its host
  EXPECT_DOUBLE_EQ(latency(cluster, 0, 2), 3.3e-6 + 3e-6);
}

TEST(ClusterFile, ARingOfDevicesIsNotASwitch) {
  const Cluster cluster = read(Json::parse(R"({
    "hosts": [{"name": "a", "devices": [{"type": "A100-80GB", "count": 4}]}],
    "links": [{"between": ["a.0", "a.1"], "bandwidth": "50GB/s"},
              {"between": ["a.1", "a.2"], "bandwidth": "50GB/s"},
              {"between": ["a.2", "a.3"], "bandwidth": "50GB/s"},
              {"between": ["a.3", "a.0"], "bandwidth": "50GB/s"}]})"));
  EXPECT_EQ(vertices(cluster, 0, 1), (std::vector<int>{0, 1}));
  EXPECT_EQ(vertices(cluster, 0, 2), (std::vector<int>{0, 1, 2}));
}

TEST(ClusterFile, MistakesNameTheirPlace) {
  EXPECT_THAT(complaint_with("/hosts/0/memory", "many"), HasSubstr("c.json: hosts[0].memory: "));
  EXPECT_THAT(complaint_with("/hosts/0/memory", -1), HasSubstr("hosts[0].memory: must be > 0"));
  EXPECT_THAT(complaint_with("/hosts/0/disk", 3), HasSubstr("hosts[0].disk: must be an object"));
  EXPECT_THAT(complaint_with("/hosts/0/devices/0/type", "A100"),
              AllOf(HasSubstr("hosts[0].devices[0].type"), HasSubstr("A100-80GB")));
  EXPECT_THAT(complaint_with("/hosts/0/devices/0/count", 0), HasSubstr("devices[0].count"));
  EXPECT_THAT(complaint_with("/hosts/0/devices/0/count", 90000), HasSubstr("more than 100000"));
  EXPECT_THAT(complaint_with("/hosts/0/devices", Json::array()), HasSubstr("at least one device"));
  EXPECT_THAT(complaint_with("/hosts/0/devices/0/flops", {{"fp99", 1}}),
              HasSubstr("unknown dtype 'fp99'"));
  EXPECT_THAT(complaint_with("/hosts/0/links/0/between", "gpus"),
              HasSubstr("hosts[0].links[0].between: must be \"devices\""));
  EXPECT_THAT(complaint_with("/hosts/0/links/1/between", "devices"), HasSubstr("given twice"));
  EXPECT_THAT(complaint_with("/hosts/0/links/0/bandwidth", "5us"),
              HasSubstr("hosts[0].links[0].bandwidth"));
  EXPECT_THAT(complaint_with("/hosts/1/like", "c"), HasSubstr("hosts[1].like"));
  EXPECT_THAT(complaint_with("/hosts/1/name", "a"), HasSubstr("two hosts have the name 'a'"));
  EXPECT_THAT(complaint_with("/hosts/1/name", "b.1"), HasSubstr("cannot be a host's name"));
  EXPECT_THAT(complaint_with("/hosts/1/speed", 1), HasSubstr("unknown key 'speed'"));
  EXPECT_THAT(complaint_with("/links/0/between", {"a", "c"}), HasSubstr("no host 'c'"));
  EXPECT_THAT(complaint_with("/links/0/between", {"a", "b.0"}), HasSubstr("not one of each"));
  EXPECT_THAT(complaint_with("/links/0/between", {"a", "a"}), HasSubstr("with itself"));
  EXPECT_THAT(complaint_with("/links/1/between", {"a.0", "b.8"}), HasSubstr("no device 'b.8'"));
  EXPECT_THAT(complaint_with("/links/1/between", {"b", "a"}), HasSubstr("two links join a and b"));
  EXPECT_THAT(complaint_with("/emulate", "yes"), HasSubstr("true, false or \"cpu-time\""));
  EXPECT_EQ(complaint_with("/emulate", true), "");
  EXPECT_EQ(complaint_with("/emulate", "cpu-time"), "");
  EXPECT_EQ(complaint_with("/emulate", false), "");
  EXPECT_THAT(complaint_with("/links", Json::array()), HasSubstr("a.0 and b.0 cannot reach"));
  EXPECT_THAT(complaint(Json::array()), HasSubstr("must be an object"));
  EXPECT_THAT(complaint(Json::object()), HasSubstr("'hosts' is missing"));
}

TEST(ClusterFile, EmulationComesBackFromItsOtherForm) {
  Json json = Json::parse(kExample);
  EXPECT_EQ(cluster_from_json(json, "test").emulation, Emulation::none);
  for (const Json& word : {Json(true), Json("cpu-time")}) {
    json["emulate"] = word;
    const Cluster cluster = cluster_from_json(json, "test");
    EXPECT_EQ(cluster.emulation, word == Json(true) ? Emulation::cost : Emulation::cpu_time);
    EXPECT_EQ(cluster_from_json(cluster_to_json(cluster), "test"), cluster);
  }
}

TEST(ClusterFile, EmulatedDevicesAreNotSlowedDownByTheirLinks) {
  Json json = Json::parse(kExample);
  json["hosts"][0]["devices"][0]["compute_slowdown"] = 2;
  json["hosts"][0]["devices"][0]["communication_slowdown"] = 3;
  EXPECT_EQ(cluster_from_json(json, "test").types[0].compute_slowdown, 2);
  EXPECT_EQ(cluster_from_json(json, "test").types[0].communication_slowdown, 3);
  json["emulate"] = true;
  EXPECT_EQ(cluster_from_json(json, "test").types[0].compute_slowdown, 1);
  EXPECT_EQ(cluster_from_json(json, "test").types[0].communication_slowdown, 1);
}

TEST(ClusterFile, AllMistakesAreToldAtOnce) {
  Json json = Json::parse(kExample);
  json["hosts"][0]["memory"] = "x";
  json["links"][0]["latency"] = -1;
  json["color"] = "red";
  EXPECT_THAT(complaint(json), AllOf(HasSubstr("c.json: 3 mistakes"), HasSubstr("hosts[0].memory"),
                                     HasSubstr("links[0].latency"), HasSubstr("'color'")));
}

}  // namespace
}  // namespace weft
