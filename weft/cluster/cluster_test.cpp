#include "weft/cluster/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "weft/base/error.h"
#include "weft/cluster/catalogue.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The message of the Error{input} that parsing throws; empty if it throws none.
std::string complaint(const std::string& text) {
  try {
    (void)parse_cluster(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

TEST(Catalogue, HoldsTheKnownDevicesWithSaneNumbers) {
  for (const char* name :
       {"A100-80GB", "A100-40GB", "V100-16GB", "V100-32GB", "H100-SXM", "H100-PCIe", "H200",
        "GH200", "P100", "T4", "L4", "L40S", "RTX4090", "RTX-TITAN", "MI300X", "B200"}) {
    const CatalogueEntry* entry = find_device(name);
    ASSERT_NE(entry, nullptr) << name;
    EXPECT_EQ(entry->type.name, name);
    EXPECT_GE(entry->type.efficiency, 0.5) << name;
    EXPECT_LE(entry->type.efficiency, 0.9) << name;
    EXPECT_GT(entry->type.flops_per_s.at("f16"), entry->type.flops_per_s.at("f32")) << name;
    EXPECT_FALSE(entry->source.empty()) << name;
    EXPECT_THAT(violations(parse_cluster(std::string("2x2x") + name)), ElementsAre()) << name;
  }
  EXPECT_EQ(find_device("a100-80gb"), find_device("A100-80GB"));
  EXPECT_EQ(find_device("A100"), nullptr);
}

TEST(Catalogue, NumbersOfTheA100) {
  const CatalogueEntry& e = *find_device("A100-80GB");
  EXPECT_DOUBLE_EQ(e.type.flops_per_s.at("bf16"), 312e12);
  EXPECT_DOUBLE_EQ(e.type.flops_per_s.at("bf16") * e.type.efficiency, 271e12);
  EXPECT_DOUBLE_EQ(e.type.memory_bytes, 85899345920.0);
  EXPECT_DOUBLE_EQ(e.device_link_bandwidth, 300e9);
  EXPECT_DOUBLE_EQ(e.network_bandwidth, 25e9);
}

TEST(Shorthand, HostsDevicesAndUnlikeParts) {
  const Cluster cluster = parse_cluster("1x8xA100-80GB+2x4xV100-16GB");
  ASSERT_EQ(cluster.hosts.size(), 3U);
  ASSERT_EQ(cluster.devices.size(), 16U);
  ASSERT_EQ(cluster.types.size(), 2U);
  EXPECT_EQ(cluster.devices[7], (Device{.type = 0, .host = 0, .name = "h0.7"}));
  EXPECT_EQ(cluster.devices[8], (Device{.type = 1, .host = 1, .name = "h1.0"}));
  EXPECT_EQ(cluster.devices[15], (Device{.type = 1, .host = 2, .name = "h2.3"}));
  // Between hosts: half the latency on each side, the slower port decides.
  const std::vector<int> path = route(cluster, 0, 8);
  ASSERT_EQ(path.size(), 2U);
  EXPECT_DOUBLE_EQ(cluster.links[path[0]].bandwidth, 0.77 * 25e9);
  EXPECT_DOUBLE_EQ(cluster.links[path[1]].bandwidth, 0.77 * 12.5e9);
  EXPECT_DOUBLE_EQ(cluster.links[path[0]].latency_s + cluster.links[path[1]].latency_s, 10e-6);
}

TEST(Shorthand, ShorterForms) {
  EXPECT_EQ(parse_cluster("8xT4"), parse_cluster("1x8xT4"));
  EXPECT_EQ(parse_cluster("rtx4090"), parse_cluster("1x1xRTX4090"));
  EXPECT_EQ(parse_cluster("1x4xT4+1x4xT4"), parse_cluster("2x4xT4"));
}

TEST(Shorthand, Mistakes) {
  EXPECT_THAT(complaint("4x8xA100"),
              AllOf(HasSubstr("no device 'A100'"), HasSubstr("did you mean A100-80GB, A100-40GB?"),
                    HasSubstr("MI300X")));
  EXPECT_THAT(complaint("4x8xH100-SXN"), HasSubstr("did you mean H100-SXM?"));
  EXPECT_THAT(complaint("100000x8xT4"), HasSubstr("more than 100000 devices"));
  EXPECT_THAT(complaint("99999999999999999999x8xT4"), HasSubstr("more than 100000 devices"));
  EXPECT_THAT(complaint("0x8xT4"), HasSubstr("count of 0"));
  EXPECT_THAT(complaint("2xT4+"), HasSubstr("beside a '+'"));
  EXPECT_THAT(complaint("x8xT4"), HasSubstr("no device 'x8xT4'"));
  EXPECT_THAT(complaint(""), HasSubstr("empty"));
  EXPECT_THAT(complaint("local:"), HasSubstr("local:N"));
  EXPECT_THAT(complaint("local:0"), HasSubstr("1 to 100000"));
  EXPECT_THAT(complaint("local:-1"), HasSubstr("whole number"));
}

TEST(Local, CoresAndMemoryAreDivided) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const Cluster one = parse_cluster("local");
  EXPECT_EQ(one, parse_cluster("local:1"));
  EXPECT_THAT(violations(one), ElementsAre());
  const Cluster many = local_cluster(4 * cores);
  EXPECT_THAT(violations(many), ElementsAre());
  ASSERT_EQ(many.devices.size(), static_cast<std::size_t>(4 * cores));
  EXPECT_EQ(many.devices[3].name, "local.3");
  const DeviceType& whole = one.types[0];
  const DeviceType& part = many.types[0];
  const double share = 4.0 * cores;
  EXPECT_NEAR(part.flops_per_s.at("f32") * share, whole.flops_per_s.at("f32"), 1);
  EXPECT_NEAR(part.memory_bandwidth * share, whole.memory_bandwidth, 1);
  EXPECT_NEAR(part.memory_bytes * share, whole.memory_bytes, share);
  // A core of its own gives 6.5 GB/s; here four devices share one.
  EXPECT_DOUBLE_EQ(many.links[route(many, 0, 1)[0]].bandwidth, 1.625e9);
}

TEST(Local, CoresAddUp) {
  EXPECT_DOUBLE_EQ(this_cpu(3).type.flops_per_s.at("f32"),
                   3 * this_cpu(1).type.flops_per_s.at("f32"));
  EXPECT_GT(this_cpu(1).type.flops_per_s.at("f32"), 1e9);
}

TEST(Violations, AreAllFound) {
  EXPECT_THAT(violations(Cluster{}), ElementsAre("there are no devices"));
  Cluster cluster = parse_cluster("2xT4");
  cluster.links[0].to = 99;
  cluster.links[1].bandwidth = 0;
  cluster.types[0].memory_bandwidth = -1;
  cluster.devices[1].name = "h0.0";
  EXPECT_THAT(violations(cluster),
              ElementsAre(HasSubstr("memory bandwidth"), HasSubstr("two devices have the name"),
                          HasSubstr("from 0 to 99"), HasSubstr("bandwidth is 0")));
}

TEST(Violations, DevicesMustReachEachOther) {
  Cluster cluster = parse_cluster("2xT4");
  std::erase_if(cluster.links, [](const Link& link) { return link.to == 1; });  // one way remains
  EXPECT_THAT(violations(cluster), ElementsAre(HasSubstr("h0.0 and h0.1 cannot reach")));
}

}  // namespace
}  // namespace weft
