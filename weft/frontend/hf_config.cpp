// Three kinds of keys: those that are translated, those that must have the one value whose
// mathematics we build, and those that mean nothing to training. All others are refused: to ignore
// a key is to claim that it changes nothing.
#include "weft/frontend/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {

namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 19> kTranslated = {
    "n_embd",
    "hidden_size",
    "n_layer",
    "n_head",
    "num_hidden_layers",
    "num_attention_heads",
    "n_positions",
    "n_ctx",
    "max_position_embeddings",
    "n_inner",
    "activation_function",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "layer_norm_epsilon",
    "vocab_size",
    "tie_word_embeddings",
    "model_type",
    "architectures",
};

constexpr std::array<std::string_view, 57> kHarmless = {
    "bad_words_ids",
    "begin_suppress_tokens",
    "bos_token_id",
    "cls_token_id",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "encoder_no_repeat_ngram_size",
    "eos_token_id",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "id2label",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "typical_p",
    "unk_token_id",
    "use_bfloat16",
    "use_cache",
};

struct Fixed {
  const char* key = nullptr;
  json value;
};

const std::vector<Fixed>& fixed_keys() {
  static const std::vector<Fixed> keys = {{"scale_attn_weights", true},
                                          {"scale_attn_by_inverse_layer_idx", false},
                                          {"reorder_and_upcast_attn", false},
                                          {"add_cross_attention", false},
                                          {"cross_attention_hidden_size", nullptr},
                                          {"is_encoder_decoder", false},
                                          {"tie_encoder_decoder", false},
                                          {"chunk_size_feed_forward", 0},
                                          {"initializer_range", 0.02},
                                          {"pruned_heads", json::object()}};
  return keys;
}

void check_keys(const json& config, const std::string& where) {
  for (const auto& [name, value] : config.items()) {
    const std::string& key = name;  // a structured binding cannot be captured
    const auto& fixed = fixed_keys();
    const auto found =
        std::ranges::find_if(fixed, [&](const Fixed& entry) { return key == entry.key; });
    if (found != fixed.end()) {
      require(value == found->value, "{}: '{}' is {}; weft builds this model with {} only", where,
              key, value.dump(), found->value.dump());
      continue;
    }
    const bool known = key.starts_with('_') ||
                       std::ranges::find(kTranslated, key) != kTranslated.end() ||
                       std::ranges::find(kHarmless, key) != kHarmless.end();
    require(known, "{}: the key '{}' is not known; remove it if it does not change the model",
            where, key);
  }
}

/// The first of several spellings that is there; they must agree.
std::int64_t size_of(const json& config, const std::vector<std::string>& spellings,
                     std::optional<std::int64_t> otherwise, const std::string& where) {
  std::optional<std::int64_t> result;
  for (const std::string& key : spellings) {
    if (!config.contains(key) || config[key].is_null()) {
      continue;
    }
    const std::int64_t value = json_int(config, key, where);
    require(!result || *result == value, "{}: '{}' is {}, but another spelling of it {}", where,
            key, value, result.value_or(0));
    result = value;
  }
  require(result || otherwise, "{}: '{}' is missing", where, spellings.front());
  return result ? *result : *otherwise;
}

std::string gelu_of(const json& config, const std::string& where) {
  const std::string name = json_string_or(config, "activation_function", where, "gelu_new");
  const bool tanh = name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast";
  require(
      tanh || name == "gelu" || name == "gelu_python",
      "{}: 'activation_function' is '{}'; it can be gelu_new, gelu_pytorch_tanh, gelu_fast, gelu "
      "or gelu_python",
      where, name);
  return tanh ? "tanh" : "erf";
}

void check_architecture(const json& config, const std::string& where) {
  const auto list = config.find("architectures");
  if (list == config.end() || list->is_null()) {
    return;
  }
  const json trained = json::array({"GPT2LMHeadModel"});
  const json headless = json::array({"GPT2Model"});
  require(*list == trained || *list == headless,
          "{}: 'architectures' is {}; weft trains GPT2LMHeadModel", where, list->dump());
}

}  // namespace

std::string describe_hf_config(const json& config, const std::string& where) {
  require(config.is_object(), "{}: not a JSON object", where);
  const std::string type = json_string(config, "model_type", where);
  require(type == "gpt2",
          "{}: 'model_type' is '{}'; weft reads gpt2 and has the families gpt and mlp", where,
          type);
  check_keys(config, where);
  check_architecture(config, where);
  const std::int64_t hidden = size_of(config, {"n_embd", "hidden_size"}, 768, where);
  const double dropout = json_number_or(config, "resid_pdrop", where, 0.1);
  const double embed_dropout = json_number_or(config, "embd_pdrop", where, 0.1);
  require(dropout == embed_dropout,
          "{}: 'resid_pdrop' is {} and 'embd_pdrop' {}; weft has one dropout "
          "for both",
          where, dropout, embed_dropout);
  return fmt::format(
      "gpt:layers={},hidden={},heads={},vocab={},seq={},ffn={},dropout={},attn_dropout={},tied={},"
      "gelu={},eps={}",
      size_of(config, {"n_layer", "num_hidden_layers"}, 12, where), hidden,
      size_of(config, {"n_head", "num_attention_heads"}, 12, where),
      size_of(config, {"vocab_size"}, 50257, where),
      size_of(config, {"n_positions", "n_ctx", "max_position_embeddings"}, 1024, where),
      // Widths are checked by the family; here the product must not overflow.
      size_of(config, {"n_inner"}, 4 * std::clamp<std::int64_t>(hidden, 0, 1 << 30), where),
      dropout, json_number_or(config, "attn_pdrop", where, 0.1),
      json_bool_or(config, "tie_word_embeddings", where, true) ? 1 : 0, gelu_of(config, where),
      json_number_or(config, "layer_norm_epsilon", where, 1e-5));
}

}  // namespace weft
