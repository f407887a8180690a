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
    "hosts": [{"name": "a", "devices": [{"type": "T4", "count": 1, "collectives": ["ring", "tree", "doubling"]}],
               "links": [{"between": "devices", "bandwidth": "10GB/s", "latency": "2us"}]}]})");
  json["hosts"][0]["devices"][0]["count"] = devices;
  return cluster_from_json(json, "test");
}

KernelWork work(DType dtype, double flops, double bytes, OpClass op_class = OpClass::matmul) {
  return {.op_class = op_class, .dtype = dtype, .cost = {.flops = flops, .bytes_moved = bytes}};
}

TEST(Kernel, IsARoofline) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  // 1e9 flops at half of 1e12 take 2 ms; 1e6 bytes at 1e11 take 10 us.
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 1e9, 1e6)), 3e-6 + 2e-3);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 1e6, 1e9)), 3e-6 + 1e-2);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, {}), 3e-6);
}

TEST(Kernel, OtherDtypesFallBack) {
  const Cluster cluster = two_hosts();
  const CostModel cost(cluster);
  const auto seconds = [&](DType dtype) { return cost.kernel_seconds(0, work(dtype, 1e9, 0)); };
  EXPECT_DOUBLE_EQ(seconds(DType::f16), 3e-6 + 0.5e-3);
  EXPECT_DOUBLE_EQ(seconds(DType::bf16), 3e-6 + 0.5e-3);  // on the f16 units
  EXPECT_DOUBLE_EQ(seconds(DType::i64), 3e-6 + 2e-3);     // as f32
  EXPECT_DOUBLE_EQ(seconds(DType::f64), 3e-6 + 4e-3);     // half of f32
  Cluster half_only = cluster;
  half_only.types[0].flops_per_s = {{"bf16", 4e12}};
  const CostModel other(half_only);
  EXPECT_DOUBLE_EQ(other.kernel_seconds(0, work(DType::f16, 1e9, 0)), 3e-6 + 0.5e-3);
  EXPECT_DOUBLE_EQ(other.kernel_seconds(0, work(DType::f32, 1e9, 0)), 3e-6 + 1e-3);
}

TEST(Kernel, SmallCallsAreLessEfficient) {
  Cluster cluster = two_hosts();
  cluster.types[0].ops["matmul"] = {.efficiency = 0.8, .half_size = 1e9};
  cluster.types[0].ops["stream"] = {.efficiency = 0.5, .half_size = 1e6};
  const CostModel cost(cluster);
  // 1e9 of half size 1e9 reach half of 0.8e12; 7e9 reach 7/8 of it.
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 1e9, 0)), 3e-6 + 1e9 / 0.4e12);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 7e9, 0)), 3e-6 + 7e9 / 0.7e12);
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 0, 1e6, OpClass::stream)),
                   3e-6 + 1e6 / 25e9);
  // Other classes keep the efficiency of the device.
  EXPECT_DOUBLE_EQ(cost.kernel_seconds(0, work(DType::f32, 1e9, 0, OpClass::attention)),
                   3e-6 + 2e-3);
}

TEST(Kernel, AMeasuredTableTakesPrecedence) {
  Cluster cluster = two_hosts();
  cluster.types[0].ops["matmul"].tables["f32"] = {{{1e6, 1e-5}, {1e9, 1e-3}, {3e9, 2e-3}}};
  const CostModel cost(cluster);
  const auto seconds = [&](double flops) {
    return cost.kernel_seconds(0, work(DType::f32, flops, 1e9));
  };
  EXPECT_DOUBLE_EQ(seconds(1e3), 1e-5) << "below the first point: as the first";
  EXPECT_DOUBLE_EQ(seconds(1e9), 1e-3);
  EXPECT_DOUBLE_EQ(seconds(2e9), 1.5e-3) << "between: on the line";
  EXPECT_DOUBLE_EQ(seconds(5e9), 3e-3) << "beyond: with the last slope";
  EXPECT_GT(cost.kernel_seconds(0, work(DType::f16, 1e9, 1e9)), 9e-3) << "no table of f16";
}

TEST(Kernel, ClassesOfOps) {
  EXPECT_EQ(op_class("linear"), OpClass::matmul);
  EXPECT_EQ(op_class("linear_weight_grad"), OpClass::weight_grad);
  EXPECT_EQ(op_class("attention_backward"), OpClass::attention);
  EXPECT_EQ(op_class("conv_input_grad"), OpClass::convolution);
  EXPECT_EQ(op_class("layer_norm"), OpClass::stream);
}

TEST(Kernel, WeightGradientsAreProductsUnlessMeasuredApart) {
  Cluster cluster = parse_cluster("1x1xA100-80GB");
  const auto seconds = [&](OpClass op_class) {
    return CostModel(cluster).kernel_seconds(
        0,
        {.op_class = op_class, .dtype = DType::bf16, .cost = {.flops = 1e12, .bytes_moved = 1e6}});
  };
  EXPECT_DOUBLE_EQ(seconds(OpClass::weight_grad), seconds(OpClass::matmul));
  cluster.types[0].ops["weight_grad"] = {.efficiency = 0.1};
  EXPECT_GT(seconds(OpClass::weight_grad), 5 * seconds(OpClass::matmul));
}

TEST(Kernel, ScoresThatLeaveTheKernelMoveBytes) {
  Cluster cluster = parse_cluster("1x1xA100-80GB");
  cluster.types[0].ops["attention"].score_bytes = 10;
  const KernelWork attention{.op_class = OpClass::attention,
                             .dtype = DType::bf16,
                             .cost = {.flops = 1e9, .bytes_moved = 1e6, .scores = 1e9}};
  const DeviceType& type = cluster.types[0];
  EXPECT_DOUBLE_EQ(CostModel(cluster).kernel_seconds(0, attention),
                   type.launch_s + (1e6 + 10e9) / (type.memory_efficiency * type.memory_bandwidth));
}

TEST(Kernel, SingleCallsAreCorrected) {
  Cluster cluster = two_hosts();
  const OpTable ops = builtin_ops();
  const OpDef& gelu = find_op(ops, "gelu");
  const auto call = [](std::int64_t rows) {
    const TensorType type{{rows, 1000}, DType::f32};
    return OpCall{.inputs = {type}, .outputs = {type}, .attrs = {}};
  };
  const double usual_s = CostModel(cluster).kernel_seconds(0, kernel_work(gelu, call(5)));
  EXPECT_EQ(CostModel(cluster).call_time(0, gelu, call(5)).seconds, usual_s);
  cluster.types[0].corrections = {{"gelu(f32[5,1000])", 1e-3}, {"relu(f32[6,1000])", 1}};
  const CostModel cost(cluster);
  const CallTime corrected = cost.call_time(0, gelu, call(5));
  EXPECT_DOUBLE_EQ(corrected.seconds, usual_s + 1e-3);
  EXPECT_DOUBLE_EQ(corrected.issue_more_s, 1e-3);
  const CallTime other = cost.call_time(0, gelu, call(6));
  EXPECT_EQ(other.seconds, cost.kernel_seconds(0, kernel_work(gelu, call(6))));
  EXPECT_EQ(other.issue_more_s, 0);
  EXPECT_FALSE(cost.may_take_less(0, "gelu"));
  cluster.types[0].corrections = {{"gelu(f32[5,1000])", -1e-3}};
  const CallTime less = cost.call_time(0, gelu, call(5));
  EXPECT_EQ(less.seconds, 0) << "never below 0 on the device";
  EXPECT_DOUBLE_EQ(less.issue_more_s, -1e-3) << "the host has the rest for other calls";
  EXPECT_TRUE(cost.may_take_less(0, "gelu"));
  EXPECT_FALSE(cost.may_take_less(0, "gel"));
}

TEST(Host, CopiesAndDisk) {
  Cluster cluster = parse_cluster("1x2xT4");
  const CostModel cost(cluster);
  EXPECT_DOUBLE_EQ(cost.host_copy_seconds(1, 1e9), 10e-6 + 1e9 / (0.77 * 16e9));
  EXPECT_DOUBLE_EQ(cost.disk_seconds(0, 6e9), 2);
  cluster.hosts[0].disk_table = {{{1e6, 1e-2}, {2e6, 2e-2}}};
  EXPECT_DOUBLE_EQ(CostModel(cluster).disk_seconds(0, 3e6), 3e-2);
}

// 2 hosts of 4: V bytes on all 8, with n = 231 GB/s and 6.6 us inside, p = 19.25 GB/s and 10 us
// between the hosts, a port for each device.
TEST(Collective, AlgorithmsByHand) {
  Cluster cluster = parse_cluster("2x4xA100-80GB");
  cluster.types[0].collectives = {};  // all there are
  const CostModel cost(cluster);
  const Groups all = {{0, 1, 2, 3, 4, 5, 6, 7}};
  const double n = 0.77 * 300e9;
  const double p = 0.77 * 25e9;
  const double v = 1e9;
  const auto seconds = [&](CollectiveKind kind, Algorithm algorithm) {
    const Communication c = cost.collective(kind, all, v, algorithm);
    EXPECT_EQ(c.algorithm, algorithm);
    return c.total_s();
  };
  EXPECT_NEAR(seconds(all_reduce, Algorithm::ring), 14 * 10e-6 + 1.75 * v / p, 1e-9);
  // Four rings, each through another port.
  EXPECT_NEAR(seconds(all_reduce, Algorithm::rings), 14 * 10e-6 + 1.75 * v / 4 / p, 1e-9);
  EXPECT_NEAR(seconds(all_gather, Algorithm::rings), 7 * 10e-6 + 0.875 * v / 4 / p, 1e-9);
  // Twice 3 steps inside with 3/4 of V; between the hosts 2 steps with 1/4 of V.
  EXPECT_NEAR(seconds(all_reduce, Algorithm::hierarchical),
              6 * 6.6e-6 + 1.5 * v / n + 20e-6 + 0.25 * v / p, 1e-9);
  EXPECT_NEAR(seconds(reduce_scatter, Algorithm::hierarchical),
              3 * 6.6e-6 + 0.75 * v / n + 10e-6 + 0.125 * v / p, 1e-9);
  // Three phases with all of V: two inside, one between.
  EXPECT_NEAR(seconds(all_reduce, Algorithm::doubling), 2 * 6.6e-6 + 2 * v / n + 10e-6 + v / p,
              1e-9);
  // Depth 3: root 4, its children 2 and 6; the mirror has root 3. Edges 4-2, 6-4 … of each cross
  // the hosts at 4-2 and 3-5: port 4 sends up nothing and down V / 2, port 5 likewise.
  const double tree = seconds(all_reduce, Algorithm::tree);
  EXPECT_NEAR(tree, 6 * 10e-6 + 0.5 * v / p, 1e-3);
}

TEST(Collective, TheSizeDecides) {
  Cluster cluster = parse_cluster("2x4xA100-80GB");
  EXPECT_EQ(CostModel(cluster).collective(all_reduce, {{0, 1, 2, 3, 4, 5, 6, 7}}, 8).algorithm,
            Algorithm::hierarchical)
      << "NCCL does not double";
  cluster.types[0].collectives = {};  // all there are
  const CostModel cost(cluster);
  const Groups all = {{0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_EQ(cost.collective(all_reduce, all, 8).algorithm, Algorithm::doubling);
  EXPECT_EQ(cost.collective(all_reduce, all, 4e9).algorithm, Algorithm::hierarchical);
  EXPECT_EQ(cost.collective(all_gather, {{0, 1, 2, 3}}, 1e6).algorithm, Algorithm::ring);
  EXPECT_EQ(cost.collective(all_to_all, all, 1e6).algorithm, Algorithm::pairs);
  // Never slower than what it could also choose.
  for (double bytes = 1; bytes < 1e11; bytes *= 3) {
    const double best = cost.collective_seconds(all_reduce, all, bytes);
    for (const Algorithm other : {Algorithm::ring, Algorithm::rings, Algorithm::tree,
                                  Algorithm::hierarchical, Algorithm::doubling}) {
      EXPECT_LE(best, cost.collective(all_reduce, all, bytes, other).total_s());
    }
  }
}

TEST(Collective, ALibraryMayKnowOnlyRings) {
  Cluster cluster = parse_cluster("2x4xA100-80GB");
  cluster.types[0].collectives = {"ring"};
  const CostModel cost(cluster);
  EXPECT_EQ(cost.collective(all_reduce, {{0, 1, 4, 5}}, 8).algorithm, Algorithm::ring);
}

TEST(Collective, AMeasuredTableTakesPrecedence) {
  Cluster cluster = one_host(4);
  cluster.hosts[0].collectives = {
      {.kind = "all_reduce", .members = 2, .curve = {{{1e6, 1e-3}, {2e6, 3e-3}}}}};
  const CostModel cost(cluster);
  const Communication two = cost.collective(all_reduce, {{0, 1}}, 1.5e6);
  EXPECT_EQ(two.algorithm, Algorithm::measured);
  EXPECT_DOUBLE_EQ(two.total_s(), 2e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1}, {2, 3}}, 1.5e6), 2e-3)
      << "groups that share no link";
  EXPECT_NE(cost.collective(all_reduce, {{0, 1, 2}}, 1e6).algorithm, Algorithm::measured);
  EXPECT_NE(cost.collective(all_gather, {{0, 1}}, 1e6).algorithm, Algorithm::measured);
}

// vTrain's measurements of NCCL on 8 A100: 92.8 us for 1 MB, 339 us for 30.4 MB, 8.19 ms for 1 GiB.
TEST(Collective, TheCatalogueMatchesNcclOnEightA100) {
  const Cluster cluster = parse_cluster("1x8xA100-80GB");
  const CostModel cost(cluster);
  const Groups all = {{0, 1, 2, 3, 4, 5, 6, 7}};
  const auto ring = [&](double bytes) {
    return cost.collective(all_reduce, all, bytes, Algorithm::ring).total_s();
  };
  EXPECT_NEAR(ring(1048576), 92.8e-6, 10e-6);
  EXPECT_NEAR(ring(30408704), 339e-6, 20e-6);
  EXPECT_NEAR(ring(1073741824), 8.19e-3, 0.1e-3);
}

TEST(Collective, RingOfTwo) {
  const Cluster cluster = one_host(2);
  const CostModel cost(cluster);
  // all_reduce: everything to the other in one step; a ring would need two.
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1}}, 100e6), 2e-6 + 10e-3);
  EXPECT_DOUBLE_EQ(cost.collective(all_reduce, {{0, 1}}, 100e6, Algorithm::ring).total_s(),
                   4e-6 + 10e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_gather, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(reduce_scatter, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_to_all, {{0, 1}}, 100e6), 2e-6 + 5e-3);
  EXPECT_EQ(cost.collective_seconds(slice, {{0, 1}}, 100e6), 0);
  EXPECT_DOUBLE_EQ(cost.collective_seconds(CollectiveKind::shift, {{0, 1}}, 100e6), 2e-6 + 10e-3);
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
  EXPECT_DOUBLE_EQ(cost.collective_seconds(all_reduce, {{0, 1}, {2, 3}}, 100e6), 2e-6 + 10e-3);
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
  const auto ring = [&](const Groups& groups) {
    return cost.collective(all_gather, groups, 100e6, Algorithm::ring).total_s();
  };
  EXPECT_DOUBLE_EQ(ring({{0, 1, 2, 3}}), 42e-6 + 75e-3);
  EXPECT_DOUBLE_EQ(ring({{0, 2, 1, 3}}), 42e-6 + 150e-3);
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

// `weft profile` on two cores: an all-reduce of 16 MiB takes 2.3 ms, one of 64 bytes some us.
TEST(Collective, LocalIsSharedMemory) {
  Cluster cluster = local_cluster(2);
  for (Link& link : cluster.links) {  // as if each device had a core, whatever this machine has
    link.bandwidth = 6.5e9;
  }
  const CostModel cost(cluster);
  EXPECT_NEAR(cost.collective_seconds(all_reduce, {{0, 1}}, 16777216), 2.3e-3, 0.4e-3);
  EXPECT_NEAR(cost.collective_seconds(all_reduce, {{0, 1}}, 64), 6e-6, 1e-6);
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
  EXPECT_LT(seconds, 10);  // a few ms; not minutes
  // A ring of 128 over a port of 77 % of 25 GB/s each: 254 steps of 10 us.
  EXPECT_DOUBLE_EQ(cost.collective(all_reduce, strided, 128e6, Algorithm::ring).total_s(),
                   254 * 10e-6 + 2 * 127e6 / (0.77 * 25e9));
}

}  // namespace
}  // namespace weft
