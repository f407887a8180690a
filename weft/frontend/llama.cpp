// Decoders of the Llama kind: RMS norm, rotary positions, grouped-query attention, gated perceptron
// (SwiGLU), no biases unless asked for. One family serves Llama, Mistral (sliding window), Qwen2
// (biases of query, key and value), Qwen3 (norms of queries and keys), Phi-3 (fused projections in
// its files), and with experts Mixtral, Qwen2-MoE and DeepSeek-MoE. They differ in settings and in
// the names of their tensors (`layout`).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/llama.h"
#include "weft/frontend/moe.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

constexpr double kStdDev = 0.02;

struct Llama {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  double rope = 0;
  std::int64_t rotary = 0;  // features of a head that turn
  RopeScaling scaling;
  std::int64_t window = 0;
  bool tied = false;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  bool qk_norm = false;
  std::string act;
  double eps = 0;
  double dropout = 0;
  double attn_dropout = 0;
  MoeOptions moe;
  std::int64_t dense_layers = 0;  // in front, without experts
  std::int64_t sparse_step = 1;   // every so many layers has experts
  std::int64_t shared_ffn = 0;    // features of the expert that every token visits
  bool shared_gate = false;
  std::string layout;
};

void read_experts(Settings& s, Llama& m) {
  read_moe(s, m.layers, m.ffn, m.moe);
  m.moe.normalise = s.flag("normalise");
  m.moe.act = m.act;
  m.dense_layers = s.count("dense_layers", kMaxLayers);
  m.sparse_step = s.size("sparse_step", kMaxLayers);
  m.shared_ffn = s.count("shared_ffn", 8 * kMaxWidth);
  m.shared_gate = s.flag("shared_gate");
}

Llama parse(Settings& s, const ModelOptions& options) {
  override_sequence(s, options);
  Llama m;
  m.layers = s.size("layers", kMaxLayers);
  m.hidden = s.size("hidden", kMaxWidth);
  m.heads = s.size("heads", kMaxWidth);
  s.otherwise("kv_heads", m.heads);
  m.kv_heads = s.size("kv_heads", kMaxWidth);
  require(s.given("head_dim") || m.hidden % m.heads == 0,
          "model llama: hidden={} is not a multiple of heads={}; give head_dim", m.hidden, m.heads);
  s.otherwise("head_dim", m.hidden / m.heads);
  m.head_dim = s.size("head_dim", kMaxWidth);
  m.ffn = s.size("ffn", 8 * kMaxWidth);
  m.vocab = s.size("vocab", kMaxVocabulary);
  m.seq = s.size("seq", kMaxSequence);
  m.rope = s.positive("rope");
  s.otherwise("rotary", m.head_dim);
  m.rotary = s.size("rotary", kMaxWidth);
  m.scaling = parse_rope_scaling(s.text("scaling"));
  m.window = s.count("window", kMaxSequence);
  m.tied = s.flag("tied");
  m.qkv_bias = s.flag("qkv_bias");
  m.out_bias = s.flag("out_bias");
  m.mlp_bias = s.flag("mlp_bias");
  m.qk_norm = s.flag("qk_norm");
  m.act = s.choice("act", {"silu", "gelu", "gelu_tanh", "relu"});
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  m.attn_dropout = s.share("attn_dropout");
  m.layout = s.choice("layout", {"llama", "phi3", "mixtral", "qwen2_moe", "deepseek"});
  read_experts(s, m);
  require(m.heads % m.kv_heads == 0, "model llama: heads={} is not a multiple of kv_heads={}",
          m.heads, m.kv_heads);
  require(m.rotary <= m.head_dim && m.rotary % 2 == 0,
          "model llama: rotary={} must be even and at most head_dim={}", m.rotary, m.head_dim);
  require(m.rope > 0, "model llama: rope={} must be above 0", m.rope);
  return m;
}

class LlamaBuilder {
 public:
  LlamaBuilder(const Llama& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    const ValueId tokens = net_.tokens(m_.seq);
    net_.layer("embed", "model.");
    const ValueId table = net_.parameter("embed_tokens.weight", {m_.vocab, m_.hidden},
                                         {.kind = Init::Kind::normal, .std_dev = kStdDev});
    ValueId x = net_.lookup(table, tokens, "embed_tokens");
    x = net_.dropout(x, m_.dropout, "drop");
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("layers.{}", i), fmt::format("model.layers.{}.", i));
      x = block(x, i);
    }
    return head(x, table);
  }

 private:
  ValueId block(ValueId x, std::int64_t i) {
    ValueId y = net_.rms_norm(x, "input_layernorm", m_.eps);
    x = net_.add(x, net_.dropout(attention(y), m_.dropout, "self_attn.drop"), "self_attn.residual");
    y = net_.rms_norm(x, "post_attention_layernorm", m_.eps);
    const bool sparse = m_.moe.experts > 0 && i >= m_.dense_layers && (i + 1) % m_.sparse_step == 0;
    y = sparse ? experts(y) : perceptron(y, "mlp", m_.ffn, m_.layout == "phi3");
    return net_.add(x, net_.dropout(y, m_.dropout, "mlp.drop"), "mlp.residual");
  }

  /// Rows [begin, begin + rows) of the stored tensor `fused`, or a tensor of its own.
  ValueId projection(ValueId x, const std::string& name, std::int64_t to, bool bias,
                     const std::string& fused, std::int64_t begin, std::int64_t fused_rows) {
    if (fused.empty()) {
      return net_.linear(x, name, {.to = to, .bias = bias, .parallel = Parallel::column});
    }
    const std::int64_t from = net_.features(x);
    net_.store({.parameter = net_.path(name + ".weight"),
                .offset = {0, 0},
                .size = {to, from},
                .tensor = net_.prefix() + fused + ".weight",
                .tensor_shape = {fused_rows, from},
                .tensor_offset = {begin, 0}});
    const ValueId weight = net_.unstored(name + ".weight", {to, from},
                                         {.kind = Init::Kind::normal, .std_dev = kStdDev});
    return net_.linear_with(x, weight, -1, name, Parallel::column);
  }

  ValueId turned(ValueId x, const std::string& name) {
    if (m_.qk_norm) {
      x = net_.rms_norm(x, "self_attn." + name + "_norm", m_.eps);
    }
    Attrs attrs{{"base", m_.rope},
                {"dims", m_.rotary},
                {"interleaved", std::int64_t{0}},
                {"inverse", std::int64_t{0}}};
    for (auto& [key, value] : rope_scaling_attrs(m_.scaling)) {
      attrs.emplace(key, value);
    }
    return net_.build().emit("rotary", {x}, attrs, "self_attn." + name + "_rotary");
  }

  ValueId attention(ValueId x) {
    const std::int64_t q_rows = m_.heads * m_.head_dim;
    const std::int64_t kv_rows = m_.kv_heads * m_.head_dim;
    const std::string fused = m_.layout == "phi3" ? "self_attn.qkv_proj" : "";
    const std::int64_t all = q_rows + 2 * kv_rows;
    ValueId q = projection(x, "self_attn.q_proj", q_rows, m_.qkv_bias, fused, 0, all);
    ValueId k = projection(x, "self_attn.k_proj", kv_rows, m_.qkv_bias, fused, q_rows, all);
    ValueId v =
        projection(x, "self_attn.v_proj", kv_rows, m_.qkv_bias, fused, q_rows + kv_rows, all);
    q = turned(net_.split_heads(q, m_.heads, "self_attn.q_heads"), "q");
    k = turned(net_.split_heads(k, m_.kv_heads, "self_attn.k_heads"), "k");
    v = net_.split_heads(v, m_.kv_heads, "self_attn.v_heads");
    const ValueId out =
        net_.attention(q, k, v, -1, "self_attn.attention",
                       {.causal = true, .dropout = m_.attn_dropout, .window = m_.window});
    return net_.linear(net_.join_heads(out, "self_attn.joined"), "self_attn.o_proj",
                       {.to = m_.hidden,
                        .bias = m_.out_bias,
                        .parallel = Parallel::row,
                        .std_dev = residual_std_dev()});
  }

  ValueId perceptron(ValueId x, const std::string& name, std::int64_t ffn, bool is_fused) {
    const std::string fused = is_fused ? name + ".gate_up_proj" : "";
    const ValueId gate = projection(x, name + ".gate_proj", ffn, m_.mlp_bias, fused, 0, 2 * ffn);
    const ValueId up = projection(x, name + ".up_proj", ffn, m_.mlp_bias, fused, ffn, 2 * ffn);
    const ValueId y = net_.build().emit("gated", {gate, up}, {{"function", m_.act}}, name + ".act");
    return net_.linear(y, name + ".down_proj",
                       {.to = m_.hidden,
                        .bias = m_.mlp_bias,
                        .parallel = Parallel::row,
                        .std_dev = residual_std_dev()});
  }

  ValueId experts(ValueId x) {
    MoeOptions options = m_.moe;
    if (m_.layout == "mixtral") {
      options.router = "block_sparse_moe.gate";
      options.expert_prefix = "block_sparse_moe.experts.";
      options.gate = "w1";
      options.up = "w3";
      options.down = "w2";
    }
    const MoeResult routed = moe(net_, x, "mlp", options);
    if (routed.balance >= 0) {
      balance_.push_back(routed.balance);
    }
    if (m_.shared_ffn == 0) {
      return routed.output;
    }
    const bool qwen = m_.layout == "qwen2_moe";
    ValueId y =
        perceptron(x, qwen ? "mlp.shared_expert" : "mlp.shared_experts", m_.shared_ffn, false);
    if (m_.shared_gate) {
      y = gated_by_token(x, y);
    }
    return net_.add(routed.output, y, "mlp.with_shared");
  }

  /// y times the sigmoid of one number a token.
  ValueId gated_by_token(ValueId x, ValueId y) {
    ValueId gate = net_.linear(x, "mlp.shared_expert_gate", {.to = 1, .bias = false});
    gate = net_.activation(gate, "sigmoid", "mlp.shared_expert_gate.act");
    const std::string shape = format_shape(net_.shape(y));
    gate = net_.build().emit("expand", {gate}, {{"shape", shape.substr(1, shape.size() - 2)}},
                             "mlp.shared_expert_gate.wide");
    return net_.mul(y, gate, "mlp.shared_expert.gated");
  }

  ValueId head(ValueId x, ValueId table) {
    net_.layer("head", "model.");
    x = net_.rms_norm(x, "norm", m_.eps);
    net_.layer("head", "");
    const ValueId weight = m_.tied
                               ? table
                               : net_.parameter("lm_head.weight", {m_.vocab, m_.hidden},
                                                {.kind = Init::Kind::normal, .std_dev = kStdDev});
    ValueId loss =
        net_.cross_entropy(net_.linear_with(x, weight, -1, "lm_head", Parallel::vocabulary));
    for (const ValueId term : balance_) {
      loss = net_.add(loss, term, "loss_balance");
    }
    return loss;
  }

  [[nodiscard]] double residual_std_dev() const {
    return kStdDev / std::sqrt(2.0 * static_cast<double>(m_.layers));
  }

  const Llama& m_;
  Network& net_;
  std::vector<ValueId> balance_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Llama sizes = parse(settings, options);
  return written<LlamaBuilder>(settings, sizes, options, ops);
}

}  // namespace

Family llama_family() {
  return {
      .name = "llama",
      .keys = {{"layers", "16", "blocks"},
               {"hidden", "2048", "features of a token"},
               {"heads", "32", "attention heads"},
               {"kv_heads", "", "heads of keys and values; as heads if not given"},
               {"head_dim", "", "features of a head; hidden / heads if not given"},
               {"ffn", "8192", "features inside the perceptron"},
               {"vocab", "32000", "tokens there are"},
               {"seq", "2048", "tokens of a sample"},
               {"rope", "10000", "base of the rotary positions"},
               {"rotary", "", "features of a head that turn; all if not given"},
               {"scaling", "none", "none | linear:FACTOR | llama3:FACTOR:LOW:HIGH:LENGTH"},
               {"window", "0", "tokens that a token sees; 0: all before it"},
               {"tied", "0", "0|1: logits use the token embedding"},
               {"qkv_bias", "0", "0|1"},
               {"out_bias", "0", "0|1: of the attention's output"},
               {"mlp_bias", "0", "0|1"},
               {"qk_norm", "0", "0|1: norms of queries and keys"},
               {"act", "silu", "silu|gelu|gelu_tanh|relu"},
               {"eps", "1e-05", "of norms"},
               {"dropout", "0", "of embedding and residuals"},
               {"attn_dropout", "0", "of attention"},
               {"experts", "0", "experts in a layer; 0: none"},
               {"active", "2", "experts of a token"},
               {"expert_ffn", "", "features inside an expert; ffn if not given"},
               {"capacity", "0", "slots of an expert over its fair share; 0: no token is dropped"},
               {"normalise", "1", "0|1: gates of a token sum to one"},
               {"balance", "0", "weight of the load-balance loss of a layer"},
               {"dense_layers", "0", "layers in front without experts"},
               {"sparse_step", "1", "every so many layers has experts"},
               {"shared_ffn", "0", "features of the expert that every token visits; 0: none"},
               {"shared_gate", "0", "0|1: it has a gate"},
               {"layout", "llama",
                "names of stored tensors: llama|phi3|mixtral|qwen2_moe|deepseek"}},
      .build = build,
      .hf_types = {"llama", "mistral", "qwen2", "qwen3", "phi3", "mixtral", "qwen2_moe",
                   "deepseek"},
      .describe = describe_llama};
}

}  // namespace weft
