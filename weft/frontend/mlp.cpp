// A perceptron with `layers` hidden layers that classifies vectors. Its linears alternate between
// split outputs (column) and split inputs (row), so that a pair of them needs one sum over devices.
#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/ops/builder.h"

namespace weft {

namespace {

constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = 1 << 24;

struct Mlp {
  std::int64_t inputs = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t outputs = 0;
  double dropout = 0;
  std::string act;
};

Mlp parse(const Settings& settings, const ModelOptions& options) {
  require(options.sequence == 0, "model mlp takes vectors: a sequence length of {} means nothing",
          options.sequence);
  Mlp m;
  m.inputs = settings.size("inputs", kMaxWidth);
  m.hidden = settings.size("hidden", kMaxWidth);
  m.layers = settings.size("layers", kMaxLayers);
  m.outputs = settings.size("outputs", kMaxWidth);
  m.dropout = settings.share("dropout");
  m.act = settings.choice("act", {"relu", "gelu"});
  return m;
}

ValueId activation(Builder& b, ValueId x, const Mlp& m) {
  const Attrs attrs = m.act == "gelu" ? Attrs{{"tanh", std::int64_t{0}}} : Attrs{};
  x = b.emit(m.act, {x}, attrs, "act");
  return m.dropout > 0 ? b.emit("dropout", {x}, {{"p", m.dropout}}, "drop") : x;
}

/// Kaiming's deviation keeps the size of activations through relu.
ValueId weight(Builder& b, std::int64_t from, std::int64_t to, DType dtype) {
  const double std_dev = std::sqrt(2.0 / static_cast<double>(from));
  return b.parameter(b.scope() + "/w", {{to, from}, dtype},
                     {.kind = Init::Kind::normal, .std_dev = std_dev});
}

ValueId hidden_layer(Builder& b, ValueId x, std::int64_t i, const Mlp& m, DType dtype) {
  b.set_scope(fmt::format("fc.{}", i));
  const ValueId w = weight(b, i == 0 ? m.inputs : m.hidden, m.hidden, dtype);
  const ValueId bias = b.parameter(b.scope() + "/b", {{m.hidden}, dtype}, {});
  if (i % 2 == 0) {
    x = b.emit("linear", {x, w, bias}, {{"parallel", std::string("column")}}, "linear");
  } else {
    x = b.emit("linear", {x, w}, {{"parallel", std::string("row")}}, "linear");
    x = b.emit("add", {x, bias}, {}, "bias");
  }
  return activation(b, x, m);
}

Model build(const Settings& settings, const ModelOptions& options, const OpTable& ops) {
  const Mlp m = parse(settings, options);
  const DType dtype = options.dtype;
  Model model;
  model.description = fmt::format("mlp:inputs={},hidden={},layers={},outputs={},dropout={},act={}",
                                  m.inputs, m.hidden, m.layers, m.outputs, m.dropout, m.act);
  model.vocabulary = m.outputs;
  Builder b(model.forward, ops);
  ValueId x = b.input("x", {{kBatch, m.inputs}, dtype});
  const ValueId labels = b.input("labels", {{kBatch}, DType::i64});
  const ValueId inv_count = b.input("inv_count", {{}, loss_dtype(dtype)});
  for (std::int64_t i = 0; i < m.layers; ++i) {
    x = hidden_layer(b, x, i, m, dtype);
  }
  b.set_scope("head");
  const ValueId w = weight(b, m.hidden, m.outputs, dtype);
  const ValueId bias = b.parameter("head/b", {{m.outputs}, dtype}, {});
  const ValueId logits = b.emit("linear", {x, w, bias}, {}, "logits");
  model.forward.loss = b.emit("cross_entropy", {logits, labels, inv_count},
                              {{"ignore", std::int64_t{-100}}}, "loss");
  return model;
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
