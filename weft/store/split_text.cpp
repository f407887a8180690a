// The patterns, tried from left to right at each place (\p{L} letters, \p{N} numbers, \s space):
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
//           | ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//   qwen2   as llama3 with \p{N} for \p{N}{1,3}
// They differ in the case of contractions, in what may stand before a word, in how numbers group,
// and in line ends. A run of n spaces that a word follows gives n - 1 of them: the last one belongs
// to the word.
#include "weft/store/split_text.h"

#include <array>
#include <utility>

#include "weft/base/error.h"
#include "weft/store/unicode.h"

namespace weft {

namespace {

constexpr std::array<std::pair<std::string_view, SplitPattern>, 3> kPatterns = {{
    {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     SplitPattern::gpt2},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitPattern::llama3},
    {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     SplitPattern::qwen2},
}};

enum class Class : unsigned char { letter, number, space, line_end, other, end };

Class class_at(std::string_view text, std::size_t position) {
  if (position >= text.size()) {
    return Class::end;
  }
  const std::uint32_t code = character_at(text, position).code;
  if (code == '\r' || code == '\n') {
    return Class::line_end;
  }
  return is_letter(code)   ? Class::letter
         : is_number(code) ? Class::number
         : is_space(code)  ? Class::space
                           : Class::other;
}

/// Where a run of characters of one class that begins at `position` ends.
std::size_t run_end(std::string_view text, std::size_t position, Class kind) {
  while (class_at(text, position) == kind) {
    position += character_at(text, position).bytes;
  }
  return position;
}

/// Bytes of 's, 't, 're, 've, 'm, 'll or 'd at the front, or 0. Without case the long s is an s.
std::size_t contraction(std::string_view text, bool any_case) {
  if (text.size() < 2 || text[0] != '\'') {
    return 0;
  }
  if (any_case && text.substr(1).starts_with("\xC5\xBF")) {
    return 3;
  }
  const auto letter = [&](std::size_t i) {
    const char c = i < text.size() ? text[i] : '\0';
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  };
  const char a = letter(1);
  const char b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') {
    return 2;
  }
  return ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/// At least one space or line end is at the front.
std::size_t space_word(std::string_view text, bool stop_at_line_end) {
  std::size_t end = 0;
  std::size_t last = 0;      // where the last character of the run begins
  std::size_t line_end = 0;  // behind the last line end
  for (Class kind = class_at(text, 0); kind == Class::space || kind == Class::line_end;
       kind = class_at(text, end)) {
    last = end;
    end += character_at(text, end).bytes;
    line_end = kind == Class::line_end ? end : line_end;
  }
  if (stop_at_line_end && line_end > 0) {
    return line_end;
  }
  return end == text.size() || last == 0 ? end : last;
}

std::size_t gpt2_word(std::string_view text) {
  if (const std::size_t bytes = contraction(text, false); bytes > 0) {
    return bytes;
  }
  const std::size_t skip = text[0] == ' ' ? 1 : 0;
  const Class kind = class_at(text, skip);
  if (kind == Class::letter || kind == Class::number || kind == Class::other) {
    return run_end(text, skip, kind);
  }
  return space_word(text, false);
}

std::size_t llama_word(std::string_view text, int most_digits) {
  if (const std::size_t bytes = contraction(text, true); bytes > 0) {
    return bytes;
  }
  const Class kind = class_at(text, 0);
  if (kind == Class::letter) {
    return run_end(text, 0, Class::letter);
  }
  const std::size_t second = character_at(text, 0).bytes;
  if (kind != Class::line_end && kind != Class::number && class_at(text, second) == Class::letter) {
    return run_end(text, second, Class::letter);
  }
  if (kind == Class::number) {
    std::size_t end = 0;
    for (int i = 0; i < most_digits && class_at(text, end) == Class::number; ++i) {
      end += character_at(text, end).bytes;
    }
    return end;
  }
  const std::size_t skip = text[0] == ' ' ? 1 : 0;
  if (class_at(text, skip) == Class::other) {
    return run_end(text, run_end(text, skip, Class::other), Class::line_end);
  }
  return space_word(text, true);
}

}  // namespace

std::optional<SplitPattern> find_pattern(std::string_view regex) {
  for (const auto& [text, pattern] : kPatterns) {
    if (text == regex) {
      return pattern;
    }
  }
  return std::nullopt;
}

std::size_t first_word(SplitPattern pattern, std::string_view text) {
  WEFT_CHECK(!text.empty());
  switch (pattern) {
    case SplitPattern::gpt2:
      return gpt2_word(text);
    case SplitPattern::llama3:
      return llama_word(text, 3);
    case SplitPattern::qwen2:
      return llama_word(text, 1);
  }
  return text.size();
}

std::size_t first_digits(bool single, std::string_view text) {
  WEFT_CHECK(!text.empty());
  const bool number = class_at(text, 0) == Class::number;
  std::size_t end = character_at(text, 0).bytes;
  while (!(number && single) && end < text.size() &&
         (class_at(text, end) == Class::number) == number) {
    end += character_at(text, end).bytes;
  }
  return end;
}

}  // namespace weft
