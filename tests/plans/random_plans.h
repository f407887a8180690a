#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"
#include "weft/plan/plan.h"

// Random models under random plans: any splits that the ops allow, with any ratios and empty parts,
// any weight modes, recomputation, cuts into stages, meshes (also shared ones), schedules and
// micro-batches.
namespace weft::random_plans {

inline constexpr std::int64_t kTokens = 3;
inline constexpr std::int64_t kHidden = 12;
inline constexpr std::int64_t kInner = 8;
inline constexpr std::int64_t kClasses = 5;
inline constexpr int kMostDevices = 4;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <typename T>
  const T& of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937 engine_;
};

/// Layers that repeat features of real models: residuals, heads, a weight and a value used twice, a
/// view of a parameter.
class RandomModel {
 public:
  RandomModel(const OpTable& ops, Random& random) : b_(graph_, ops), random_(random) {}

  Graph make(int layers) {
    x_ = b_.input("x", {{kBatch, kTokens, kHidden}, DType::f64});
    const ValueId labels = b_.input("labels", {{kBatch, kTokens}, DType::i64});
    const ValueId inv_count = b_.input("inv_count", {{}, DType::f64});
    for (int i = 0; i < layers; ++i) {
      const std::string layer = "l." + std::to_string(i) + "/";
      switch (random_.below(5)) {
        case 0:
          perceptron(layer);
          break;
        case 1:
          attention(layer);
          break;
        case 2:
          tied(layer);
          break;
        case 3:
          positions(layer);
          break;
        default:
          norm(layer);
      }
    }
    const ValueId logits =
        b_.emit("linear", {x_, weight("head/w", {kClasses, kHidden})}, {}, "head/logits");
    graph_.loss = ops::cross_entropy(b_, logits, labels, inv_count, "head/loss");
    return graph_;
  }

 private:
  ValueId weight(const std::string& name, Shape shape) {
    return b_.parameter(name, {std::move(shape), DType::f64},
                        {.kind = Init::Kind::normal, .std_dev = 0.4});
  }
  ValueId linear(ValueId x, const std::string& name, std::int64_t to, std::int64_t from) {
    return b_.emit("linear", {x, weight(name + ".w", {to, from})}, {}, name);
  }
  void residual(ValueId y, const std::string& layer) {
    x_ = b_.emit("add", {x_, y}, {}, layer + "residual");
  }

  void perceptron(const std::string& layer) {
    ValueId y = b_.emit(
        "linear", {x_, weight(layer + "up.w", {kInner, kHidden}), weight(layer + "up.b", {kInner})},
        {}, layer + "up");
    y = b_.emit("gelu", {y}, {{"tanh", std::int64_t{random_.below(2)}}}, layer + "act");
    y = b_.emit("dropout", {y}, {{"p", 0.2}}, layer + "drop");
    residual(linear(y, layer + "down", kHidden, kInner), layer);
  }

  void attention(const std::string& layer) {
    const std::int64_t heads = random_.of<std::int64_t>({1, 2, 3, 4});
    std::vector<ValueId> qkv;
    for (const char* name : {"q", "k", "v"}) {
      const ValueId flat = linear(x_, layer + name, kHidden, kHidden);
      const std::string shape = fmt::format("B,{},{},{}", kTokens, heads, kHidden / heads);
      qkv.push_back(b_.emit("reshape", {flat}, {{"shape", shape}}, layer + name + "_heads"));
    }
    const Attrs attrs{{"causal", std::int64_t{random_.below(2)}},
                      {"scale", 0.5},
                      {"dropout", random_.one_in(2) ? 0.1 : 0.0}};
    const ValueId y = b_.emit_all("attention", qkv, attrs, layer + "attention")[0];
    const ValueId joined = b_.emit(
        "reshape", {y}, {{"shape", fmt::format("B,{},{}", kTokens, kHidden)}}, layer + "joined");
    residual(linear(joined, layer + "proj", kHidden, kHidden), layer);
  }

  void tied(const std::string& layer) {
    if (shared_ < 0) {
      shared_ = weight("shared", {kHidden, kHidden});
    }
    const ValueId y = b_.emit("linear", {x_, shared_}, {}, layer + "linear");
    residual(b_.emit("mul", {y, x_}, {}, layer + "product"), layer);
  }

  // A table with a row for each token, as a view of a parameter, or one row for all of them.
  void positions(const std::string& layer) {
    const bool table = random_.one_in(2);
    const ValueId w = weight(layer + "w", {1, table ? kTokens : 1, kHidden});
    residual(table ? b_.emit("reshape", {w}, {{"shape", fmt::format("{},{}", kTokens, kHidden)}},
                             layer + "rows")
                   : b_.emit("expand", {w}, {{"shape", fmt::format("B,{},{}", kTokens, kHidden)}},
                             layer + "rows"),
             layer);
  }

  void norm(const std::string& layer) {
    x_ = b_.emit_all("layer_norm",
                     {x_, weight(layer + "g", {kHidden}), weight(layer + "b", {kHidden})},
                     {{"eps", 1e-5}}, layer + "norm")[0];
  }

  Graph graph_;
  Builder b_;
  Random& random_;
  ValueId x_ = -1;
  ValueId shared_ = -1;
};

inline Mesh random_mesh(Random& random, int first, int devices) {
  Mesh mesh;
  for (int d = 0; d < devices; ++d) {
    mesh.devices.push_back(first + d);
  }
  if (devices == 4 && random.one_in(2)) {
    mesh.axes = {{"a", 2}, {"b", 2}};
  } else if (devices > 1 || random.one_in(3)) {
    mesh.axes = {{random.one_in(2) ? "a" : "b", devices}};
  }
  return mesh;
}

inline std::vector<std::int64_t> random_ratios(Random& random, int parts) {
  std::vector<std::int64_t> ratios;
  std::int64_t sum = 0;
  for (int i = 0; i < parts; ++i) {
    ratios.push_back(random.below(4));
    sum += ratios.back();
  }
  ratios[0] += sum == 0 ? 1 : 0;
  return ratios;
}

// `ring`: whether it may be one.
inline std::string random_split(Random& random, const Factors& factors, int parts, bool ring) {
  std::vector<char> letters;
  for (std::size_t f = 0; f < factors.factors.size(); ++f) {
    if (is_splittable(factors, static_cast<int>(f))) {
      letters.push_back(factors.factors[f].letter);
    }
  }
  if (letters.empty() || random.one_in(4)) {
    return "";
  }
  Split split = split_factor(random.of(letters));
  if (random.one_in(2)) {
    split.ratios = random_ratios(random, parts);
  }
  const bool possible =
      factors.ring_stays >= 0 &&
      split.letter == factors.factors[static_cast<std::size_t>(factors.ring_stays)].letter;
  split.ring = possible && ring && random.one_in(2);
  return format_split(split);
}

inline StagePlan random_stage(Random& random, const Graph& forward, const OpTable& ops,
                              const Mesh& mesh, std::vector<std::string> layers) {
  StagePlan stage{
      .mesh = mesh, .layers = std::move(layers), .nodes = {}, .weights = {}, .recompute = {}};
  for (const Node& node : forward.nodes) {
    NodeRule rule{.nodes = node.name, .split = {}};
    for (const Axis& axis : mesh.axes) {
      const bool ring = std::ranges::none_of(
          rule.split, [](const auto& split) { return split.second.ends_with("@ring"); });
      const std::string text =
          random_split(random, factors_of(ops, forward, node), axis.size, ring);
      if (!text.empty()) {
        rule.split[axis.name] = text;
      }
    }
    stage.nodes.push_back(std::move(rule));
  }
  WeightRule modes{.parameters = random.one_in(2) ? "*" : "*w", .modes = {}};
  for (const Axis& axis : mesh.axes) {
    modes.modes[axis.name] = static_cast<WeightMode>(random.below(4));
  }
  stage.weights = {std::move(modes)};
  for (const std::string& layer : stage.layers) {
    if (random.one_in(4)) {
      stage.recompute.push_back(random.one_in(2) ? layer : layer + "/*");
    }
  }
  return stage;
}

/// Cuts the layers at random places.
inline std::vector<std::vector<std::string>> random_cuts(Random& random,
                                                         const std::vector<std::string>& layers,
                                                         int stages) {
  std::vector<std::vector<std::string>> result(1);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const int left = static_cast<int>(layers.size() - i);
    const int wanted = stages - static_cast<int>(result.size());
    if (!result.back().empty() && wanted > 0 && (left <= wanted || random.one_in(2))) {
      result.emplace_back();
    }
    result.back().push_back(layers[i]);
  }
  return result;
}

inline Plan random_plan(Random& random, const Graph& forward, const OpTable& ops) {
  Plan plan;
  plan.origin = "random";
  plan.cluster = parse_cluster("1x4xA100-80GB");
  plan.dtype = DType::f64;
  plan.optimizer.name = random.one_in(2) ? "sgd" : "adamw";
  plan.optimizer.clip = random.one_in(2) ? 0.3 : 0.0;
  plan.micro_batches = random.of<std::vector<std::int64_t>>({{5}, {3, 2}, {2, 2, 1}, {1, 3, 1}});
  plan.batch = 5;
  plan.bucket_bytes = random.of<std::int64_t>({1, 500, 25 << 20});
  plan.prefetch = random.below(3);
  plan.repeat_values = random.one_in(2);
  plan.memory_budget_bytes.assign(kMostDevices, std::int64_t{1} << 40);
  const auto cuts = random_cuts(random, layers(forward), 1 + random.below(3));
  const int stages = static_cast<int>(cuts.size());
  const bool shared = stages > 1 && random.one_in(3);  // all stages on one or two meshes
  std::vector<Mesh> meshes;
  int used = 0;
  const int wanted = shared ? std::min(stages, 1 + random.below(2)) : stages;
  for (int m = 0; m < wanted; ++m) {
    const int most = kMostDevices - used - (wanted - 1 - m);
    const int devices = 1 + random.below(std::min(most, wanted == 1 ? 4 : 2));
    meshes.push_back(random_mesh(random, used, devices));
    used += devices;
  }
  for (int s = 0; s < stages; ++s) {
    plan.stages.push_back(random_stage(random, forward, ops, meshes[s % wanted], cuts[s]));
  }
  plan.schedule = shared
                      ? random.of<std::string>({"interleaved", "zb-v"})
                      : random.of<std::string>({"gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved"});
  return plan;
}

// Rules of their own for some gradient nodes of each stage.
inline void add_gradient_rules(Random& random, const Graph& training, const OpTable& ops,
                               Plan& plan) {
  for (StagePlan& stage : plan.stages) {
    for (const Node& node : training.nodes) {
      const bool gradient = (node.role == Role::input_grad || node.role == Role::weight_grad) &&
                            node.op != "accumulate";
      const bool here = std::ranges::find(stage.layers, layer_of(node.name)) != stage.layers.end();
      if (!gradient || !here || !random.one_in(3)) {
        continue;
      }
      NodeRule rule{.nodes = node.name, .split = {}};
      for (const Axis& axis : stage.mesh.axes) {
        const std::string text =
            random_split(random, factors_of(ops, training, node), axis.size, false);
        if (!text.empty()) {
          rule.split[axis.name] = text;
        }
      }
      stage.gradients.push_back(std::move(rule));
    }
  }
}

struct Case {
  Graph forward;
  Plan plan;
};

inline Case random_case(unsigned seed, const OpTable& ops) {
  Random random(seed);
  Case drawn{.forward = RandomModel(ops, random).make(1 + random.below(4)), .plan = {}};
  drawn.plan = random_plan(random, drawn.forward, ops);
  return drawn;
}

}  // namespace weft::random_plans
