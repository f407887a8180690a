// GPT-2 and GPT-3: token and position embedding, blocks of causal attention and a two-layer
// perceptron, each behind a layer norm and inside a residual, a final layer norm, logits against
// the token embedding.
//
// Linears whose output is split over devices (`column`) carry their bias; after those whose input
// is split
// (`row`) the bias is a node of its own, because there the product is a sum over devices.
#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/ops/builder.h"

namespace weft {

namespace {

// Bounds that no tensor of the graph can overflow 64 bits with.
constexpr std::int64_t kMaxLayers = 10'000;
constexpr std::int64_t kMaxWidth = 1 << 18;
constexpr std::int64_t kMaxSequence = 1 << 20;
constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 31;

constexpr double kStdDev = 0.02;  // of weights in GPT-2
constexpr double kPositionStdDev = 0.01;

struct Gpt {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  std::int64_t ffn = 0;
  double dropout = 0;
  double attn_dropout = 0;
  bool tied = true;
  std::string gelu;
  double eps = 0;
  DType dtype = DType::f32;
};

Gpt parse(const Settings& settings, const ModelOptions& options) {
  Gpt g;
  g.layers = settings.size("layers", kMaxLayers);
  g.hidden = settings.size("hidden", kMaxWidth);
  g.heads = settings.size("heads", kMaxWidth);
  g.vocab = settings.size("vocab", kMaxVocabulary);
  g.seq = settings.size("seq", kMaxSequence);
  g.ffn = settings.size_or("ffn", 8 * kMaxWidth, 4 * g.hidden);
  g.dropout = settings.share("dropout");
  g.attn_dropout = settings.share_or("attn_dropout", g.dropout);
  g.tied = settings.choice("tied", {"0", "1"}) == "1";
  g.gelu = settings.choice("gelu", {"tanh", "erf"});
  g.eps = settings.small_number("eps");
  g.dtype = options.dtype;
  if (options.sequence != 0) {
    require(options.sequence >= 1 && options.sequence <= kMaxSequence,
            "sequence length {} must be from 1 to {}", options.sequence, kMaxSequence);
    g.seq = options.sequence;
  }
  require(g.hidden % g.heads == 0, "model gpt: hidden={} is not a multiple of heads={}", g.hidden,
          g.heads);
  return g;
}

std::string description(const Gpt& g) {
  return fmt::format(
      "gpt:layers={},hidden={},heads={},vocab={},seq={},ffn={},dropout={},attn_dropout={},tied={},"
      "gelu={},eps={}",
      g.layers, g.hidden, g.heads, g.vocab, g.seq, g.ffn, g.dropout, g.attn_dropout, g.tied ? 1 : 0,
      g.gelu, g.eps);
}

class GptBuilder {
 public:
  GptBuilder(const Gpt& gpt, Graph& graph, const OpTable& ops) : g_(gpt), b_(graph, ops) {}

  ValueId build() {
    const TensorType ids{{kBatch, g_.seq}, DType::i64};
    const ValueId tokens = b_.input("tokens", ids);
    const ValueId labels = b_.input("labels", ids);
    const ValueId inv_count = b_.input("inv_count", {{}, loss_dtype(g_.dtype)});
    ValueId x = embed(tokens);
    for (std::int64_t i = 0; i < g_.layers; ++i) {
      layer_ = fmt::format("h.{}", i);
      b_.set_scope(layer_);
      x = b_.emit("add", {x, attention(norm(x, "ln_1"))}, {}, "attn/residual");
      x = b_.emit("add", {x, perceptron(norm(x, "ln_2"))}, {}, "mlp/residual");
    }
    return head(x, labels, inv_count);
  }

 private:
  ValueId weight(const std::string& name, Shape shape, double std_dev) {
    return b_.parameter(name, {std::move(shape), g_.dtype},
                        {.kind = Init::Kind::normal, .std_dev = std_dev});
  }
  ValueId bias(const std::string& name, std::int64_t size) {
    return b_.parameter(layer_ + "/" + name, {{size}, g_.dtype}, {});
  }

  ValueId drop(ValueId x, std::string_view name) {
    return g_.dropout > 0 ? b_.emit("dropout", {x}, {{"p", g_.dropout}}, name) : x;
  }

  ValueId embed(ValueId tokens) {
    b_.set_scope("embed");
    wte_ = weight("wte", {g_.vocab, g_.hidden}, kStdDev);
    const ValueId wpe = weight("wpe", {g_.seq, g_.hidden}, kPositionStdDev);
    const ValueId x = b_.emit("embedding", {wte_, tokens}, {}, "wte");
    return drop(b_.emit("add", {x, wpe}, {}, "wpe"), "drop");
  }

  ValueId norm(ValueId x, const std::string& name) {
    const ValueId w = b_.parameter(layer_ + "/" + name + "/w", {{g_.hidden}, g_.dtype},
                                   {.kind = Init::Kind::ones});
    return b_.emit("layer_norm", {x, w, bias(name + "/b", g_.hidden)}, {{"eps", g_.eps}}, name);
  }

  /// Output features are split: "column".
  ValueId column(ValueId x, const std::string& name, std::int64_t from, std::int64_t to) {
    const ValueId w = weight(layer_ + "/" + name + "/w", {to, from}, kStdDev);
    return b_.emit("linear", {x, w, bias(name + "/b", to)}, {{"parallel", std::string("column")}},
                   name);
  }

  /// Input features are split: "row". Its weights begin smaller the more residuals there are, so
  /// that the variance of their sum does not grow with depth.
  ValueId row(ValueId x, const std::string& name, std::int64_t from, std::int64_t to) {
    const double std_dev = kStdDev / std::sqrt(2.0 * static_cast<double>(g_.layers));
    const ValueId w = weight(layer_ + "/" + name + "/w", {to, from}, std_dev);
    const ValueId y = b_.emit("linear", {x, w}, {{"parallel", std::string("row")}}, name);
    return b_.emit("add", {y, bias(name + "/b", to)}, {}, name + "_bias");
  }

  ValueId attention(ValueId x) {
    const std::int64_t size = g_.hidden / g_.heads;
    const std::string apart = fmt::format("B,{},{},{}", g_.seq, g_.heads, size);
    std::vector<ValueId> qkv;
    for (const std::string part : {"q", "k", "v"}) {
      const ValueId y = column(x, "attn/" + part, g_.hidden, g_.hidden);
      qkv.push_back(b_.emit("reshape", {y}, {{"shape", apart}}, "attn/" + part + "_heads"));
    }
    const ValueId out = b_.emit("attention", qkv,
                                {{"causal", std::int64_t{1}},
                                 {"scale", 1.0 / std::sqrt(static_cast<double>(size))},
                                 {"dropout", g_.attn_dropout}},
                                "attn/attention");
    const std::string joined = fmt::format("B,{},{}", g_.seq, g_.hidden);
    const ValueId y = b_.emit("reshape", {out}, {{"shape", joined}}, "attn/joined");
    return drop(row(y, "attn/proj", g_.hidden, g_.hidden), "attn/drop");
  }

  ValueId perceptron(ValueId x) {
    ValueId y = column(x, "mlp/up", g_.hidden, g_.ffn);
    y = b_.emit("gelu", {y}, {{"tanh", std::int64_t{g_.gelu == "tanh" ? 1 : 0}}}, "mlp/act");
    return drop(row(y, "mlp/down", g_.ffn, g_.hidden), "mlp/drop");
  }

  ValueId head(ValueId x, ValueId labels, ValueId inv_count) {
    layer_ = "head";
    b_.set_scope(layer_);
    x = norm(x, "ln_f");
    const ValueId w = g_.tied ? wte_ : weight("head/logits/w", {g_.vocab, g_.hidden}, kStdDev);
    const ValueId logits =
        b_.emit("linear", {x, w}, {{"parallel", std::string("tokens")}}, "logits");
    return b_.emit("cross_entropy", {logits, labels, inv_count}, {{"ignore", std::int64_t{-100}}},
                   "loss");
  }

  const Gpt& g_;
  Builder b_;
  std::string layer_;
  ValueId wte_ = -1;
};

Model build(const Settings& settings, const ModelOptions& options, const OpTable& ops) {
  const Gpt gpt = parse(settings, options);
  Model model;
  model.description = description(gpt);
  model.sequence = gpt.seq;
  model.vocabulary = gpt.vocab;
  model.forward.loss = GptBuilder(gpt, model.forward, ops).build();
  return model;
}

}  // namespace

Family gpt_family() {
  return {.name = "gpt",
          .keys = {{"layers", "12", "blocks"},
                   {"hidden", "768", "features of a token"},
                   {"heads", "12", "attention heads"},
                   {"vocab", "50257", "tokens there are"},
                   {"seq", "1024", "tokens of a sample"},
                   {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
                   {"dropout", "0", "of embedding and residuals"},
                   {"attn_dropout", "", "of attention; as dropout if not given"},
                   {"tied", "1", "0|1: logits use the token embedding"},
                   {"gelu", "tanh", "tanh|erf"},
                   {"eps", "1e-05", "of layer norms"}},
          .build = build};
}

}  // namespace weft
