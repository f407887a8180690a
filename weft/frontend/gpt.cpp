// GPT-2 and GPT-3: token and position embedding, blocks of causal attention and a two-layer
// perceptron, each behind a layer norm and inside a residual, a final layer norm, logits against
// the token embedding.
//
// Linears whose output is split over devices (`column`) carry their bias; after those whose input
// is split (`row`) the bias is a node of its own, because there the product is a sum over devices.
//
// Hugging Face stores its linears as [in, out], and query, key and value as one.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/moe.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

constexpr double kStdDev = 0.02;  // of weights in GPT-2
constexpr double kPositionStdDev = 0.01;

struct Gpt {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  std::int64_t positions = 0;
  std::int64_t ffn = 0;
  double dropout = 0;
  double attn_dropout = 0;
  bool tied = true;
  std::string gelu;
  double eps = 0;
  MoeOptions moe;
  std::int64_t sparse_step = 1;
};

void read_experts(Settings& settings, Gpt& g) {
  read_moe(settings, g.layers, g.ffn, g.moe);
  g.moe.act = g.gelu == "tanh" ? "gelu_tanh" : "gelu";
  g.moe.gated = false;
  g.moe.up = "up";
  g.moe.down = "down";
  g.sparse_step = settings.size("sparse_step", kMaxLayers);
}

Gpt parse(Settings& settings, const ModelOptions& options) {
  override_sequence(settings, options);
  Gpt g;
  g.layers = settings.size("layers", kMaxLayers);
  g.hidden = settings.size("hidden", kMaxWidth);
  g.heads = settings.size("heads", kMaxWidth);
  g.vocab = settings.size("vocab", kMaxVocabulary);
  g.seq = settings.size("seq", kMaxSequence);
  settings.otherwise("positions", g.seq);
  g.positions = settings.size("positions", kMaxSequence);
  settings.otherwise("ffn", 4 * g.hidden);
  g.ffn = settings.size("ffn", 8 * kMaxWidth);
  g.dropout = settings.share("dropout");
  settings.otherwise("attn_dropout", g.dropout);
  g.attn_dropout = settings.share("attn_dropout");
  g.tied = settings.flag("tied");
  g.gelu = settings.choice("gelu", {"tanh", "erf"});
  g.eps = settings.small_number("eps");
  read_experts(settings, g);
  require(g.seq <= g.positions, "model gpt: seq={} is more than its {} positions", g.seq,
          g.positions);
  require(g.hidden % g.heads == 0, "model gpt: hidden={} is not a multiple of heads={}", g.hidden,
          g.heads);
  return g;
}

/// A part of the columns of a stored [in, out] tensor (or of a stored bias) that is a whole
/// parameter of ours.
struct Columns {
  std::string tensor;
  std::int64_t begin = 0;
  std::int64_t of = 0;  // columns of the stored tensor
};

class GptBuilder {
 public:
  GptBuilder(const Gpt& gpt, Network& net) : g_(gpt), net_(net) {}

  ValueId build() {
    ValueId x = embed(net_.tokens(g_.seq));
    for (std::int64_t i = 0; i < g_.layers; ++i) {
      net_.layer(fmt::format("h.{}", i), fmt::format("transformer.h.{}.", i));
      x = net_.add(x, attention(norm(x, "ln_1", "ln_1")), "attn/residual");
      const ValueId y = norm(x, "ln_2", "ln_2");
      const bool sparse = g_.moe.experts > 0 && (i + 1) % g_.sparse_step == 0;
      x = net_.add(x, sparse ? experts(y) : perceptron(y), "mlp/residual");
    }
    return head(x);
  }

 private:
  /// A whole parameter that is a whole tensor of the files.
  ValueId parameter(const std::string& name, const Shape& shape, Init init,
                    const std::string& tensor) {
    Ints sizes;
    for (const Dim dim : shape) {
      sizes.push_back(dim.size);
    }
    const Ints origin(sizes.size(), 0);
    net_.store({.parameter = net_.path(name),
                .offset = origin,
                .size = sizes,
                .tensor = net_.prefix() + tensor,
                .tensor_shape = sizes,
                .tensor_offset = origin});
    return net_.unstored(name, shape, init);
  }

  ValueId weight(const std::string& name, std::int64_t from, std::int64_t to, double std_dev,
                 const Columns& c) {
    net_.store({.parameter = net_.path(name),
                .offset = {0, 0},
                .size = {to, from},
                .tensor = net_.prefix() + c.tensor + ".weight",
                .tensor_shape = {from, c.of},
                .tensor_offset = {0, c.begin},
                .transposed = true});
    return net_.unstored(name, {to, from}, {.kind = Init::Kind::normal, .std_dev = std_dev});
  }

  ValueId bias(const std::string& name, std::int64_t size, const Columns& c) {
    net_.store({.parameter = net_.path(name),
                .offset = {0},
                .size = {size},
                .tensor = net_.prefix() + c.tensor + ".bias",
                .tensor_shape = {c.of},
                .tensor_offset = {c.begin}});
    return net_.unstored(name, {size}, {});
  }

  ValueId embed(ValueId tokens) {
    net_.layer("embed", "transformer.");
    const Init normal{.kind = Init::Kind::normal, .std_dev = kStdDev};
    wte_ = parameter("wte.weight", {g_.vocab, g_.hidden}, normal, "wte.weight");
    ValueId wpe = parameter("wpe.weight", {g_.positions, g_.hidden},
                            {.kind = Init::Kind::normal, .std_dev = kPositionStdDev}, "wpe.weight");
    wpe = net_.rows(wpe, 0, g_.seq, "positions");
    const ValueId x = net_.lookup(wte_, tokens, "wte");
    return net_.dropout(net_.add(x, wpe, "wpe"), g_.dropout, "drop");
  }

  ValueId norm(ValueId x, const std::string& name, const std::string& tensor) {
    const ValueId w =
        parameter(name + "/w", {g_.hidden}, {.kind = Init::Kind::ones}, tensor + ".weight");
    const ValueId b = parameter(name + "/b", {g_.hidden}, {}, tensor + ".bias");
    return net_.build().emit("layer_norm", {x, w, b}, {{"eps", g_.eps}}, name);
  }

  ValueId column(ValueId x, const std::string& name, std::int64_t to, const Columns& c) {
    const ValueId w = weight(name + "/w", g_.hidden, to, kStdDev, c);
    return net_.linear_with(x, w, bias(name + "/b", to, c), name, Parallel::column);
  }

  /// Its weights begin smaller the more residuals there are, so that the variance of their sum does
  /// not grow with depth.
  ValueId row(ValueId x, const std::string& name, std::int64_t from, const std::string& tensor) {
    const double std_dev = kStdDev / std::sqrt(2.0 * static_cast<double>(g_.layers));
    const Columns all{tensor, 0, g_.hidden};
    const ValueId w = weight(name + "/w", from, g_.hidden, std_dev, all);
    return net_.linear_with(x, w, bias(name + "/b", g_.hidden, all), name, Parallel::row);
  }

  ValueId attention(ValueId x) {
    std::vector<ValueId> qkv;
    for (const std::string part : {"q", "k", "v"}) {
      const auto begin = static_cast<std::int64_t>(qkv.size()) * g_.hidden;
      const ValueId y = column(x, "attn/" + part, g_.hidden, {"attn.c_attn", begin, 3 * g_.hidden});
      qkv.push_back(net_.split_heads(y, g_.heads, "attn/" + part + "_heads"));
    }
    const ValueId out = net_.attention(qkv[0], qkv[1], qkv[2], -1, "attn/attention",
                                       {.causal = true, .dropout = g_.attn_dropout});
    const ValueId y = net_.join_heads(out, "attn/joined");
    return net_.dropout(row(y, "attn/proj", g_.hidden, "attn.c_proj"), g_.dropout, "attn/drop");
  }

  ValueId perceptron(ValueId x) {
    ValueId y = column(x, "mlp/up", g_.ffn, {"mlp.c_fc", 0, g_.ffn});
    y = net_.activation(y, g_.gelu == "tanh" ? "gelu_tanh" : "gelu", "mlp/act");
    return net_.dropout(row(y, "mlp/down", g_.ffn, "mlp.c_proj"), g_.dropout, "mlp/drop");
  }

  ValueId experts(ValueId x) {
    const MoeResult routed = moe(net_, x, "mlp", g_.moe);
    if (routed.balance >= 0) {
      balance_.push_back(routed.balance);
    }
    return net_.dropout(routed.output, g_.dropout, "mlp/drop");
  }

  ValueId head(ValueId x) {
    net_.layer("head", "transformer.");
    x = norm(x, "ln_f", "ln_f");
    net_.layer("head", "");
    const ValueId w =
        g_.tied ? wte_
                : parameter("logits/w", {g_.vocab, g_.hidden},
                            {.kind = Init::Kind::normal, .std_dev = kStdDev}, "lm_head.weight");
    const ValueId logits = net_.linear_with(x, w, -1, "logits", Parallel::vocabulary);
    ValueId loss = net_.cross_entropy(logits);
    for (const ValueId term : balance_) {
      loss = net_.add(loss, term, "loss_balance");
    }
    return loss;
  }

  const Gpt& g_;
  Network& net_;
  ValueId wte_ = -1;
  std::vector<ValueId> balance_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Gpt sizes = parse(settings, options);
  return written<GptBuilder>(settings, sizes, options, ops);
}

std::string gelu_of(HfConfig& config) {
  const std::string name = config.activation("activation_function", "gelu_new");
  require(name.starts_with("gelu"),
          "{}: 'activation_function' is '{}'; weft builds GPT-2 with gelu", config.where(), name);
  return name == "gelu" ? "erf" : "tanh";
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"GPT2LMHeadModel", "GPT2Model"});
  c.only("scale_attn_weights", {true});
  c.only("scale_attn_by_inverse_layer_idx", {false});
  c.only("reorder_and_upcast_attn", {false});
  c.only("add_cross_attention", {false});
  c.only("cross_attention_hidden_size", {nullptr});
  c.only("is_encoder_decoder", {false});
  c.only("tie_encoder_decoder", {false});
  c.only("chunk_size_feed_forward", {0});
  const std::int64_t hidden = c.size({"n_embd", "hidden_size"}, 768);
  const double dropout = c.number("resid_pdrop", 0.1);
  const double embed_dropout = c.number("embd_pdrop", 0.1);
  require(dropout == embed_dropout,
          "{}: 'resid_pdrop' is {} and 'embd_pdrop' {}; weft has one dropout for both", c.where(),
          dropout, embed_dropout);
  const std::int64_t layers = c.size({"n_layer", "num_hidden_layers"}, 12);
  const std::int64_t heads = c.size({"n_head", "num_attention_heads"}, 12);
  const std::int64_t vocab = c.size({"vocab_size"}, 50257);
  const std::int64_t seq = c.size({"n_positions", "n_ctx", "max_position_embeddings"}, 1024);
  // Widths are checked by the family; here the product must not overflow.
  const std::int64_t ffn =
      c.size({"n_inner"}, 4 * std::clamp<std::int64_t>(hidden, 0, std::int64_t{1} << 30));
  return fmt::format(
      "gpt:layers={},hidden={},heads={},vocab={},seq={},positions={},ffn={},dropout={},"
      "attn_dropout={},tied={},gelu={},eps={}",
      layers, hidden, heads, vocab, seq, seq, ffn, dropout, c.number("attn_pdrop", 0.1),
      c.flag("tie_word_embeddings", true) ? 1 : 0, gelu_of(c),
      c.number("layer_norm_epsilon", 1e-5));
}

}  // namespace

Family gpt_family() {
  return {
      .name = "gpt",
      .keys = {{"layers", "12", "blocks"},
               {"hidden", "768", "features of a token"},
               {"heads", "12", "attention heads"},
               {"vocab", "50257", "tokens there are"},
               {"seq", "1024", "tokens of a sample"},
               {"positions", "", "rows of the position table; seq if not given"},
               {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
               {"dropout", "0", "of embedding and residuals"},
               {"attn_dropout", "", "of attention; as dropout if not given"},
               {"tied", "1", "0|1: logits use the token embedding"},
               {"gelu", "tanh", "tanh|erf"},
               {"eps", "1e-05", "of layer norms"},
               {"experts", "0", "experts in a layer; 0: none"},
               {"active", "2", "experts of a token"},
               {"expert_ffn", "", "features inside an expert; ffn if not given"},
               {"capacity", "0", "slots of an expert over its fair share; 0: no token is dropped"},
               {"balance", "0", "weight of the load-balance loss of a layer"},
               {"sparse_step", "2", "every so many layers has experts"}},
      .build = build,
      .hf_types = {"gpt2"},
      .describe = describe};
}

}  // namespace weft
