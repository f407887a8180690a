// Layer profiles of real models on three clusters, against plans that anybody would try.
// WEFT_REFERENCE_DATA names the folder that has the profiles in profiles/.

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/file.h"
#include "weft/search/chain_step.h"
#include "weft/search/plan_layer_profile.h"

namespace weft {
namespace {

using Json = nlohmann::json;

struct HostSpeed {
  int devices = 0;
  double inside_gb_s = 0;
  double uplink_gb_s = 0;  // a pair of hosts has the smaller one
};

Cluster make_cluster(const std::vector<HostSpeed>& hosts) {
  Json json;
  const auto link = [](const Json& between, double gb_s) {
    return Json{
        {"between", between}, {"bandwidth", fmt::format("{}GB/s", gb_s)}, {"latency", "10us"}};
  };
  for (std::size_t h = 0; h < hosts.size(); ++h) {
    const Json devices = {{"type", "V100-16GB"}, {"count", hosts[h].devices}};
    json["hosts"].push_back({{"name", fmt::format("h{}", h)},
                             {"devices", Json::array({devices})},
                             {"links", Json::array({link("devices", hosts[h].inside_gb_s)})}});
    for (std::size_t other = 0; other < h; ++other) {
      json["links"].push_back(link({fmt::format("h{}", other), fmt::format("h{}", h)},
                                   std::min(hosts[h].uplink_gb_s, hosts[other].uplink_gb_s)));
    }
  }
  return cluster_from_json(json, "test");
}

struct NamedCluster {
  const char* name;
  std::vector<HostSpeed> hosts;
};

const std::vector<NamedCluster>& clusters() {
  static const std::vector<NamedCluster> all = {
      {"A_4x4", {{4, 10, 1.25}, {4, 10, 1.25}, {4, 10, 1.25}, {4, 10, 1.25}}},
      {"B_2x8", {{8, 25, 3.125}, {8, 25, 3.125}}},
      {"het12", {{4, 50, 12.5}, {4, 10, 3.1}, {4, 10, 1.25}}}};
  return all;
}

std::vector<std::string> profile_files() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): tests have one thread
  const char* data = std::getenv("WEFT_REFERENCE_DATA");
  std::vector<std::string> files;
  const std::string folder = std::string(data == nullptr ? "" : data) + "/profiles";
  if (data != nullptr && std::filesystem::is_directory(folder)) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      files.push_back(file.path().string());
    }
  }
  std::ranges::sort(files);
  return files;
}

// The best number of micro-batches for stages that are even in time, each on as many devices.
double even_stages_seconds(const ChainTask& task, int stages) {
  const ChainCost cost(task, device_orders(task.cluster).front());
  double best_s = std::numeric_limits<double>::infinity();
  for (const std::int64_t count : micro_batch_counts(task.batch)) {
    ChainPlan plan{.micro_batches = count};
    const int each = cost.devices() / stages;
    int layer = 0;
    for (int s = 0; s < stages; ++s) {
      const int last = cost.layers() - (stages - 1 - s);
      int end = s + 1 == stages ? last : layer + 1;
      while (end < last && cost.sample_seconds(0, end) <
                               cost.sample_seconds(0, cost.layers()) * (s + 1) / stages) {
        ++end;
      }
      plan.stages.push_back(
          {.first_layer = layer, .end_layer = end, .first_device = s * each, .devices = each});
      layer = end;
    }
    if (MicroBatches{.batch = task.batch, .count = count}.large() >= each &&
        fit_stages(cost, plan)) {
      best_s = std::min(best_s, chain_step_seconds(cost, plan));
    }
  }
  return best_s;
}

void expect_valid(const ChainTask& task, const ProfilePlan& plan) {
  int layer = 0;
  for (const ProfileStage& stage : plan.stages) {
    EXPECT_EQ(stage.first_layer, layer);
    layer = stage.end_layer;
    for (const DeviceId device : stage.devices) {
      EXPECT_LE(stage.memory_bytes, task.memory_budget_bytes[device]);
    }
  }
  EXPECT_EQ(layer, static_cast<int>(task.profile.layers.size()));
}

std::string plan_line(const ProfilePlan& plan) {
  std::string text = fmt::format("{} x {}", plan.schedule, plan.micro_batches.count);
  for (const ProfileStage& stage : plan.stages) {
    text += fmt::format(" {}:{}{}", stage.devices.size(), stage.end_layer - stage.first_layer,
                        stage.recompute ? "r" : "");
  }
  return text;
}

TEST(LayerProfiles, PlansAreNoSlowerThanDataParallelismAndEvenPipelines) {
  const std::vector<std::string> files = profile_files();
  if (files.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no profiles/*.json";
  }
  for (const NamedCluster& named : clusters()) {
    double logs = 0;
    int compared = 0;
    for (const std::string& file : files) {
      ChainTask task{.profile = layer_profile_from_json(read_json(file), file),
                     .cluster = make_cluster(named.hosts)};
      const auto devices = static_cast<std::int64_t>(task.cluster.devices.size());
      task.batch = devices * task.profile.profile_batch;
      task.memory_budget_bytes.assign(task.cluster.devices.size(), 15LL << 30);
      const auto begin = std::chrono::steady_clock::now();
      const ProfileSearch found = plan_layer_profile(task);
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
      ASSERT_TRUE(found.best) << file;
      expect_valid(task, *found.best);
      const double step_s = found.best->step_s;
      const double dp_s = even_stages_seconds(task, 1);
      const double pipeline_s = even_stages_seconds(
          task, std::min(static_cast<int>(devices), static_cast<int>(task.profile.layers.size())));
      EXPECT_LE(step_s, dp_s * (1 + 1e-9)) << file;
      EXPECT_LE(step_s, pipeline_s * (1 + 1e-9)) << file;
      EXPECT_LE(found.bound_s, step_s * (1 + 1e-9)) << file;
      if (std::isfinite(dp_s)) {
        logs += std::log(dp_s / step_s);
        ++compared;
      }
      fmt::print(
          "{:6} {:16} batch {:5}: step {:8.1f} ms, bound {:8.1f}, gap {:5.1f} %{}, DP {:6.2f}x, "
          "1F1B {:6.2f}x, {:5.2f} s; {}\n",
          named.name, task.profile.name, task.batch, 1e3 * step_s, 1e3 * found.bound_s,
          100 * (step_s / found.bound_s - 1), found.exact ? " exact" : "", dp_s / step_s,
          pipeline_s / step_s, spent.count(), plan_line(*found.best));
    }
    fmt::print("{}: {:.3f} times as fast as data parallelism (geometric mean of {})\n", named.name,
               std::exp(logs / std::max(compared, 1)), compared);
  }
}

}  // namespace
}  // namespace weft
