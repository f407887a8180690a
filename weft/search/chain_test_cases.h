#pragma once

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "weft/search/chain_step.h"
#include "weft/search/plan_layer_profile.h"

// Random chains and their best plans by brute force, for tests.
namespace weft {

inline int draw(std::mt19937_64& random, int least, int most) {
  return least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
}

/// Up to two hosts, of which the second may differ.
inline Cluster random_cluster(std::mt19937_64& random, int most_devices) {
  nlohmann::json json;
  const int devices = draw(random, 1, most_devices);
  const int hosts = devices == 1 ? 1 : draw(random, 1, 2);
  for (int h = 0; h < hosts; ++h) {
    const int count = hosts == 1 ? devices : (h == 0 ? devices / 2 : devices - devices / 2);
    json["hosts"].push_back(
        {{"name", fmt::format("h{}", h)},
         {"devices", {{{"type", draw(random, 0, 3) == 0 ? "T4" : "V100-16GB"}, {"count", count}}}},
         {"links",
          {{{"between", "devices"},
            {"bandwidth", fmt::format("{}MB/s", draw(random, 1, 9))},
            {"latency", fmt::format("{}ms", draw(random, 0, 3))}}}}});
  }
  if (hosts == 2) {
    json["links"] = {{{"between", {"h0", "h1"}},
                      {"bandwidth", fmt::format("{}MB/s", draw(random, 1, 4))},
                      {"latency", fmt::format("{}ms", draw(random, 0, 9))}}};
  }
  return cluster_from_json(json, "random");
}

/// A chain with round numbers; memory may be short.
inline ChainTask random_task(std::uint64_t seed, int most_layers, int most_devices) {
  std::mt19937_64 random(seed);
  ChainTask task{.profile = {.name = "random", .device = "V100-16GB"},
                 .cluster = random_cluster(random, most_devices),
                 .batch = draw(random, 1, 9)};
  task.profile.profile_batch = draw(random, 1, 4);
  const int layers = draw(random, 1, most_layers);
  for (int i = 0; i < layers; ++i) {
    task.profile.layers.push_back({.id = fmt::format("{}", i),
                                   .forward_s = draw(random, i == 0 ? 1 : 0, 9) * 1e-2,
                                   .backward_s = draw(random, 0, 20) * 1e-2,
                                   .output_bytes = draw(random, 0, 9) * 1e5,
                                   .parameter_bytes = draw(random, 0, 3) * 5e4,
                                   .cut_bytes = draw(random, 0, 5) * 3e4});
  }
  task.memory_budget_bytes.assign(task.cluster.devices.size(), draw(random, 3, 40) * 50'000);
  return task;
}

/// Every plan there is, judged by the simulation.
class BruteForce {
 public:
  explicit BruteForce(const ChainTask& task) : task_(task) {}

  /// The least step; infinite if nothing fits.
  double best() {
    double best_s = std::numeric_limits<double>::infinity();
    for (std::int64_t count = 1; count <= task_.batch; ++count) {
      for (const ChainSchedule schedule : {ChainSchedule::one_f_one_b, ChainSchedule::gpipe}) {
        for (const std::vector<DeviceId>& order : device_orders(task_.cluster)) {
          best_s = std::min(best_s, best_of(ChainCost(task_, order), count, schedule));
        }
      }
    }
    return best_s;
  }

  /// The least step of these.
  double best_of(const ChainCost& cost, std::int64_t micro_batches, ChainSchedule schedule) {
    cost_ = &cost;
    plan_ = {.micro_batches = micro_batches, .schedule = schedule};
    best_s_ = std::numeric_limits<double>::infinity();
    add_stages(0, 0);
    return best_s_;
  }

 private:
  void add_stages(int layer, int device) {
    if (layer == cost_->layers()) {
      judge();
      return;
    }
    for (int first = device; first < cost_->devices(); ++first) {
      const Cluster& cluster = task_.cluster;
      const std::vector<DeviceId>& order = cost_->order();
      if (first == device ||
          cluster.devices[order[first]].host != cluster.devices[order[first - 1]].host) {
        for (int end = layer + 1; end <= cost_->layers(); ++end) {
          add_stage({.first_layer = layer, .end_layer = end, .first_device = first});
        }
      }
    }
  }

  void add_stage(ChainStage stage) {
    const std::int64_t largest = (task_.batch + plan_.micro_batches - 1) / plan_.micro_batches;
    for (int count = 1; stage.first_device + count <= cost_->devices() && count <= largest;
         ++count) {
      stage.devices = count;
      for (const bool recompute : {false, true}) {
        stage.recompute = recompute;
        plan_.stages.push_back(stage);
        add_stages(stage.end_layer, stage.end_device());
        plan_.stages.pop_back();
      }
    }
  }

  void judge() {
    const MicroBatches parts{.batch = task_.batch, .count = plan_.micro_batches};
    for (std::size_t s = 0; s < plan_.stages.size(); ++s) {
      const ChainStage& stage = plan_.stages[s];
      const auto behind = static_cast<std::int64_t>(plan_.stages.size() - s);
      const std::int64_t kept =
          plan_.schedule == ChainSchedule::gpipe ? parts.count : std::min(parts.count, behind);
      if (cost_->memory_bytes(stage, parts.large(), kept) > cost_->budget_bytes(stage)) {
        return;
      }
    }
    best_s_ = std::min(best_s_, chain_step_seconds(*cost_, plan_));
  }

  const ChainTask& task_;
  const ChainCost* cost_ = nullptr;
  ChainPlan plan_;
  double best_s_ = std::numeric_limits<double>::infinity();
};

}  // namespace weft
