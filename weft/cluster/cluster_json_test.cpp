#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/cluster/cluster.h"

namespace weft {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

// Through text, as in a plan file.
Cluster round_trip(const Cluster& cluster) {
  return cluster_from_json(Json::parse(cluster_to_json(cluster).dump()), "plan.json");
}

TEST(ClusterJson, ShorthandsStayShort) {
  for (const char* text :
       {"1x1xT4", "4x8xA100-80GB", "1x8xA100-80GB+2x4xV100-16GB+1x8xA100-80GB"}) {
    const Cluster cluster = parse_cluster(text);
    EXPECT_EQ(cluster_to_json(cluster), Json(text));
    EXPECT_EQ(round_trip(cluster), cluster);
  }
  EXPECT_EQ(cluster_to_json(parse_cluster("1x4xT4+1x4xT4")), Json("2x4xT4"));
}

TEST(ClusterJson, AChangedShorthandIsWrittenInFull) {
  Cluster cluster = parse_cluster("2x2xT4");
  cluster.links[3].bandwidth *= 1 + 1e-15;
  ASSERT_TRUE(cluster_to_json(cluster).is_object());
  EXPECT_EQ(round_trip(cluster), cluster);
  cluster = parse_cluster("2x2xT4");
  cluster.types[0].name = "t4";  // the catalogue knows it, but not by this spelling
  EXPECT_EQ(round_trip(cluster), cluster);
}

TEST(ClusterJson, LocalIsWrittenInFull) {
  const Cluster cluster = local_cluster(3);
  const Json json = cluster_to_json(cluster);
  EXPECT_EQ(json["devices"].size(), 3U);  // another machine reads the same
  EXPECT_EQ(round_trip(cluster), cluster);
}

TEST(ClusterJson, AnyNumbersComeBackUnchanged) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> factor(0.1, 1);
  for (int i = 0; i < 4; ++i) {
    Cluster cluster = parse_cluster("2x3xH100-SXM+1x2xL4");
    for (Link& link : cluster.links) {
      link.bandwidth *= factor(random);
      link.latency_s *= factor(random);
    }
    for (DeviceType& type : cluster.types) {
      type.flops_per_s["f32"] *= factor(random);
      type.memory_bytes *= factor(random);
      type.efficiency = factor(random);
      type.launch_s *= factor(random);
    }
    EXPECT_EQ(round_trip(cluster), cluster);
  }
}

Cluster measured_cluster() {
  Cluster cluster = parse_cluster("1x2xT4");
  DeviceType& type = cluster.types[0];
  type.memory_efficiency = 0.7;
  type.issue_s = 6e-6;
  type.update_issue_s = 1e-6;
  type.receive_s = 40e-6;
  type.compute_slowdown = 1.25;
  type.communication_slowdown = 1.5;
  type.ops["matmul"] = {
      .efficiency = 0.5, .half_size = 3e9, .tables = {{"f16", {{{1e6, 1e-5}, {1e9, 1e-3}}}}}};
  type.corrections = {{"gelu(f16[8,64])", 2.5e-4}, {"linear(f16[8,4], f16[2,4])", -1e-6}};
  type.collectives = {"ring", "tree"};
  type.origins = {.all = Origin::catalogue,
                  .exceptions = {{"ops", Origin::measured}, {"issue", Origin::fitted}}};
  cluster.links[0].origin = Origin::measured;
  cluster.links[0].table = {{{4, 1e-5}, {1e6, 1e-3}}};
  Host& host = cluster.hosts[0];
  host.disk_table = {{{1e6, 1e-2}}};
  host.collectives = {{.kind = "all_reduce", .members = 2, .curve = {{{4, 1e-5}, {1e6, 2e-3}}}}};
  host.origins = {.all = Origin::spec, .exceptions = {{"disk", Origin::measured}}};
  return cluster;
}

TEST(ClusterJson, TablesAndOriginsComeBack) {
  const Cluster cluster = measured_cluster();
  ASSERT_TRUE(cluster_to_json(cluster).is_object());
  EXPECT_EQ(round_trip(cluster), cluster);
}

TEST(ClusterJson, TheCatalogueSaysWhereItsNumbersComeFrom) {
  const Cluster cluster = parse_cluster("2x2xT4");
  EXPECT_EQ(cluster.types[0].origins.of("efficiency"), Origin::catalogue);
  EXPECT_EQ(cluster.links[0].origin, Origin::catalogue);
  // Numbers of the user's own override them, and say so.
  const Cluster own = cluster_from_json(
      Json::parse(R"({"hosts": [{"name": "a", "devices": [{"type": "T4", "launch": "1us"}]}]})"),
      "c.json");
  EXPECT_EQ(own.types[0].origins.of("launch"), Origin::spec);
  EXPECT_EQ(own.types[0].origins.of("memory"), Origin::catalogue);
}

TEST(ClusterJson, AFileMayHoldTablesAndOrigins) {
  const Cluster cluster = cluster_from_json(Json::parse(R"json({"hosts": [{"name": "a",
      "disk": {"bandwidth": "1GB/s", "table": [[1e6, 2e-3]], "origin": "measured"},
      "collectives": [{"kind": "all_reduce", "members": 2, "points": [[4, 1e-5]]}],
      "devices": [{"type": "T4", "count": 2, "issue": "6us", "compute_slowdown": 1.2,
        "ops": {"matmul": {"half": 2e9, "tables": {"f32": [[1e6, 1e-4], [1e7, 5e-4]]}}},
        "corrections": {"gelu(f32[8,64])": -2e-6},
        "origin": {"all": "catalogue", "ops": "measured", "corrections": "fitted"}}],
      "links": [{"between": "devices", "bandwidth": "10GB/s", "table": [[4, 1e-5], [8, 2e-5]],
                 "origin": "measured"}]}]})json"),
                                            "c.json");
  EXPECT_EQ(cluster.types[0].ops.at("matmul").tables.at("f32").points.size(), 2U);
  EXPECT_EQ(cluster.types[0].origins.of("ops"), Origin::measured);
  EXPECT_EQ(cluster.types[0].corrections.at("gelu(f32[8,64])"), -2e-6);
  EXPECT_EQ(cluster.types[0].origins.of("corrections"), Origin::fitted);
  EXPECT_EQ(cluster.links[0].table.points.size(), 2U);
  EXPECT_EQ(cluster.links[0].origin, Origin::measured);
  EXPECT_EQ(cluster.hosts[0].origins.of("disk"), Origin::measured);
  EXPECT_EQ(round_trip(cluster), cluster);
}

TEST(ClusterJson, MistakesInTablesAndOrigins) {
  const auto complaint = [](const char* pointer, const Json& value) -> std::string {
    Json json = cluster_to_json(measured_cluster());
    json[Json::json_pointer(pointer)] = value;
    try {
      (void)cluster_from_json(json, "c.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("/types/0/ops/gemm", Json::object()),
              HasSubstr("unknown class of ops 'gemm'"));
  EXPECT_THAT(complaint("/types/0/ops/matmul/tables/f16/1/0", 2), HasSubstr("sizes must ascend"));
  EXPECT_THAT(complaint("/types/0/ops/matmul/tables/f17", Json::array()),
              HasSubstr("unknown dtype"));
  EXPECT_THAT(complaint("/types/0/corrections", 1), HasSubstr("must give seconds by call"));
  EXPECT_THAT(complaint("/types/0/corrections/gelu", 1e-6),
              HasSubstr("corrections.gelu: is no call; write one as gelu(bf16[8,1024,4096])"));
  for (const char* other : {"(f32[1])", "gelu(f32[1]", "gelu(f32[1]) ", "gelu((f32[1])", ""}) {
    EXPECT_THAT(complaint((std::string("/types/0/corrections/") + other).c_str(), 1e-6),
                HasSubstr("is no call"))
        << other;
  }
  EXPECT_THAT(complaint("/types/0/corrections/gelu(f32[1])", "1us"),
              HasSubstr("must be a number of seconds"));
  EXPECT_THAT(complaint("/types/0/origin/all", "guess"),
              HasSubstr("must be spec, catalogue, measured or fitted"));
  EXPECT_THAT(complaint("/types/0/origin/speed", "spec"), HasSubstr("there is no such number"));
  EXPECT_THAT(complaint("/types/0/compute_slowdown", 0.5), HasSubstr("at least 1"));
  EXPECT_THAT(complaint("/types/0/collectives", "ring"), HasSubstr("must be a list of algorithms"));
  EXPECT_THAT(complaint("/hosts/0/collectives/0/kind", "gossip"), HasSubstr("must be one of"));
  EXPECT_THAT(complaint("/links/0/4", 1), HasSubstr("links[0][4]"));
}

TEST(ClusterJson, MistakesOfTheExplicitForm) {
  const auto complaint = [](const char* pointer, const Json& value) -> std::string {
    Json json = cluster_to_json(local_cluster(2));
    json[Json::json_pointer(pointer)] = value;
    try {
      (void)cluster_from_json(json, "plan.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(complaint("/devices/1/type", 4), HasSubstr("there is no type 4"));
  EXPECT_THAT(complaint("/devices/1/type", "cpu"), HasSubstr("plan.json: devices[1].type"));
  EXPECT_THAT(complaint("/links/0", 3), HasSubstr("links[0]: must be [from"));
  EXPECT_THAT(complaint("/links/0/0", 77), HasSubstr("from 77"));
  EXPECT_THAT(complaint("/links", Json::array()), HasSubstr("cannot reach each other"));
  EXPECT_THAT(complaint("/hosts", 1), HasSubstr("hosts: must be a list"));
  EXPECT_THAT(complaint("/extra", 1), HasSubstr("unknown key 'extra'"));
}

TEST(ClusterJson, WrongShorthandInAPlanNamesThePlan) {
  try {
    (void)cluster_from_json(Json("4x8xB52"), "plan.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("plan.json: cluster '4x8xB52'"));
  }
}

TEST(ParseCluster, ReadsAFile) {
  const std::string path = testing::TempDir() + "/weft_parse_cluster.json";
  write_file(path, R"({"hosts": [{"name": "a", "devices": [{"type": "T4", "count": 2}]}]})");
  EXPECT_EQ(parse_cluster(path).devices.size(), 2U);
  write_file(path, R"("2x2xT4")");
  EXPECT_EQ(parse_cluster(path), parse_cluster("2x2xT4"));
  write_file(path, R"({"hosts": 1})");
  try {
    (void)parse_cluster(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path + ": hosts: must be a list"));
  }
  try {
    (void)parse_cluster("/nowhere/c.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::environment);
  }
}

}  // namespace
}  // namespace weft
