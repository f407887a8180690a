#include "weft/frontend/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/family.h"

namespace weft {

namespace {

using nlohmann::json;

// What tokenizers, generation and bookkeeping need; it changes nothing in training.
constexpr std::array<std::string_view, 66> kHarmless = {
    "architectures",
    "auto_map",
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
    "initializer_factor",
    "initializer_range",
    "is_decoder",
    "label2id",
    "length_penalty",
    "max_length",
    "min_length",
    "model_type",
    "n_gpu",
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
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
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
    "tf_legacy_loss",
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

}  // namespace

HfConfig::HfConfig(const json& config, std::string where)
    : config_(config), where_(std::move(where)) {
  require(config.is_object(), "{}: not a JSON object", where_);
}

bool HfConfig::has(const std::string& key) const {
  const auto it = config_.find(key);
  return it != config_.end() && !it->is_null();
}

const json& HfConfig::member(const std::string& key) {
  asked_.insert(key);
  return json_member(config_, key, where_);
}

std::int64_t HfConfig::size(const std::vector<std::string>& spellings,
                            std::optional<std::int64_t> otherwise) {
  std::optional<std::int64_t> result;
  for (const std::string& key : spellings) {
    asked_.insert(key);
    if (!has(key)) {
      continue;
    }
    const std::int64_t value = json_int(config_, key, where_);
    require(!result || *result == value, "{}: '{}' is {}, but another spelling of it {}", where_,
            key, value, result.value_or(0));
    result = value;
  }
  require(result || otherwise, "{}: '{}' is missing", where_, spellings.front());
  return result ? *result : *otherwise;
}

double HfConfig::number(const std::string& key, std::optional<double> otherwise) {
  asked_.insert(key);
  require(otherwise || has(key), "{}: '{}' is missing", where_, key);
  return has(key) ? json_number(config_, key, where_) : *otherwise;
}

double HfConfig::share(const std::string& key, double otherwise) {
  const double value = number(key, otherwise);
  require(value >= 0 && value <= 1, "{}: '{}' is {}; it is a share from 0 to 1", where_, key,
          value);
  return value;
}

std::int64_t HfConfig::part_of(std::int64_t size, double share) const {
  constexpr std::int64_t kMost = std::int64_t{1} << 30U;
  require(size >= 0 && size <= kMost, "{}: {} features of a head are none or too many", where_,
          size);
  return static_cast<std::int64_t>(static_cast<double>(size) * share);
}

bool HfConfig::flag(const std::string& key, bool otherwise) {
  asked_.insert(key);
  return json_bool_or(config_, key, where_, otherwise);
}

std::string HfConfig::text(const std::string& key, const std::string& otherwise) {
  asked_.insert(key);
  return json_string_or(config_, key, where_, otherwise);
}

void HfConfig::only(const std::string& key, std::initializer_list<json> allowed) {
  asked_.insert(key);
  if (!config_.contains(key)) {
    return;
  }
  const json& value = config_[key];
  std::vector<std::string> texts;
  for (const json& one : allowed) {
    if (value == one) {
      return;
    }
    texts.push_back(one.dump());
  }
  require(false, "{}: '{}' is {}; weft builds this model with {} only", where_, key, value.dump(),
          fmt::join(texts, " or "));
}

void HfConfig::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    asked_.emplace(key);
  }
}

void HfConfig::architectures(std::initializer_list<std::string_view> allowed) {
  if (!has("architectures")) {
    return;
  }
  const json& list = config_["architectures"];
  const bool known = list.is_array() && list.size() == 1 && list[0].is_string() &&
                     std::ranges::find(allowed, list[0].get<std::string>()) != allowed.end();
  require(known, "{}: 'architectures' is {}; weft trains {}", where_, list.dump(),
          fmt::join(allowed, ", "));
}

std::string HfConfig::activation(const std::string& key, const std::string& otherwise) {
  const std::string name = text(key, otherwise);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh" || name == "gelu_fast") {
    return "gelu_tanh";
  }
  if (name == "gelu" || name == "gelu_python") {
    return "gelu";
  }
  if (name == "silu" || name == "swish") {
    return "silu";
  }
  require(name == "relu", "{}: '{}' is '{}'; weft has gelu, gelu_new, relu and silu", where_, key,
          name);
  return name;
}

std::int64_t HfConfig::classes() {
  asked_.insert("id2label");
  std::int64_t named = 2;
  if (has("id2label")) {
    require(config_["id2label"].is_object(), "{}: 'id2label' is no object", where_);
    named = static_cast<std::int64_t>(config_["id2label"].size());
  }
  return size({"num_labels"}, named);
}

std::string HfConfig::sizes(const std::string& key, const std::string& otherwise) {
  asked_.insert(key);
  if (!has(key)) {
    return otherwise;
  }
  const json& list = config_[key];
  require(list.is_array() && !list.empty() && list.size() <= 64, "{}: '{}' is no list of sizes",
          where_, key);
  std::vector<std::string> texts;
  for (const json& item : list) {
    require(item.is_number_integer(), "{}: '{}' holds {}, which is no size", where_, key,
            item.dump());
    texts.push_back(item.dump());
  }
  return fmt::format("{}", fmt::join(texts, "/"));
}

void HfConfig::finish() const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : config_.items()) {
    if (!key.starts_with('_') && !asked_.contains(key) &&
        std::ranges::find(kHarmless, key) == kHarmless.end()) {
      unknown.push_back("'" + key + "'");
    }
  }
  require(unknown.empty(), "{}: the key{} {} {} not known; remove what does not change the model",
          where_, unknown.size() == 1 ? "" : "s", fmt::join(unknown, ", "),
          unknown.size() == 1 ? "is" : "are");
}

std::string describe_hf_config(const json& config, const std::string& where) {
  HfConfig reader(config, where);
  const std::string type = json_string(config, "model_type", where);
  std::vector<std::string> known;
  for (const Family& family : families()) {
    for (const std::string_view name : family.hf_types) {
      if (name == type) {
        const std::string description = family.describe(reader, type);
        reader.finish();
        return description;
      }
      known.emplace_back(name);
    }
  }
  throw Error(Blame::input, fmt::format("{}: 'model_type' is '{}'; weft reads {}", where, type,
                                        fmt::join(known, ", ")));
}

}  // namespace weft
