// A perceptron with `layers` hidden layers that classifies vectors. Its linears alternate between
// split outputs (column) and split inputs (row), so that a pair of them needs one sum over devices.
#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

constexpr std::int64_t kWidest = 1 << 24;

struct Mlp {
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t outputs = 0;
  double dropout = 0;
  std::string act;
};

Mlp parse(const Settings& settings, const ModelOptions& options) {
  refuse_sequence("mlp", options);
  Mlp m;
  m.inputs = settings.size("inputs", kWidest);
  m.hidden = settings.size("hidden", kWidest);
  m.layers = settings.size("layers", kMaxLayers);
  m.outputs = settings.size("outputs", kWidest);
  m.dropout = settings.share("dropout");
  m.act = settings.choice("act", {"relu", "gelu"});
  return m;
}

class MlpBuilder {
 public:
  MlpBuilder(const Mlp& mlp, Network& net) : m_(mlp), net_(net) {}

  ValueId build() {
    ValueId x = net_.samples("x", {kBatch, m_.inputs});
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("fc.{}", i));
      const Parallel parallel = i % 2 == 0 ? Parallel::column : Parallel::row;
      x = net_.linear(x, "linear", {.to = m_.hidden, .parallel = parallel, .std_dev = kaiming(x)});
      x = net_.dropout(net_.activation(x, m_.act, "act"), m_.dropout, "drop");
    }
    net_.layer("head");
    x = net_.linear(x, "logits", {.to = m_.outputs, .std_dev = kaiming(x)});
    return net_.cross_entropy(x);
  }

 private:
  /// Keeps the size of activations through relu.
  [[nodiscard]] double kaiming(ValueId x) const {
    return std::sqrt(2.0 / static_cast<double>(net_.features(x)));
  }

  const Mlp& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Mlp sizes = parse(settings, options);
  return written<MlpBuilder>(settings, sizes, options, ops);
}

}  // namespace

Family mlp_family() {
  return {.name = "mlp",
          .keys = {{"inputs", "784", "numbers of a sample"},
                   {"hidden", "256", "features of a hidden layer"},
                   {"layers", "2", "hidden layers"},
                   {"outputs", "10", "classes"},
                   {"dropout", "0", "of hidden layers"},
                   {"act", "relu", "relu|gelu"}},
          .build = build};
}

}  // namespace weft
