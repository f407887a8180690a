// Reads a tokenizer.json. Byte-level vocabularies write each byte as a printable character: bytes
// that print as Latin-1 stand for themselves, the other 68 are U+0100, U+0101, … in their order (so
// a space is Ġ). Tokens are turned back into bytes here; the encoder knows bytes only.
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/tokenizer.h"
#include "weft/store/tokenizer_model.h"
#include "weft/store/unicode.h"

namespace weft {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestAdded = 1024;  // bytes
constexpr std::size_t kMostSteps = 64;       // one inside the other
constexpr std::int64_t kMostIds = std::int64_t{1} << 31U;

bool prints_as_itself(std::uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

/// By code: the byte that the character stands for, or -1.
std::array<int, 0x144> byte_alphabet() {
  std::array<int, 0x144> bytes = {};
  bytes.fill(-1);
  std::size_t next = 0x100;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    bytes[prints_as_itself(byte) ? byte : next++] = static_cast<int>(byte);
  }
  return bytes;
}

/// The bytes that a token of a byte-level vocabulary stands for; none: it is no such token.
std::optional<std::string> alphabet_bytes(std::string_view token) {
  static const std::array<int, 0x144> alphabet = byte_alphabet();
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const Character c = character_at(token, i);
    if (c.code >= alphabet.size() || alphabet[c.code] < 0) {
      return std::nullopt;
    }
    bytes.push_back(static_cast<char>(alphabet[c.code]));
    i += c.bytes;
  }
  return bytes;
}

class Reader {
 public:
  Reader(const Json& json, std::string name) : json_(json) { model_.name = std::move(name); }

  TokenizerModel read() {
    require(json_.is_object(), "{}: not a tokenizer.json", model_.name);
    const Json& bpe = json_member(json_, "model", model_.name);
    require(bpe.is_object(), "{}: \"model\" is no object", model_.name);
    check_model(bpe);
    if (const Json* normalizer = section("normalizer")) {
      read_normalizer(*normalizer);
    }
    if (const Json* splits = section("pre_tokenizer")) {
      read_pre_tokenizer(*splits);
    }
    require(model_.steps.size() <= kMostSteps, "{}: {} steps cut the text; {} are the most",
            model_.name, model_.steps.size(), kMostSteps);
    read_vocabulary(json_member(bpe, "vocab", model_.name));
    read_merges(json_member(bpe, "merges", model_.name));
    read_unknown(bpe);
    if (json_.contains("added_tokens")) {
      read_added(json_["added_tokens"]);
    }
    cut_at_runs_of_marks();
    return std::move(model_);
  }

 private:
  [[nodiscard]] const Json* section(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end() || found->is_null()) {
      return nullptr;
    }
    require(found->is_object(), "{}: \"{}\" is no object", model_.name, key);
    return &*found;
  }

  void check_model(const Json& bpe) {
    const std::string type = json_string_or(bpe, "type", model_.name, "BPE");
    require(type == "BPE", "{}: a {} model is not handled; weft reads byte-pair encoding (BPE)",
            model_.name, type);
    require(json_number_or(bpe, "dropout", model_.name, 0) == 0, "{}: \"dropout\" is not handled",
            model_.name);
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      require(json_string_or(bpe, key, model_.name, "").empty(), "{}: \"{}\" is not handled",
              model_.name, key);
    }
    model_.whole_words = json_bool_or(bpe, "ignore_merges", model_.name, false);
    model_.fuse_unknown = json_bool_or(bpe, "fuse_unk", model_.name, false);
  }

  // Prepend and Replace are what the step space_mark does; the order in files is this one.
  void read_normalizer(const Json& normalizer) {
    const std::string type = json_string(normalizer, "type", model_.name);
    if (type == "Sequence") {
      for (const Json& part : members(normalizer, "normalizers")) {
        read_normalizer(part);
      }
    } else if (type == "NFC") {
      require(model_.steps.empty(), "{}: NFC after another normalizer is not handled", model_.name);
      model_.nfc = true;
    } else if (type == "Prepend") {
      require(json_string(normalizer, "prepend", model_.name) == kSpaceMark && model_.steps.empty(),
              "{}: a normalizer that prepends anything but ▁ is not handled", model_.name);
      model_.steps.push_back(
          {.kind = SplitStep::Kind::space_mark, .prefix = SplitStep::Prefix::always});
    } else {
      require(type == "Replace", "{}: the normalizer {} is not handled", model_.name, type);
      const Json& pattern = json_member(normalizer, "pattern", model_.name);
      require(pattern.is_object() && json_string(pattern, "String", model_.name) == " " &&
                  json_string(normalizer, "content", model_.name) == kSpaceMark,
              "{}: a normalizer that replaces anything but a space by ▁ is not handled",
              model_.name);
      if (model_.steps.empty()) {
        model_.steps.push_back({.kind = SplitStep::Kind::space_mark});
      }
      replaces_ = true;
    }
  }

  void read_pre_tokenizer(const Json& splits) {
    const std::string type = json_string(splits, "type", model_.name);
    if (type == "Sequence") {
      for (const Json& part : members(splits, "pretokenizers")) {
        read_pre_tokenizer(part);
      }
    } else if (type == "ByteLevel") {
      read_byte_level(splits);
    } else if (type == "Split") {
      read_split(splits);
    } else if (type == "Digits") {
      model_.steps.push_back(
          {.kind = SplitStep::Kind::digits,
           .single_digits = json_bool_or(splits, "individual_digits", model_.name, false)});
    } else {
      require(type == "Metaspace", "{}: the pre-tokenizer {} is not handled", model_.name, type);
      read_metaspace(splits);
    }
    require(type == "ByteLevel" || !model_.byte_level || type == "Sequence",
            "{}: the pre-tokenizer {} after ByteLevel is not handled", model_.name, type);
  }

  void read_byte_level(const Json& splits) {
    if (json_bool_or(splits, "add_prefix_space", model_.name, true)) {
      model_.steps.push_back({.kind = SplitStep::Kind::prefix_space});
    }
    if (json_bool_or(splits, "use_regex", model_.name, true)) {
      model_.steps.push_back({.kind = SplitStep::Kind::pattern, .pattern = SplitPattern::gpt2});
    }
    model_.byte_level = true;
  }

  // The known patterns match everywhere, so to keep the matches and to remove what is between them
  // are the same.
  void read_split(const Json& splits) {
    const Json& pattern = json_member(splits, "pattern", model_.name);
    require(pattern.is_object() && pattern.contains("Regex"),
            "{}: a Split without a \"Regex\" is not handled", model_.name);
    const std::string regex = json_string(pattern, "Regex", model_.name);
    const auto known = find_pattern(regex);
    require(known.has_value(), "{}: the Split pattern {} is not handled", model_.name, regex);
    const std::string behavior = json_string(splits, "behavior", model_.name);
    const bool invert = json_bool_or(splits, "invert", model_.name, false);
    require((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert),
            "{}: a Split with behavior {} (invert: {}) is not handled", model_.name, behavior,
            invert);
    model_.steps.push_back({.kind = SplitStep::Kind::pattern, .pattern = *known});
  }

  void read_metaspace(const Json& splits) {
    require(
        json_string_or(splits, "replacement", model_.name, std::string(kSpaceMark)) == kSpaceMark,
        "{}: a Metaspace with a replacement other than ▁ is not handled", model_.name);
    const bool legacy = json_bool_or(splits, "add_prefix_space", model_.name, true);
    const std::string scheme =
        json_string_or(splits, "prepend_scheme", model_.name, legacy ? "always" : "never");
    require(scheme == "always" || scheme == "first" || scheme == "never",
            "{}: the prepend_scheme {} is not known", model_.name, scheme);
    const bool split = json_bool_or(splits, "split", model_.name, true);
    model_.steps.push_back({.kind = SplitStep::Kind::space_mark,
                            .prefix = scheme == "always"  ? SplitStep::Prefix::missing
                                      : scheme == "first" ? SplitStep::Prefix::first
                                                          : SplitStep::Prefix::never,
                            .cut = split ? SplitStep::Cut::mark : SplitStep::Cut::nowhere});
    replaces_ = true;
  }

  const Json& members(const Json& object, const char* key) {
    const Json& list = json_member(object, key, model_.name);
    require(list.is_array(), "{}: \"{}\" is no list", model_.name, key);
    for (const Json& part : list) {
      require(part.is_object(), "{}: \"{}\" has a part that is no object", model_.name, key);
    }
    return list;
  }

  std::uint32_t read_id(const Json& value, const std::string& token) {
    require(value.is_number_integer() && value >= 0 && value < kMostIds,
            "{}: the id of \"{}\" is no number from 0 to 2^31", model_.name, token);
    const auto id = value.get<std::uint32_t>();
    model_.vocabulary = std::max<std::int64_t>(model_.vocabulary, std::int64_t{id} + 1);
    return id;
  }

  void read_vocabulary(const Json& vocab) {
    require(vocab.is_object(), "{}: \"vocab\" is no object", model_.name);
    require(model_.byte_level || model_.steps.empty() || replaces_,
            "{}: ▁ is put in front, but spaces do not become ▁: not handled", model_.name);
    model_.byte_ids.fill(-1);
    for (const auto& [token, value] : vocab.items()) {
      const std::uint32_t id = read_id(value, token);
      const auto bytes = model_.byte_level ? alphabet_bytes(token) : std::optional(token);
      require(model_.texts.emplace(id, bytes.value_or(token)).second,
              "{}: two tokens have the id {}; one is \"{}\"", model_.name, id, token);
      if (bytes) {
        model_.ids.emplace(*bytes, id);
      }
      if (model_.byte_level && bytes && bytes->size() == 1) {
        model_.byte_ids[static_cast<unsigned char>((*bytes)[0])] = id;
      }
    }
    if (json_bool_or(json_["model"], "byte_fallback", model_.name, false)) {
      require(!model_.byte_level, "{}: byte_fallback with ByteLevel is not handled", model_.name);
      for (int byte = 0; byte < 256; ++byte) {
        const auto found = model_.ids.find(fmt::format("<0x{:02X}>", byte));
        model_.byte_ids[byte] = found == model_.ids.end() ? -1 : std::int64_t{found->second};
      }
    }
  }

  std::uint32_t merged_id(const std::string& token, std::size_t rank) {
    const Json& vocab = json_["model"]["vocab"];
    const auto found = vocab.find(token);
    require(found != vocab.end(),
            "{}: merge {} makes or takes \"{}\", which is not in the vocabulary", model_.name, rank,
            token);
    return found->get<std::uint32_t>();
  }

  void read_merges(const Json& merges) {
    require(merges.is_array(), "{}: \"merges\" is no list", model_.name);
    model_.merges.reserve(merges.size());
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      const Json& merge = merges[rank];
      std::string left;
      std::string right;
      if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        require(space != std::string::npos && text.find(' ', space + 1) == std::string::npos,
                "{}: merge {} is not two tokens with a space between", model_.name, rank);
        left = text.substr(0, space);
        right = text.substr(space + 1);
      } else {
        require(
            merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string(),
            "{}: merge {} is neither \"a b\" nor [\"a\", \"b\"]", model_.name, rank);
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      }
      require(!left.empty() && !right.empty(), "{}: merge {} has an empty token", model_.name,
              rank);
      const std::uint64_t key = merge_key(merged_id(left, rank), merged_id(right, rank));
      model_.merges[key] = {.rank = static_cast<std::uint32_t>(rank),
                            .id = merged_id(left + right, rank)};
    }
  }

  void read_unknown(const Json& bpe) {
    const std::string token = json_string_or(bpe, "unk_token", model_.name, "");
    if (!token.empty()) {
      const auto found = model_.ids.find(token);
      require(found != model_.ids.end(), "{}: the unk_token \"{}\" is not in the vocabulary",
              model_.name, token);
      model_.unknown = found->second;
    }
  }

  void read_added(const Json& list) {
    require(list.is_array(), "{}: \"added_tokens\" is no list", model_.name);
    for (const Json& token : list) {
      require(token.is_object(), "{}: an added token is no object", model_.name);
      const std::string content = json_string(token, "content", model_.name);
      require(!content.empty() && content.size() <= kLongestAdded,
              "{}: an added token is empty or longer than {} bytes", model_.name, kLongestAdded);
      const auto is_set = [&](const char* key) {
        return json_bool_or(token, key, model_.name, false);
      };
      require(!is_set("single_word"), "{}: the added token \"{}\" has single_word: not handled",
              model_.name, content);
      const bool marks = !model_.steps.empty() && !model_.byte_level;
      require(!is_set("normalized") || (!marks && !(model_.nfc && needs_nfc(content))),
              "{}: the added token \"{}\" is normalized before it is found, which is not handled "
              "with this normalizer",
              model_.name, content);
      const std::uint32_t id = read_id(json_member(token, "id", model_.name), content);
      add(content, {.id = id, .left_strip = is_set("lstrip"), .right_strip = is_set("rstrip")});
    }
  }

  void add(const std::string& content, const AddedToken& token) {
    const auto known = model_.texts.find(token.id);
    const Json& vocab = json_["model"]["vocab"];
    const auto in_vocabulary = vocab.find(content);
    require(in_vocabulary == vocab.end() || *in_vocabulary == token.id,
            "{}: the added token \"{}\" has the id {} but the vocabulary gives it another",
            model_.name, content, token.id);
    require(known == model_.texts.end() || in_vocabulary != vocab.end(),
            "{}: the added token \"{}\" has the id {} of another token", model_.name, content,
            token.id);
    std::uint32_t node = 0;
    for (const char c : content) {
      const auto next = static_cast<std::uint32_t>(model_.added_at.size());
      const auto [edge, fresh] = model_.added_edges.emplace(edge_key(node, c), next);
      if (fresh) {
        model_.added_at.push_back(-1);
      }
      node = edge->second;
    }
    require(model_.added_at[node] < 0, "{}: the token \"{}\" is added twice", model_.name, content);
    model_.added_at[node] = static_cast<std::int32_t>(model_.added.size());
    model_.added.push_back(token);
    model_.texts[token.id] = content;
    model_.begins_added[static_cast<unsigned char>(content[0])] = true;
  }

  // Without a pre-tokenizer a whole text is one word. If ▁ is only ever at the front of tokens, no
  // merge reaches across the front of a run of ▁, and words may be cut there.
  void cut_at_runs_of_marks() {
    if (model_.steps.size() != 1 || model_.steps[0].kind != SplitStep::Kind::space_mark ||
        model_.steps[0].cut != SplitStep::Cut::nowhere) {
      return;
    }
    for (const auto& [key, merge] : model_.merges) {
      std::string_view text = model_.texts.at(merge.id);
      while (text.starts_with(kSpaceMark)) {
        text.remove_prefix(kSpaceMark.size());
      }
      if (text.find(kSpaceMark) != std::string_view::npos) {
        return;
      }
    }
    model_.steps[0].cut = SplitStep::Cut::run;
  }

  const Json& json_;
  TokenizerModel model_;
  bool replaces_ = false;  // spaces become ▁
};

}  // namespace

Tokenizer parse_tokenizer(std::string_view json, const std::string& name) {
  const Json parsed = parse_json(json, name);
  return Tokenizer(std::make_shared<const TokenizerModel>(Reader(parsed, name).read()));
}

Tokenizer read_tokenizer(const std::string& path) {
  return parse_tokenizer(read_file(path), path);
}

}  // namespace weft
