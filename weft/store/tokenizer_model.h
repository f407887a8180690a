#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "weft/store/split_text.h"

// What a tokenizer.json says, shared by its reader and the encoder.
namespace weft {

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

/// U+2581, which stands for a space in vocabularies with byte fallback.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

struct Merge {
  std::uint32_t rank = 0;  // the lowest goes first
  std::uint32_t id = 0;    // of the result
};
[[nodiscard]] constexpr std::uint64_t merge_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32U | right;
}

[[nodiscard]] constexpr std::uint64_t edge_key(std::uint64_t node, char byte) {
  return node << 8U | static_cast<unsigned char>(byte);
}

/// One step of cutting text into words.
struct SplitStep {
  enum class Kind : std::uint8_t { prefix_space, pattern, digits, space_mark };
  Kind kind = Kind::pattern;
  SplitPattern pattern = SplitPattern::gpt2;
  bool single_digits = false;
  /// space_mark: spaces become U+2581, and one is put in front …
  enum class Prefix : std::uint8_t { never, first, missing, always };
  Prefix prefix = Prefix::never;  // … of nothing, of the first piece, where none is, of each piece
  /// … then words begin nowhere else, at each mark, or at each run of them.
  enum class Cut : std::uint8_t { nowhere, mark, run };
  Cut cut = Cut::nowhere;
};

struct AddedToken {
  std::uint32_t id = 0;
  bool left_strip = false;  // takes the spaces before it away
  bool right_strip = false;
};

struct TokenizerModel {
  std::string name;
  bool byte_level = false;  // symbols are bytes; else they are characters
  bool nfc = false;
  std::vector<SplitStep> steps = {};
  TextMap<std::uint32_t> ids = {};                            // of tokens, as bytes of text
  std::unordered_map<std::uint32_t, std::string> texts = {};  // the reverse, with added tokens
  std::array<std::int64_t, 256> byte_ids = {};  // of bytes (byte_level) or <0x..>; -1: none
  std::unordered_map<std::uint64_t, Merge> merges = {};
  bool whole_words = false;  // "ignore_merges": a word in the vocabulary is one token
  std::optional<std::uint32_t> unknown = {};
  bool fuse_unknown = false;
  /// Added tokens, and a tree of their bytes: node 0 is the root, an edge is (node, byte).
  std::vector<AddedToken> added = {};
  std::unordered_map<std::uint64_t, std::uint32_t> added_edges = {};
  std::vector<std::int32_t> added_at = {-1};  // by node: into `added`, or -1
  std::array<bool, 256> begins_added = {};    // by first byte
  std::int64_t vocabulary = 0;
};

}  // namespace weft
