#include "weft/calibrate/fit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/calibrate/fit_cluster.h"
#include "weft/cost/cost.h"

namespace weft {
namespace {

constexpr double kLaunch_s = 5e-6;
constexpr double kFlops = 50e9;
constexpr double kBandwidth = 8e9;

/// A kernel on a device with the numbers above.
KernelSample kernel(OpClass op_class, double flops, double bytes) {
  return {.work = {.op_class = op_class,
                   .dtype = DType::f32,
                   .cost = {.flops = flops, .bytes_moved = bytes}},
          .seconds = kLaunch_s + std::max(flops / kFlops, bytes / kBandwidth)};
}

std::vector<KernelSample> kernels() {
  std::vector<KernelSample> list;
  for (const double size : {1e4, 1e5, 1e6, 1e7}) {
    list.push_back(kernel(OpClass::matmul, 100 * size, size));
    list.push_back(kernel(OpClass::stream, 0.25 * size, size));
  }
  list.push_back(kernel(OpClass::stream, 10, 40));
  return list;
}

std::vector<ExchangeSample> exchanges(double bandwidth, double latency_s) {
  std::vector<ExchangeSample> list;
  for (const double bytes : {64.0, 1e4, 1e6, 1e8}) {
    list.push_back({"all_reduce", 4, bytes, 6 * latency_s + 1.5 * bytes / bandwidth});
    list.push_back({"all_reduce", 2, bytes, 2 * latency_s + bytes / bandwidth});
    list.push_back({"all_gather", 4, bytes, 3 * latency_s + 0.75 * bytes / bandwidth});
    list.push_back({"send", 2, bytes, latency_s + bytes / bandwidth});
  }
  return list;
}

TEST(FitDevice, PredictsTheKernelsThatMadeTheTables) {
  Cluster cluster = local_cluster(1);
  cluster.types[0] = fit_device(cluster.types[0], kernels());
  EXPECT_NEAR(cluster.types[0].launch_s, kLaunch_s, 0.01 * kLaunch_s);
  EXPECT_EQ(cluster.types[0].origins.of("ops"), Origin::measured);
  const CostModel cost(cluster);
  for (const KernelSample& sample : kernels()) {
    EXPECT_NEAR(cost.kernel_seconds(0, sample.work), sample.seconds, 1e-9 + 1e-6 * sample.seconds);
  }
  const KernelSample between = kernel(OpClass::matmul, 5e7, 5e5);
  EXPECT_NEAR(cost.kernel_seconds(0, between.work), between.seconds, 0.01 * between.seconds);
}

TEST(FitDevice, WhatWasHeldUpDoesNotCount) {
  std::vector<std::pair<double, double>> samples(9, {1e6, 1e-3});
  samples.emplace_back(1e6, 1.0);
  EXPECT_NEAR(fit_curve(samples).points.at(0).second, 1e-3, 1e-12);
}

TEST(FitDevice, KeepsWhatSamplesDoNotTell) {
  DeviceType known = local_cluster(1).types[0];
  known.corrections = {{"gelu(f32[8,64])", 1e-4}};
  EXPECT_EQ(fit_device(known, {}), known);
  const DeviceType streams = fit_device(known, {kernel(OpClass::stream, 1e5, 1e6)});
  EXPECT_EQ(streams.flops_per_s, known.flops_per_s);
  EXPECT_EQ(streams.launch_s, known.launch_s);
  EXPECT_FALSE(streams.ops.contains("matmul"));
  EXPECT_TRUE(streams.ops.contains("stream"));
  EXPECT_TRUE(streams.corrections.empty()) << "they were of what the numbers before said";
}

TEST(FitLink, FindsLatencyAndBandwidth) {
  const LinkFit fit = fit_link({}, exchanges(2e9, 40e-6));
  EXPECT_NEAR(fit.bandwidth, 2e9, 1e6);
  EXPECT_NEAR(fit.latency_s, 40e-6, 1e-8);
}

TEST(FitLink, StaysSensibleWithLittle) {
  const LinkFit known{.bandwidth = 1e9, .latency_s = 1e-5};
  EXPECT_EQ(fit_link(known, {}).bandwidth, 1e9);
  EXPECT_EQ(fit_link(known, {{"all_reduce", 2, 1e6, 1e-3}}).bandwidth, 1e9);
  EXPECT_EQ(fit_link(known, {{"all_reduce", 1, 1e6, 1e-3}}).latency_s, 1e-5);
}

TEST(Profile, TheFileIsReadBackAsTheFittedCluster) {
  Profile profile{.cluster = local_cluster(2)};
  profile.samples = {.kernels = kernels(), .exchanges = exchanges(3e9, 20e-6)};
  profile.copy_bandwidth = 9e9;
  profile.disk_bandwidth = 1e9;
  const Cluster fitted = fit_cluster(profile);
  const Cluster read =
      cluster_from_json(nlohmann::json::parse(cluster_file_text(fitted)), "profile");
  EXPECT_EQ(read.types, fitted.types);
  EXPECT_EQ(read.hosts, fitted.hosts);
  EXPECT_EQ(read.devices.size(), 2);
  ASSERT_EQ(read.links.size(), fitted.links.size());
  const CostModel cost(read);
  EXPECT_NEAR(cost.collective_seconds(CollectiveKind::all_reduce, {{0, 1}}, 1e6),
              2 * 20e-6 + 1e6 / 3e9, 1e-6)
      << "by the table of two members";
}

}  // namespace
}  // namespace weft
