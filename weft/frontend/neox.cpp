// GPT-NeoX and Pythia: attention and perceptron side by side in one residual (or one after the
// other), rotary positions on a part of each head, layer norms and biases throughout. Its files
// hold query, key and value of each head together.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/llama.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct Neox {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  std::int64_t ffn = 0;
  double rope = 0;
  std::int64_t rotary = 0;
  bool parallel = true;
  bool tied = false;
  std::string act;
  double eps = 0;
  double dropout = 0;
  double attn_dropout = 0;
};

Neox parse(Settings& s, const ModelOptions& options) {
  override_sequence(s, options);
  Neox m;
  m.layers = s.size("layers", kMaxLayers);
  m.hidden = s.size("hidden", kMaxWidth);
  m.heads = s.size("heads", kMaxWidth);
  require(m.hidden % m.heads == 0, "model neox: hidden={} is not a multiple of heads={}", m.hidden,
          m.heads);
  m.vocab = s.size("vocab", kMaxVocabulary);
  m.seq = s.size("seq", kMaxSequence);
  s.otherwise("ffn", 4 * m.hidden);
  m.ffn = s.size("ffn", 8 * kMaxWidth);
  m.rope = s.positive("rope");
  require(m.rope > 0, "model neox: rope={} must be above 0", m.rope);
  const std::int64_t head = m.hidden / m.heads;
  s.otherwise("rotary", head);
  m.rotary = s.size("rotary", kMaxWidth);
  require(m.rotary <= head && m.rotary % 2 == 0,
          "model neox: rotary={} must be even and at most the {} features of a head", m.rotary,
          head);
  m.parallel = s.flag("parallel");
  m.tied = s.flag("tied");
  m.act = s.choice("act", {"gelu", "gelu_tanh", "relu"});
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  m.attn_dropout = s.share("attn_dropout");
  return m;
}

class NeoxBuilder {
 public:
  NeoxBuilder(const Neox& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    const ValueId tokens = net_.tokens(m_.seq);
    net_.layer("embed", "gpt_neox.");
    const ValueId table = net_.parameter("embed_in.weight", {m_.vocab, m_.hidden},
                                         {.kind = Init::Kind::normal, .std_dev = 0.02});
    ValueId x = net_.lookup(table, tokens, "embed_in");
    x = net_.dropout(x, m_.dropout, "drop");
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("layers.{}", i), fmt::format("gpt_neox.layers.{}.", i));
      x = block(x);
    }
    net_.layer("head", "gpt_neox.");
    x = net_.layer_norm(x, "final_layer_norm", m_.eps);
    net_.layer("head", "");
    const ValueId weight = m_.tied ? table
                                   : net_.parameter("embed_out.weight", {m_.vocab, m_.hidden},
                                                    {.kind = Init::Kind::normal, .std_dev = 0.02});
    return net_.cross_entropy(net_.linear_with(x, weight, -1, "embed_out", Parallel::vocabulary));
  }

 private:
  ValueId block(ValueId x) {
    ValueId attended = attention(net_.layer_norm(x, "input_layernorm", m_.eps));
    attended = net_.dropout(attended, m_.dropout, "attention.drop");
    if (m_.parallel) {
      const ValueId y = perceptron(net_.layer_norm(x, "post_attention_layernorm", m_.eps));
      return net_.add(x, net_.add(attended, y, "branches"), "residual");
    }
    x = net_.add(x, attended, "attention.residual");
    return net_.add(x, perceptron(net_.layer_norm(x, "post_attention_layernorm", m_.eps)),
                    "residual");
  }

  /// Head i has rows [3di, 3di+d) of queries, then as many of keys, then of values.
  void store_heads(const std::string& name, std::int64_t which, bool is_bias) {
    const std::int64_t d = m_.hidden / m_.heads;
    for (std::int64_t i = 0; i < m_.heads; ++i) {
      StoredPart part{
          .parameter = net_.path(name),
          .offset = {i * d},
          .size = {d},
          .tensor = net_.prefix() + "attention.query_key_value" + (is_bias ? ".bias" : ".weight"),
          .tensor_shape = {3 * m_.hidden},
          .tensor_offset = {(3 * i + which) * d}};
      if (!is_bias) {
        part.offset.push_back(0);
        part.size.push_back(m_.hidden);
        part.tensor_shape.push_back(m_.hidden);
        part.tensor_offset.push_back(0);
      }
      net_.store(part);
    }
  }

  ValueId projection(ValueId x, const std::string& part, std::int64_t which) {
    const std::string name = "attention." + part;
    store_heads(name + ".weight", which, false);
    const ValueId weight = net_.unstored(name + ".weight", {m_.hidden, m_.hidden},
                                         {.kind = Init::Kind::normal, .std_dev = 0.02});
    store_heads(name + ".bias", which, true);
    const ValueId bias = net_.unstored(name + ".bias", {m_.hidden}, {});
    const ValueId y = net_.linear_with(x, weight, bias, name, Parallel::column);
    return net_.split_heads(y, m_.heads, name + "_heads");
  }

  ValueId attention(ValueId x) {
    const Attrs turn{{"base", m_.rope},
                     {"dims", m_.rotary},
                     {"interleaved", std::int64_t{0}},
                     {"inverse", std::int64_t{0}}};
    ValueId q = projection(x, "query", 0);
    ValueId k = projection(x, "key", 1);
    const ValueId v = projection(x, "value", 2);
    q = net_.build().emit("rotary", {q}, turn, "attention.query_rotary");
    k = net_.build().emit("rotary", {k}, turn, "attention.key_rotary");
    const ValueId out = net_.attention(q, k, v, -1, "attention.attention",
                                       {.causal = true, .dropout = m_.attn_dropout});
    return net_.linear(net_.join_heads(out, "attention.joined"), "attention.dense",
                       {.to = m_.hidden, .parallel = Parallel::row});
  }

  ValueId perceptron(ValueId x) {
    ValueId y = net_.linear(x, "mlp.dense_h_to_4h", {.to = m_.ffn, .parallel = Parallel::column});
    y = net_.activation(y, m_.act, "mlp.act");
    y = net_.linear(y, "mlp.dense_4h_to_h", {.to = m_.hidden, .parallel = Parallel::row});
    return net_.dropout(y, m_.dropout, "mlp.drop");
  }

  const Neox& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Neox sizes = parse(settings, options);
  return written<NeoxBuilder>(settings, sizes, options, ops);
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"GPTNeoXForCausalLM", "GPTNeoXModel"});
  c.only("attention_bias", {true});
  c.ignore({"classifier_dropout"});
  const std::int64_t hidden = c.size({"hidden_size"}, 6144);
  const std::int64_t heads = c.size({"num_attention_heads"}, 64);
  require(heads > 0 && hidden > 0, "{}: sizes must be above 0", c.where());
  const double turning = c.share("rotary_pct", c.share("partial_rotary_factor", 0.25));
  require(describe_rope_scaling(c) == "none", "{}: weft builds gpt_neox without rope_scaling",
          c.where());
  const std::int64_t layers = c.size({"num_hidden_layers"}, 44);
  const std::int64_t vocab = c.size({"vocab_size"}, 50432);
  const std::int64_t seq = c.size({"max_position_embeddings"}, 2048);
  const std::int64_t ffn = c.size({"intermediate_size"}, 24576);
  const double base = c.number("rotary_emb_base", c.number("rope_theta", 10000.0));
  return fmt::format(
      "neox:layers={},hidden={},heads={},vocab={},seq={},ffn={},rope={},rotary={},parallel={},"
      "tied={},act={},eps={},dropout={},attn_dropout={}",
      layers, hidden, heads, vocab, seq, ffn, base, c.part_of(hidden / heads, turning),
      c.flag("use_parallel_residual", true) ? 1 : 0, c.flag("tie_word_embeddings", false) ? 1 : 0,
      c.activation("hidden_act", "gelu"), c.number("layer_norm_eps", 1e-5),
      c.number("hidden_dropout", 0.0), c.number("attention_dropout", 0.0));
}

}  // namespace

Family neox_family() {
  return {.name = "neox",
          .keys = {{"layers", "6", "blocks"},
                   {"hidden", "512", "features of a token"},
                   {"heads", "8", "attention heads"},
                   {"vocab", "50304", "tokens there are"},
                   {"seq", "2048", "tokens of a sample"},
                   {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
                   {"rope", "10000", "base of the rotary positions"},
                   {"rotary", "", "features of a head that turn; all if not given"},
                   {"parallel", "1", "0|1: attention and perceptron in one residual"},
                   {"tied", "0", "0|1: logits use the token embedding"},
                   {"act", "gelu", "gelu|gelu_tanh|relu"},
                   {"eps", "1e-05", "of norms"},
                   {"dropout", "0", "of embedding and residuals"},
                   {"attn_dropout", "0", "of attention"}},
          .build = build,
          .hf_types = {"gpt_neox"},
          .describe = describe};
}

}  // namespace weft
