// Configs of the Llama kind. Defaults are those of transformers' configuration classes, which apply
// where a key is absent.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/llama.h"

namespace weft {

namespace {

using nlohmann::json;

struct Described {
  std::string text;
  void add(std::string_view key, const auto& value) {
    text += fmt::format("{}{}={}", text.ends_with(':') ? "" : ",", key, value);
  }
};

/// What the classes of one model_type do where the config is silent.
struct Defaults {
  bool qkv_bias = false;
  std::int64_t kv_heads = 0;  // 0: as heads
  double rope = 10000;
  double eps = 1e-6;
  std::int64_t positions = 2048;
  bool tied = false;
};

Defaults defaults_of(const std::string& type) {
  if (type == "mistral") {
    return {.kv_heads = 8, .positions = 131072};
  }
  if (type == "qwen2" || type == "qwen2_moe") {
    return {.qkv_bias = true, .positions = 32768};
  }
  if (type == "qwen3") {
    return {.positions = 32768};
  }
  if (type == "phi3") {
    return {.eps = 1e-5, .positions = 4096};
  }
  if (type == "mixtral") {
    return {.kv_heads = 8, .rope = 1e6, .eps = 1e-5, .positions = 131072};
  }
  return {};
}

/// Qwen uses its window only when told to, and then in the upper layers alone.
std::int64_t window_of(HfConfig& c, const std::string& type, std::int64_t layers) {
  const std::int64_t window = c.size({"sliding_window"}, 0);
  const std::int64_t first = c.size({"max_window_layers"}, layers);
  const bool asks = type == "qwen2" || type == "qwen2_moe" || type == "qwen3";
  if (asks && !c.flag("use_sliding_window", false)) {
    return 0;
  }
  require(!asks || first == 0 || window == 0,
          "{}: 'max_window_layers' is {}; weft gives all layers the same window", c.where(), first);
  return window;
}

void describe_experts(HfConfig& c, const std::string& type, Described& d) {
  if (type == "mixtral") {
    d.add("experts", c.size({"num_local_experts"}, 8));
    d.add("active", c.size({"num_experts_per_tok"}, 2));
    d.add("normalise", 1);
    // transformers adds the balance loss only to models that give out their router's logits.
    const double weight = c.number("router_aux_loss_coef", 0.001);
    d.add("balance", c.flag("output_router_logits", false) ? weight : 0.0);
    c.only("router_jitter_noise", {0, 0.0});
  } else if (type == "qwen2_moe") {
    d.add("experts", c.size({"num_experts"}, 60));
    d.add("active", c.size({"num_experts_per_tok"}, 4));
    d.add("expert_ffn", c.size({"moe_intermediate_size"}, 1408));
    d.add("shared_ffn", c.size({"shared_expert_intermediate_size"}, 5632));
    d.add("shared_gate", 1);
    d.add("normalise", c.flag("norm_topk_prob", false) ? 1 : 0);
    d.add("sparse_step", c.size({"decoder_sparse_step"}, 1));
    c.only("mlp_only_layers", {json::array(), nullptr});
    const double weight = c.number("router_aux_loss_coef", 0.001);
    d.add("balance", c.flag("output_router_logits", false) ? weight : 0.0);
  } else if (type == "deepseek") {
    const std::int64_t expert = c.size({"moe_intermediate_size"}, 1407);
    d.add("experts", c.size({"n_routed_experts"}, 0));
    d.add("active", c.size({"num_experts_per_tok"}, 2));
    d.add("expert_ffn", expert);
    std::int64_t shared = 0;
    require(!__builtin_mul_overflow(c.size({"n_shared_experts"}, 0), expert, &shared),
            "{}: 'n_shared_experts' times 'moe_intermediate_size' is too large", c.where());
    d.add("shared_ffn", shared);
    d.add("normalise", c.flag("norm_topk_prob", false) ? 1 : 0);
    d.add("dense_layers", c.size({"first_k_dense_replace"}, 0));
    d.add("balance", c.number("aux_loss_alpha", 0.001));
    c.only("moe_layer_freq", {1});
    c.only("scoring_func", {"softmax"});
    c.only("seq_aux", {true, false});
  }
}

void describe_attention(HfConfig& c, const std::string& type, std::int64_t layers, Described& d) {
  const Defaults defaults = defaults_of(type);
  const std::int64_t hidden = c.size({"hidden_size"});
  const std::int64_t heads = c.size({"num_attention_heads"});
  d.add("hidden", hidden);
  d.add("heads", heads);
  d.add("kv_heads",
        c.size({"num_key_value_heads"}, defaults.kv_heads > 0 ? defaults.kv_heads : heads));
  require(heads > 0, "{}: 'num_attention_heads' is {}", c.where(), heads);
  const std::int64_t head_dim = c.size({"head_dim"}, type == "qwen3" ? 128 : hidden / heads);
  d.add("head_dim", head_dim);
  d.add("rope", c.number("rope_theta", defaults.rope));
  const double turning = c.share("partial_rotary_factor", 1.0);
  d.add("rotary", c.part_of(head_dim, turning));
  d.add("scaling", describe_rope_scaling(c));
  d.add("window", window_of(c, type, layers));
  // Llama's attention_bias is that of all four projections; Qwen2 always has three.
  const bool bias = c.flag("attention_bias", false);
  d.add("qkv_bias", bias || defaults.qkv_bias ? 1 : 0);
  d.add("out_bias", bias && !defaults.qkv_bias ? 1 : 0);
  d.add("qk_norm", type == "qwen3" ? 1 : 0);
  d.add("attn_dropout", c.number("attention_dropout", 0.0));
  c.ignore({"original_max_position_embeddings", "layer_types"});
}

}  // namespace

RopeScaling parse_rope_scaling(const std::string& text) {
  RopeScaling scaling;
  std::vector<double*> numbers;
  scaling.kind = text.substr(0, text.find(':'));
  if (scaling.kind == "linear") {
    numbers = {&scaling.factor};
  } else if (scaling.kind == "llama3") {
    numbers = {&scaling.factor, &scaling.low, &scaling.high, &scaling.original};
  }
  std::size_t at = scaling.kind.size();
  bool right = scaling.kind == "none" || !numbers.empty();
  for (double* const number : numbers) {
    right = right && at < text.size() && text[at] == ':';
    const std::size_t end = right ? std::min(text.find(':', at + 1), text.size()) : at;
    const std::string digits = right ? text.substr(at + 1, end - at - 1) : "";
    char* stop = nullptr;
    *number = std::strtod(digits.c_str(), &stop);
    right = right && !digits.empty() && *stop == '\0' && *number > 0 && *number < 1e12;
    at = end;
  }
  require(right && at == text.size(),
          "scaling={}: write none, linear:FACTOR or llama3:FACTOR:LOW:HIGH:LENGTH", text);
  return scaling;
}

Attrs rope_scaling_attrs(const RopeScaling& s) {
  if (s.kind == "none") {
    return {};
  }
  Attrs attrs{{"scaling", s.kind}, {"factor", s.factor}};
  if (s.kind == "llama3") {
    attrs.emplace("low", s.low);
    attrs.emplace("high", s.high);
    attrs.emplace("original", s.original);
  }
  return attrs;
}

std::string describe_rope_scaling(HfConfig& c) {
  c.ignore({"rope_scaling", "rope_parameters"});
  if (!c.has("rope_scaling")) {
    return "none";
  }
  const json& s = c.member("rope_scaling");
  const std::string where = c.where() + ": rope_scaling";
  require(s.is_object(), "{} is no object", where);
  const std::string kind =
      json_string_or(s, "rope_type", where, json_string_or(s, "type", where, "default"));
  if (kind == "default") {
    return "none";
  }
  if (kind == "linear") {
    return fmt::format("linear:{}", json_number(s, "factor", where));
  }
  require(kind == "llama3", "{}: its type is '{}'; weft has default, linear and llama3", where,
          kind);
  return fmt::format("llama3:{}:{}:{}:{}", json_number(s, "factor", where),
                     json_number(s, "low_freq_factor", where),
                     json_number(s, "high_freq_factor", where),
                     json_int(s, "original_max_position_embeddings", where));
}

std::string describe_llama(HfConfig& c, const std::string& type) {
  c.architectures({"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM",
                   "Phi3ForCausalLM", "MixtralForCausalLM", "Qwen2MoeForCausalLM",
                   "DeepseekForCausalLM"});
  const Defaults defaults = defaults_of(type);
  Described d{"llama:"};
  const std::int64_t layers = c.size({"num_hidden_layers"});
  d.add("layers", layers);
  describe_attention(c, type, layers, d);
  d.add("ffn", c.size({"intermediate_size"}));
  d.add("vocab", c.size({"vocab_size"}));
  d.add("seq", c.size({"max_position_embeddings"}, defaults.positions));
  d.add("tied", c.flag("tie_word_embeddings", defaults.tied) ? 1 : 0);
  d.add("mlp_bias", c.flag("mlp_bias", false) ? 1 : 0);
  d.add("act", c.activation("hidden_act", "silu"));
  d.add("eps", c.number("rms_norm_eps", defaults.eps));
  const double dropout = c.number("resid_pdrop", 0.0);
  require(dropout == c.number("embd_pdrop", 0.0),
          "{}: 'resid_pdrop' and 'embd_pdrop' differ; weft has one dropout for both", c.where());
  d.add("dropout", dropout);
  describe_experts(c, type, d);
  const bool moe = type == "mixtral" || type == "qwen2_moe" || type == "deepseek";
  d.add("layout", moe || type == "phi3" ? type : "llama");
  return d.text;
}

}  // namespace weft
