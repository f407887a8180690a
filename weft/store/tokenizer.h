#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct TokenizerModel;

/// Byte-pair encoding as a Hugging Face tokenizer.json describes it: byte-level (GPT-2, Llama-3,
/// Qwen2) or with byte fallback (Llama-2). Gives the ids of a stream of text: what a tokenizer.json
/// says of a single request (truncation, padding, the tokens that its post-processor adds) is not
/// applied.
class Tokenizer {
 public:
  explicit Tokenizer(std::shared_ptr<const TokenizerModel> model);

  /// One more than the largest id.
  [[nodiscard]] std::int64_t vocabulary() const;
  /// Ids of a text. Any bytes are text. Error{input} where the vocabulary lacks a byte.
  [[nodiscard]] std::vector<std::uint32_t> encode(std::string_view text) const;
  /// The text of ids. Error{input} for an id that is not known.
  [[nodiscard]] std::string decode(std::span<const std::uint32_t> ids) const;

 private:
  std::shared_ptr<const TokenizerModel> model_;
};

/// Error{input} names whatever would change ids and is not handled. `name` stands in front.
[[nodiscard]] Tokenizer parse_tokenizer(std::string_view json, const std::string& name);
[[nodiscard]] Tokenizer read_tokenizer(const std::string& path);

}  // namespace weft
