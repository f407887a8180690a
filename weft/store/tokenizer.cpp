// A text is cut at its added tokens; each piece is normalised and cut into words; a word's symbols
// (bytes or characters) are merged in pairs, the pair of the lowest rank first, the leftmost of
// equals. With a linked list of symbols and a heap of the pairs that can merge a word of n symbols
// takes O(n log n): each merge makes at most two new pairs. Words repeat, so results are kept.
#include "weft/store/tokenizer.h"

#include <algorithm>
#include <queue>

#include "weft/base/error.h"
#include "weft/store/tokenizer_model.h"
#include "weft/store/unicode.h"

namespace weft {

namespace {

constexpr std::size_t kLongestWord = std::size_t{1} << 24U;  // bytes; 1 GB of heap and list
constexpr std::size_t kLongestKept = 64;                     // bytes
constexpr std::size_t kMostKept = std::size_t{1} << 17U;     // words

struct Symbol {
  std::uint32_t id = 0;
  std::int32_t before = -1;
  std::int32_t after = -1;
  bool gone = false;
};

struct Candidate {
  std::uint32_t rank = 0;
  std::int32_t left = 0;
  std::uint32_t id = 0;
  // The heap gives the largest: the lowest rank, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

/// Encodes one text.
class Encoder {
 public:
  Encoder(const TokenizerModel& model, std::vector<std::uint32_t>& out)
      : model_(model), out_(out) {}

  /// A piece without added tokens.
  void piece(std::string_view text, bool first) {
    first_piece_ = first;
    if (text.empty()) {
      return;
    }
    if (model_.nfc && needs_nfc(text)) {
      cut(to_nfc(text), 0);
    } else {
      cut(text, 0);
    }
  }

 private:
  void cut(std::string_view text, std::size_t step) {
    if (step == model_.steps.size()) {
      word(text);
      return;
    }
    const SplitStep& how = model_.steps[step];
    if (how.kind == SplitStep::Kind::prefix_space) {
      if (text.starts_with(' ')) {
        cut(text, step + 1);
      } else {
        cut(" " + std::string(text), step + 1);
      }
      return;
    }
    if (how.kind == SplitStep::Kind::space_mark) {
      cut_marked(marked(text, how), step);
      return;
    }
    while (!text.empty()) {
      const std::size_t bytes = how.kind == SplitStep::Kind::digits
                                    ? first_digits(how.single_digits, text)
                                    : first_word(how.pattern, text);
      cut(text.substr(0, bytes), step + 1);
      text.remove_prefix(bytes);
    }
  }

  [[nodiscard]] std::string marked(std::string_view text, const SplitStep& how) const {
    const bool has_mark = text.starts_with(' ') || text.starts_with(kSpaceMark);
    const bool prefix = how.prefix == SplitStep::Prefix::always ||
                        (how.prefix == SplitStep::Prefix::missing && !has_mark) ||
                        (how.prefix == SplitStep::Prefix::first && first_piece_ && !has_mark);
    std::string result(prefix ? kSpaceMark : "");
    result.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
      if (c == ' ') {
        result += kSpaceMark;
      } else {
        result.push_back(c);
      }
    }
    return result;
  }

  void cut_marked(std::string_view text, std::size_t step) {
    const SplitStep::Cut where = model_.steps[step].cut;
    while (!text.empty()) {
      std::size_t end = where == SplitStep::Cut::nowhere ? std::string_view::npos : 0;
      if (where == SplitStep::Cut::run) {
        while (text.substr(end).starts_with(kSpaceMark)) {
          end += kSpaceMark.size();
        }
      }
      end = end == std::string_view::npos ? end
                                          : text.find(kSpaceMark, std::max<std::size_t>(end, 1));
      end = std::min(end, text.size());
      cut(text.substr(0, end), step + 1);
      text.remove_prefix(end);
    }
  }

  void word(std::string_view text) {
    if (const auto known = kept_.find(text); known != kept_.end()) {
      out_.insert(out_.end(), known->second.begin(), known->second.end());
      return;
    }
    const std::size_t first = out_.size();
    encode_word(text);
    if (text.size() <= kLongestKept && kept_.size() < kMostKept) {
      kept_.emplace(text,
                    std::vector(out_.begin() + static_cast<std::ptrdiff_t>(first), out_.end()));
    }
  }

  void encode_word(std::string_view text) {
    require(text.size() <= kLongestWord, "{}: the text has a word of {} bytes; {} are the most",
            model_.name, text.size(), kLongestWord);
    if (model_.whole_words) {
      if (const auto id = model_.ids.find(text); id != model_.ids.end()) {
        out_.push_back(id->second);
        return;
      }
    }
    symbols_.clear();
    last_unknown_ = false;
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t bytes = model_.byte_level ? 1 : character_at(text, i).bytes;
      add_symbols(text.substr(i, bytes));
      i += bytes;
    }
    merge();
    for (const Symbol& symbol : symbols_) {
      if (!symbol.gone) {
        out_.push_back(symbol.id);
      }
    }
  }

  // A byte or a character: its own token, else tokens of its bytes, else the unknown token.
  void add_symbols(std::string_view text) {
    if (!model_.byte_level) {
      if (const auto id = model_.ids.find(text); id != model_.ids.end()) {
        add_symbol(id->second);
        return;
      }
    }
    const auto id_of = [&](char c) { return model_.byte_ids[static_cast<unsigned char>(c)]; };
    if (std::ranges::all_of(text, [&](char c) { return id_of(c) >= 0; })) {
      for (const char c : text) {
        add_symbol(static_cast<std::uint32_t>(id_of(c)));
      }
      return;
    }
    require(model_.unknown.has_value(), "{}: has no token for the byte 0x{:02x} of the text",
            model_.name, static_cast<unsigned char>(text[0]));
    if (!last_unknown_ || !model_.fuse_unknown) {
      add_symbol(*model_.unknown);
    }
    last_unknown_ = true;
  }

  void add_symbol(std::uint32_t id) {
    const auto here = static_cast<std::int32_t>(symbols_.size());
    if (here > 0) {
      symbols_.back().after = here;
    }
    symbols_.push_back({.id = id, .before = here - 1, .after = -1});
    last_unknown_ = false;
  }

  void offer(std::int32_t left) {
    const std::int32_t right = left < 0 ? -1 : symbols_[static_cast<std::size_t>(left)].after;
    if (right < 0) {
      return;
    }
    const auto found = model_.merges.find(merge_key(symbols_[static_cast<std::size_t>(left)].id,
                                                    symbols_[static_cast<std::size_t>(right)].id));
    if (found != model_.merges.end()) {
      heap_.push({.rank = found->second.rank, .left = left, .id = found->second.id});
    }
  }

  void merge() {
    for (std::size_t i = 0; i + 1 < symbols_.size(); ++i) {
      offer(static_cast<std::int32_t>(i));
    }
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      Symbol& left = symbols_[static_cast<std::size_t>(best.left)];
      if (left.gone || left.after < 0) {
        continue;
      }
      Symbol& right = symbols_[static_cast<std::size_t>(left.after)];
      // One of the two may have merged with another symbol since.
      const auto now = model_.merges.find(merge_key(left.id, right.id));
      if (now == model_.merges.end() || now->second.id != best.id) {
        continue;
      }
      left.id = best.id;
      left.after = right.after;
      right.gone = true;
      if (left.after >= 0) {
        symbols_[static_cast<std::size_t>(left.after)].before = best.left;
      }
      offer(left.before);
      offer(best.left);
    }
  }

  const TokenizerModel& model_;
  std::vector<std::uint32_t>& out_;
  bool first_piece_ = true;
  bool last_unknown_ = false;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> heap_;
  TextMap<std::vector<std::uint32_t>> kept_;
};

/// An added token in a text: the leftmost, of those the longest.
struct Found {
  std::size_t begin = std::string_view::npos;
  std::size_t end = 0;
  AddedToken token;
};

Found find_added(const TokenizerModel& model, std::string_view text, std::size_t from) {
  Found found;
  for (std::size_t i = from; i < text.size() && found.end == 0; ++i) {
    if (!model.begins_added[static_cast<unsigned char>(text[i])]) {
      continue;
    }
    std::uint32_t node = 0;
    for (std::size_t end = i; end < text.size(); ++end) {
      const auto edge = model.added_edges.find(edge_key(node, text[end]));
      if (edge == model.added_edges.end()) {
        break;
      }
      node = edge->second;
      if (model.added_at[node] >= 0) {
        found = {.begin = i,
                 .end = end + 1,
                 .token = model.added[static_cast<std::size_t>(model.added_at[node])]};
      }
    }
  }
  return found;
}

std::string_view without_last_spaces(std::string_view text) {
  std::size_t end = 0;  // behind the last character that is no space
  for (std::size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    i += c.bytes;
    end = is_space(c.code) ? end : i;
  }
  return text.substr(0, end);
}

std::size_t first_no_space(std::string_view text, std::size_t i) {
  while (i < text.size() && is_space(character_at(text, i).code)) {
    i += character_at(text, i).bytes;
  }
  return i;
}

bool is_byte_token(const TokenizerModel& model, std::uint32_t id, std::string_view text) {
  return !model.byte_level && text.size() == 6 && text.starts_with("<0x") &&
         std::ranges::find(model.byte_ids, std::int64_t{id}) != model.byte_ids.end();
}

}  // namespace

Tokenizer::Tokenizer(std::shared_ptr<const TokenizerModel> model) : model_(std::move(model)) {
}

std::int64_t Tokenizer::vocabulary() const {
  return model_->vocabulary;
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::uint32_t> ids;
  Encoder encoder(*model_, ids);
  std::size_t from = 0;
  while (true) {
    const Found found = find_added(*model_, text, from);
    std::string_view piece = text.substr(from, found.begin - from);
    if (found.token.left_strip) {
      piece = without_last_spaces(piece);
    }
    encoder.piece(piece, from == 0);
    if (found.begin == std::string_view::npos) {
      return ids;
    }
    ids.push_back(found.token.id);
    from = found.token.right_strip ? first_no_space(text, found.end) : found.end;
  }
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids) const {
  std::string result;
  const bool marks = !model_->byte_level && !model_->steps.empty();
  for (const std::uint32_t id : ids) {
    const auto found = model_->texts.find(id);
    require(found != model_->texts.end(), "{}: has no token with the id {}", model_->name, id);
    const std::string& text = found->second;
    if (is_byte_token(*model_, id, text)) {
      result.push_back(static_cast<char>(std::stoi(text.substr(3, 2), nullptr, 16)));
      continue;
    }
    for (std::size_t i = 0; i < text.size();) {
      const bool mark = marks && std::string_view(text).substr(i).starts_with(kSpaceMark);
      result.push_back(mark ? ' ' : text[i]);
      i += mark ? kSpaceMark.size() : 1;
    }
  }
  const bool prefixed = marks && model_->steps[0].prefix != SplitStep::Prefix::never;
  return prefixed && result.starts_with(' ') ? result.substr(1) : result;
}

}  // namespace weft
