#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace weft {

/// The published patterns that cut text into words before byte-pair encoding.
enum class SplitPattern : unsigned char {
  gpt2,
  llama3,  // also cl100k: numbers in groups of three
  qwen2,   // as llama3, each digit alone
};

/// The pattern that a tokenizer.json writes as this regular expression; none: it is not known.
[[nodiscard]] std::optional<SplitPattern> find_pattern(std::string_view regex);

/// Bytes of the word at the front of a text that is not empty. The patterns match everywhere: words
/// follow each other without gaps.
[[nodiscard]] std::size_t first_word(SplitPattern pattern, std::string_view text);

/// Bytes of the front of a text until a number begins or ends; `single`: each digit alone.
[[nodiscard]] std::size_t first_digits(bool single, std::string_view text);

}  // namespace weft
