#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/pattern.h"
#include "weft/cluster/cluster.h"
#include "weft/graph/graph.h"
#include "weft/graph/optimizer.h"
#include "weft/sharding/propagate.h"

namespace weft {

struct ModelSpec {
  std::string description;  // canonical: "gpt:layers=12,hidden=768,…"; the frontend builds it again
  std::string hash;         // of the forward graph's text form
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
  double label_smoothing = 0;            // of the cross entropy
  bool operator==(const ModelSpec&) const = default;
};

/// How a parameter that an axis does not split in the forward pass is kept along that axis.
///   replicate  parameter, gradient and state on every device; gradients are all-reduced
///   zero1      state and update are split; gradients are reduce-scattered, parameters gathered
///              once a step
///   zero2      as zero1, and the gradient of each micro-batch is reduce-scattered at once
///   zero3      parameter, gradient and state are split; gathered before each use
enum class WeightMode : std::uint8_t { replicate, zero1, zero2, zero3 };
[[nodiscard]] std::string_view weight_mode_name(WeightMode mode);
/// Nothing for an unknown name.
[[nodiscard]] std::optional<WeightMode> parse_weight_mode(std::string_view name);

/// Names are matched by patterns in which `*` stands for any run of characters. The first rule that
/// matches counts.
struct NodeRule {
  std::string nodes;  // "h.*/attn/q"
  /// Axis → "h": this factor is split; "h:3:1": by these ratios (0: none); "n/64:3:1": in whole
  /// multiples of 64; "s@ring": with keys and values that go round; "+0": works on partial sums of
  /// linear set 0. Axes left out compute alike.
  std::map<std::string, std::string> split;
  bool operator==(const NodeRule&) const = default;
};
struct WeightRule {
  std::string parameters;                   // "*"
  std::map<std::string, WeightMode> modes;  // axis → mode; axes left out replicate
  bool operator==(const WeightRule&) const = default;
};

struct StagePlan {
  Mesh mesh;
  std::vector<std::string> layers;       // consecutive layers of the forward graph
  std::vector<NodeRule> nodes;           // every forward node matches one
  std::vector<NodeRule> gradients = {};  // gradient nodes that match none follow
  std::vector<WeightRule> weights;       // parameters that match none are replicated
  /// What backward computes again instead of keeping it: layers (their inner values), or patterns
  /// of nodes ("h.*/attn/*", all their values).
  std::vector<std::string> recompute;
  bool operator==(const StagePlan&) const = default;
};

inline constexpr std::int64_t kUsualBucketBytes = 25 << 20;

/// The whole decision. Self-contained: with the code at hand it fixes the program to the last bit.
struct Plan {
  int version = 1;
  std::string origin;  // "recipe dp=2,tp=2" or "search"
  ModelSpec model;
  Cluster cluster;
  std::int64_t batch = 1;
  std::int64_t sequence = 0;  // 0: the model has none
  DType dtype = DType::f32;
  OptimizerSpec optimizer;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> memory_budget_bytes;  // by device of the cluster
  std::vector<std::int64_t> micro_batches;        // samples in each; they add up to the batch
  std::string schedule = "1f1b";                  // one of `schedule_names`
  std::vector<std::string> order;                 // schedule listed: "F0 F1 B0 …" for each mesh
  bool repeat_values = true;  // values that cost one pass over memory are made again, not kept
  std::int64_t bucket_bytes = kUsualBucketBytes;  // of reductions of gradients and gathers
  int prefetch = 1;                               // layers that zero3 gathers ahead
  std::vector<StagePlan> stages;  // in the order of the layers; several may share one mesh
  bool operator==(const Plan&) const = default;
};

[[nodiscard]] nlohmann::json plan_to_json(const Plan& plan);
/// Throws Error{input} with all that is wrong: unknown keys, types, versions.
[[nodiscard]] Plan plan_from_json(const nlohmann::json& json, const std::string& where);
[[nodiscard]] std::string format_plan(const Plan& plan);  // the JSON text, one decision a line
[[nodiscard]] Plan read_plan(const std::string& path);

/// All that contradicts itself, the cluster or the forward graph: devices used twice or unknown,
/// layers missing, out of order or twice, nodes without a rule, axes that do not exist,
/// micro-batches that do not add up. Letters are checked by `place_node`, which knows the op.
[[nodiscard]] std::vector<std::string> violations(const Plan& plan, const Graph& forward);

/// The different meshes of a plan, in the order of their first stages, and which stages they run.
struct PlanMesh {
  Mesh mesh;
  std::vector<int> stages;  // its chunks, in the order of the layers
};
[[nodiscard]] std::vector<PlanMesh> meshes(const Plan& plan);
/// The devices that a plan uses, ascending; rank r runs the r-th.
[[nodiscard]] std::vector<DeviceId> used_devices(const Plan& plan);

/// gpipe, 1f1b, zb-h1, zb-h2 (one stage a mesh), interleaved, zb-v (any number), listed.
[[nodiscard]] const std::vector<std::string>& schedule_names();

/// One entry of Plan::order: 'F', 'B' or 'W' (gradients of weights, if they are apart) of a
/// micro-batch, for one of the mesh's stages: "F3", "B0.1".
struct OrderEntry {
  char phase = 'F';
  int micro_batch = 0;
  int chunk = 0;
  bool operator==(const OrderEntry&) const = default;
};
/// Throws Error{input}.
[[nodiscard]] std::vector<OrderEntry> parse_order(std::string_view text);
[[nodiscard]] std::string format_order(const std::vector<OrderEntry>& order);
/// Whether gradients of weights are a phase of their own, behind backward.
[[nodiscard]] bool has_weight_phase(const Plan& plan);

/// The first rule that matches; nullptr if none does.
[[nodiscard]] const NodeRule* rule_for(const StagePlan& stage, std::string_view node);
/// The same among the rules for gradient nodes.
[[nodiscard]] const NodeRule* gradient_rule_for(const StagePlan& stage, std::string_view node);
/// One split for each axis of the mesh. Throws Error{input} for an axis that the mesh does not have
/// or a split that is not of the form above.
[[nodiscard]] Splits splits_for(const NodeRule& rule, const Mesh& mesh);
/// The split in the words of a rule; not for Kind::none.
[[nodiscard]] std::string format_split(const Split& split);
/// By the first weight rule that matches; replicate where nothing is said.
[[nodiscard]] WeightMode weight_mode(const StagePlan& stage, std::string_view parameter,
                                     const std::string& axis);

}  // namespace weft
