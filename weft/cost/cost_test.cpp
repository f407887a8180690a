#include "weft/cost/cost.h"

#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Groups = std::vector<std::vector<DeviceId>>;
using enum CollectiveKind;

// Two hosts of two devices: 10 GB/s and 4 us inside, 1 GB/s and 10 us between, shared.
Cluster two_hosts() {
  return cluster_from_json(nlohmann::json::parse(R"({
    "hosts": [
      {"name": "a", "devices": [{"type": "d", "count": 2, "memory": "1GB",
        "flops": {"f32": 1e12, "f16": 4e12}, "memory_bandwidth": "100GB/s", "efficiency": 0.5,
        "launch": "3us"}],
       "links": [{"between": "devices", "bandwidth": "10GB/s", "latency": "4us"}]},
      {"name": "b", "like": "a"}],
    "links": [{"between": ["a", "b"], "bandwidth": "1GB/s", "latency": "10us"}]})"),
                           "test");
}

// One host, 10 GB/s each way and 2 us between devices.
Cluster one_host(int devices) {
  nlohmann::json json = nlohmann::json::parse(R"({
    "hosts": [{"name": "a", "devices": [{"type": "T4", "count": 1}],
               "links": [{"between": "devices", "bandwidth": "10GB/s", "latency": "2us"}]}]})");
  json["hosts"][0]["devices"][0]["count"] = devices;
  return cluster_from_json(json, "test");
}

TEST(Kernel, IsARoofline) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  // 1e9 flops at half of 1e12 take 2 ms; 1e6 bytes at 1e11 take 10 us.
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, DType::f32, {.flops = 1e9, .bytes_moved = 1e6}),
                   3e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, DType::f32, {.flops = 1e6, .bytes_moved = 1e9}),
                   3e-6 + 1e-2);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, DType::f32, {}), 3e-6);
}

TEST(Kernel, OtherDtypesFallBack) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  const auto seconds = [&](DType dtype) { return cost.kernel_seconds(0, dtype, {.flops = 1e9}); };
  EXPECT_DOUBLE_EQ(seconds(DType::f16), 3e-6 + 0.5e-3);
  EXPECT_DOUBLE_EQ(seconds(DType::bf16), 3e-6 + 0.5e-3);  // on the f16 units
  EXPECT_DOUBLE_EQ(seconds(DType::i64), 3e-6 + 2e-3);     // as f32
  EXPECT_DOUBLE_EQ(seconds(DType::f64), 3e-6 + 4e-3);     // half of f32
  Cluster half_only = cluster;
  half_only.types[0].flops_per_s = {{"bf16", 4e12}};
  const CostModel other(half_only);
  EXPECT_DOUBLE_EQ(other.kernel_seconds(0, DType::f16, {.flops = 1e9}), 3e-6 + 0.5e-3);
  EXPECT_DOUBLE_EQ(other.kernel_seconds(0, DType::f32, {.flops = 1e9}), 3e-6 + 1e-3);
}

TEST(Collective, RingOfTwo) {
  const Cluster cluster = one_host(2);
  const CostModel cost(cluster);
  // all_reduce: 2 steps of 2 us, 2 * 1/2 * 100 MB over 10 GB/s.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1}}, 100e6), 4e-6 + 10e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(reduce_scatter, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_to_all, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_EQ(cost.collective_seconds(slice, {{0, 1}}, 100e6), 0);
}

TEST(Collective, RingOfFour) {
  const Cluster cluster = one_host(4);
  const CostModel cost(cluster);
  // 3/4 of 100 MB on every hop; each device sends one hop and receives one.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1, 2, 3}}, 100e6), 12e-6 + 15e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 1, 2, 3}}, 100e6), 6e-6 + 7.5e-3);
  // Each device sends 3 pieces of 25 MB over its own link.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_to_all, {{0, 1, 2, 3}}, 100e6), 6e-6 + 7.5e-3);
  // Two groups of two have links of their own.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1}, {2, 3}}, 100e6), 4e-6 + 10e-3);
}

TEST(Collective, OneDeviceNeedsNoTime) {
  const Cluster cluster = one_host(2);
  const CostModel cost(cluster);
  EXPECT_EQ(cost.collective_seconds(all_reduce, {{0}, {1}}, 100e6), 0);
  EXPECT_EQ(cost.collective_seconds(all_to_all, {{0}}, 100e6), 0);
}

TEST(Collective, ConcurrentGroupsShareTheUplink) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  // One group across the hosts: 2 + 10 + 2 us a hop; 50 MB each way over 1 GB/s.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 2}}, 100e6), 14e-6 + 50e-3);
  // Both groups at once put twice as much on the link between the hosts.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 2}, {1, 3}}, 100e6), 14e-6 + 100e-3);
  // Inside the hosts nothing is shared.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 1}, {2, 3}}, 100e6), 4e-6 + 5e-3);
}

TEST(Collective, TheOrderOfTheRingMatters) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  // 0 1 | 2 3 crosses once each way; 0 2 1 3 crosses twice each way.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 1, 2, 3}}, 100e6), 42e-6 + 75e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 2, 1, 3}}, 100e6), 42e-6 + 150e-3);
  // all_to_all: each of two devices sends 25 MB to each of two on the other host.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_to_all, {{0, 1, 2, 3}}, 100e6), 42e-6 + 100e-3);
}

TEST(Collective, AnswersDoNotDependOnWhatWasAskedBefore) {
  const Cluster cluster = two_hosts();
  const CostModel asked(cluster);
  for (const CollectiveKind kind : {all_to_all, all_reduce, all_gather, reduce_scatter}) {
    for (const Groups& groups : {Groups{{0, 1}, {2, 3}}, Groups{{0, 1, 2, 3}}, Groups{{0, 2}}}) {
      for (const double bytes : {0.0, 1.0, 1e9}) {
        EXPECT_EQ(asked.collective_seconds(kind, groups, bytes),
                  CostModel(cluster).collective_seconds(kind, groups, bytes));
      }
    }
  }
}

TEST(Collective, LocalMatchesWhatGlooDoes) {
  Cluster cluster = local_cluster(2);
  for (Link& link : cluster.links) {  // as if each device had a core, whatever this machine has
    link.bandwidth = 1.8e9;
  }
  const CostModel cost(cluster);
  EXPECT_NEAR(cost.collective_seconds(all_reduce, {{0, 1}}, 64e6), 35e-3, 1e-3);
  EXPECT_NEAR(cost.collective_seconds(all_reduce, {{0, 1}}, 4), 121e-6, 2e-6);
}

TEST(Transfer, PiecesShareLinks) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  const auto piece = [](int from, int to, std::int64_t rows) {
    return Piece{.from = from, .to = to, .region = {{0, rows}, {10, 20}}};
  };
  // 1000 x 10 elements of 4 bytes over 1 GB/s.
  EXPECT_DOUBLE_EQ(cost.transfer_seconds({piece(0, 2, 1000)}, 4), 14e-6 + 40e-6);
  EXPECT_DOUBLE_EQ(cost.transfer_seconds({piece(0, 2, 1000), piece(1, 3, 2000)}, 4),
                   14e-6 + 120e-6);
  // Inside a host beside it: the longer one counts.
  EXPECT_DOUBLE_EQ(cost.transfer_seconds({piece(0, 1, 1000)}, 4), 4e-6 + 4e-6);
  // What is there already, or is empty, needs no time.
  EXPECT_EQ(cost.transfer_seconds({piece(1, 1, 1000), piece(0, 3, 0)}, 4), 0);
  EXPECT_EQ(cost.transfer_seconds({}, 4), 0);
  // Opposite directions do not share.
  EXPECT_DOUBLE_EQ(cost.transfer_seconds({piece(0, 2, 1000), piece(2, 0, 1000)}, 4), 14e-6 + 40e-6);
}

TEST(Transfer, AScalarIsOneElement) {
  const Cluster cluster = one_host(2);
  const CostModel cost(cluster);
  EXPECT_DOUBLE_EQ(cost.transfer_seconds({{.from = 0, .to = 1, .region = {}}}, 4), 2e-6 + 4e-10);
}

TEST(Speed, AThousandDevices) {
  const Cluster cluster = parse_cluster("128x8xA100-80GB");
  const CostModel cost(cluster);
  Groups strided(8);
  Groups neighbours(128);
  for (int i = 0; i < 1024; ++i) {
    strided[i % 8].push_back(i);
    neighbours[i / 8].push_back(i);
  }
  const std::clock_t start = std::clock();  // processor time: other work does not disturb it
  double sum = 0;
  for (int i = 0; i < 100; ++i) {
    sum += cost.collective_seconds(all_reduce, strided, 1e6 * i);
    sum += cost.collective_seconds(all_reduce, neighbours, 1e6 * i);
  }
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_GT(sum, 0);
  EXPECT_LT(seconds, 0.3);  // a few ms without sanitizers
  // A ring of 128 over a port of 25 GB/s each: 254 steps of 10 us.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, strided, 128e6),
                   254 * 10e-6 + 2 * 127e6 / 25e9);
}

}  // namespace
}  // namespace weft
