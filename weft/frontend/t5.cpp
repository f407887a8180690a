// T5: an encoder that sees all of its tokens and a decoder that sees those before and, through
// cross attention, the encoder's result. RMS norms in front of each part, no biases, scores without
// a scale. Positions enter as a learned number for each head and each bucket of distances, added to
// the scores of self attention; all layers of a side share one table.
//
// With a tied head the logits take the decoder's result divided by sqrt(hidden).
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct T5 {
  std::int64_t layers = 0;
  std::int64_t decoder_layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t seq = 0;
  std::int64_t target_seq = 0;
  std::int64_t buckets = 0;
  std::int64_t distance = 0;
  std::string act;
  bool gated = false;
  bool tied = true;
  double eps = 0;
  double dropout = 0;
};

T5 parse(Settings& s, const ModelOptions& options) {
  override_sequence(s, options);
  T5 m;
  m.layers = s.size("layers", kMaxLayers);
  s.otherwise("decoder_layers", m.layers);
  m.decoder_layers = s.size("decoder_layers", kMaxLayers);
  m.hidden = s.size("hidden", kMaxWidth);
  m.heads = s.size("heads", kMaxWidth);
  require(s.given("head_dim") || m.hidden % m.heads == 0,
          "model t5: hidden={} is not a multiple of heads={}; give head_dim", m.hidden, m.heads);
  s.otherwise("head_dim", m.hidden / m.heads);
  m.head_dim = s.size("head_dim", kMaxWidth);
  s.otherwise("ffn", 4 * m.hidden);
  m.ffn = s.size("ffn", 8 * kMaxWidth);
  m.vocab = s.size("vocab", kMaxVocabulary);
  m.seq = s.size("seq", kMaxSequence);
  s.otherwise("target_seq", m.seq);
  m.target_seq = s.size("target_seq", kMaxSequence);
  m.buckets = s.size("buckets", 1 << 16);
  m.distance = s.size("distance", kMaxSequence);
  m.act = s.choice("act", {"relu", "gelu", "gelu_tanh", "silu"});
  m.gated = s.flag("gated");
  m.tied = s.flag("tied");
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  return m;
}

class T5Builder {
 public:
  T5Builder(const T5& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    const ValueId tokens = net_.tokens(m_.seq);
    const ValueId targets = net_.ids("decoder_tokens", {kBatch, m_.target_seq});
    net_.layer("shared");
    table_ = net_.parameter("weight", {m_.vocab, m_.hidden},
                            {.kind = Init::Kind::normal, .std_dev = 1.0});
    ValueId memory = encode(tokens);
    ValueId x = decode(targets, memory);
    net_.layer("head", "");
    return head(x);
  }

 private:
  ValueId embed(ValueId tokens) {
    const ValueId x = net_.lookup(table_, tokens, "embed_tokens");
    return net_.dropout(x, m_.dropout, "embed_drop");
  }

  ValueId encode(ValueId tokens) {
    net_.layer("encoder", "encoder.");
    ValueId x = embed(tokens);
    for (std::int64_t i = 0; i < m_.layers; ++i) {
      net_.layer(fmt::format("encoder.{}", i), fmt::format("encoder.block.{}.", i));
      if (i == 0) {
        encoder_bias_ = relative_bias(m_.seq, true);
      }
      x = sublayer(x, "layer.0", [&](ValueId y) {
        return attention(y, y, encoder_bias_, "layer.0.SelfAttention", false);
      });
      x = perceptron(x, "layer.1");
    }
    net_.layer("encoder_norm", "encoder.");
    return net_.dropout(net_.rms_norm(x, "final_layer_norm", m_.eps), m_.dropout, "drop");
  }

  ValueId decode(ValueId tokens, ValueId memory) {
    net_.layer("decoder", "decoder.");
    ValueId x = embed(tokens);
    for (std::int64_t i = 0; i < m_.decoder_layers; ++i) {
      net_.layer(fmt::format("decoder.{}", i), fmt::format("decoder.block.{}.", i));
      if (i == 0) {
        decoder_bias_ = relative_bias(m_.target_seq, false);
      }
      x = sublayer(x, "layer.0", [&](ValueId y) {
        return attention(y, y, decoder_bias_, "layer.0.SelfAttention", true);
      });
      x = sublayer(x, "layer.1", [&](ValueId y) {
        return attention(y, memory, -1, "layer.1.EncDecAttention", false);
      });
      x = perceptron(x, "layer.2");
    }
    net_.layer("decoder_norm", "decoder.");
    return net_.dropout(net_.rms_norm(x, "final_layer_norm", m_.eps), m_.dropout, "drop");
  }

  /// x + f(norm(x))
  template <typename Function>
  ValueId sublayer(ValueId x, const std::string& name, const Function& f) {
    const ValueId y = f(net_.rms_norm(x, name + ".layer_norm", m_.eps));
    return net_.add(x, net_.dropout(y, m_.dropout, name + ".drop"), name + ".residual");
  }

  /// [1,h,s,s]: a number for each head and bucket of distances.
  ValueId relative_bias(std::int64_t tokens, bool both_ways) {
    const std::string name = "layer.0.SelfAttention.relative_attention_bias";
    const ValueId table = net_.parameter(name + ".weight", {m_.buckets, m_.heads},
                                         {.kind = Init::Kind::normal, .std_dev = 0.02});
    const ValueId ids = net_.build().emit("relative_buckets", {},
                                          {{"queries", tokens},
                                           {"keys", tokens},
                                           {"buckets", m_.buckets},
                                           {"max_distance", m_.distance},
                                           {"bidirectional", std::int64_t{both_ways ? 1 : 0}}},
                                          name + ".buckets");
    const ValueId bias = net_.build().emit("embedding", {table, ids}, {}, name);
    return net_.reshape(net_.transpose(bias, {2, 0, 1}, name + ".by_head"),
                        {1, m_.heads, tokens, tokens}, name + ".batch");
  }

  ValueId attention(ValueId x, ValueId memory, ValueId bias, const std::string& name, bool causal) {
    const std::int64_t inner = m_.heads * m_.head_dim;
    const auto project = [&](ValueId from, const std::string& part) {
      const ValueId y = net_.linear(from, name + "." + part,
                                    {.to = inner, .bias = false, .parallel = Parallel::column});
      return net_.split_heads(y, m_.heads, name + "." + part + "_heads");
    };
    const ValueId q = project(x, "q");
    const ValueId k = project(memory, "k");
    const ValueId v = project(memory, "v");
    const ValueId out = net_.attention(q, k, v, bias, name + ".attention",
                                       {.causal = causal, .scale = 1, .dropout = m_.dropout});
    return net_.linear(net_.join_heads(out, name + ".joined"), name + ".o",
                       {.to = m_.hidden, .bias = false, .parallel = Parallel::row});
  }

  ValueId perceptron(ValueId x, const std::string& layer) {
    return sublayer(x, layer, [&](ValueId y) {
      const std::string name = layer + ".DenseReluDense.";
      const LinearOptions in{.to = m_.ffn, .bias = false, .parallel = Parallel::column};
      if (m_.gated) {
        const ValueId gate = net_.linear(y, name + "wi_0", in);
        const ValueId up = net_.linear(y, name + "wi_1", in);
        y = net_.build().emit("gated", {gate, up}, {{"function", m_.act}}, name + "act");
      } else {
        y = net_.activation(net_.linear(y, name + "wi", in), m_.act, name + "act");
      }
      y = net_.dropout(y, m_.dropout, name + "drop");
      return net_.linear(y, name + "wo",
                         {.to = m_.hidden, .bias = false, .parallel = Parallel::row});
    });
  }

  ValueId head(ValueId x) {
    ValueId weight = table_;
    if (m_.tied) {
      const double scale = 1.0 / std::sqrt(static_cast<double>(m_.hidden));
      x = net_.build().emit("scale", {x}, {{"value", scale}}, "scaled");
    } else {
      weight = net_.parameter("lm_head.weight", {m_.vocab, m_.hidden},
                              {.kind = Init::Kind::normal, .std_dev = 0.02});
    }
    return net_.cross_entropy(net_.linear_with(x, weight, -1, "lm_head", Parallel::vocabulary));
  }

  const T5& m_;
  Network& net_;
  ValueId table_ = -1;
  ValueId encoder_bias_ = -1;
  ValueId decoder_bias_ = -1;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const T5 sizes = parse(settings, options);
  return written<T5Builder>(settings, sizes, options, ops);
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"T5ForConditionalGeneration", "T5WithLMHeadModel"});
  c.only("is_encoder_decoder", {true});
  c.only("scalable_attention", {false});
  c.ignore({"classifier_dropout", "is_gated_act", "dense_act_fn"});
  const std::string projection = c.text("feed_forward_proj", "relu");
  const bool gated = projection.starts_with("gated-");
  std::string act = gated ? projection.substr(6) : projection;
  require(act == "relu" || act == "gelu" || act == "silu" || act == "gelu_new",
          "{}: 'feed_forward_proj' is '{}'; weft has relu, gelu, silu and gated forms of them",
          c.where(), projection);
  // transformers means the tanh form by gated-gelu.
  act = (gated && act == "gelu") || act == "gelu_new" ? "gelu_tanh" : act;
  const std::int64_t layers = c.size({"num_layers", "num_hidden_layers"}, 6);
  const std::int64_t decoder_layers = c.size({"num_decoder_layers"}, layers);
  const std::int64_t hidden = c.size({"d_model", "hidden_size"}, 512);
  const std::int64_t heads = c.size({"num_heads", "num_attention_heads"}, 8);
  const std::int64_t head_dim = c.size({"d_kv"}, 64);
  const std::int64_t ffn = c.size({"d_ff"}, 2048);
  const std::int64_t vocab = c.size({"vocab_size"}, 32128);
  const std::int64_t seq = c.size({"n_positions"}, 512);
  const std::int64_t buckets = c.size({"relative_attention_num_buckets"}, 32);
  const std::int64_t distance = c.size({"relative_attention_max_distance"}, 128);
  return fmt::format(
      "t5:layers={},decoder_layers={},hidden={},heads={},head_dim={},ffn={},vocab={},seq={},"
      "buckets={},distance={},act={},gated={},tied={},eps={},dropout={}",
      layers, decoder_layers, hidden, heads, head_dim, ffn, vocab, seq, buckets, distance, act,
      gated ? 1 : 0, c.flag("tie_word_embeddings", true) ? 1 : 0,
      c.number("layer_norm_epsilon", 1e-6), c.number("dropout_rate", 0.1));
}

}  // namespace

Family t5_family() {
  return {.name = "t5",
          .keys = {{"layers", "6", "blocks of the encoder"},
                   {"decoder_layers", "", "blocks of the decoder; as layers if not given"},
                   {"hidden", "512", "features of a token"},
                   {"heads", "8", "attention heads"},
                   {"head_dim", "", "features of a head; hidden / heads if not given"},
                   {"ffn", "", "features inside the perceptron; 4 hidden if not given"},
                   {"vocab", "32128", "tokens there are"},
                   {"seq", "512", "tokens that the encoder sees"},
                   {"target_seq", "", "tokens that the decoder sees; as seq if not given"},
                   {"buckets", "32", "of distances"},
                   {"distance", "128", "beyond which all are one bucket"},
                   {"act", "relu", "relu|gelu|gelu_tanh|silu"},
                   {"gated", "0", "0|1: act(x gate) times x up"},
                   {"tied", "1", "0|1: logits use the token embedding"},
                   {"eps", "1e-06", "of norms"},
                   {"dropout", "0", "everywhere"}},
          .build = build,
          .hf_types = {"t5"},
          .describe = describe};
}

}  // namespace weft
