#pragma once

#include <string>
#include <string_view>

#include "weft/graph/graph.h"

namespace weft {

/// Reads the pieces of one line of the text form from left to right. Every piece may have spaces
/// before it. What does not fit is Error{input} with line and column.
class Cursor {
 public:
  Cursor(std::string_view text, int line) : text_(text), line_(line) {}

  [[nodiscard]] bool at_end();
  [[nodiscard]] bool accept(std::string_view symbol);
  void expect(std::string_view symbol);
  [[nodiscard]] bool accept_word(std::string_view word);

  [[nodiscard]] std::string word();
  [[nodiscard]] std::string name();  // in quotes
  [[nodiscard]] TensorType type();
  [[nodiscard]] double number();
  [[nodiscard]] Attr attr();
  [[nodiscard]] Attrs attrs();  // "{a=1, b=2}"
  [[nodiscard]] Init init();

  [[noreturn]] void fail(const std::string& message) const;
  [[nodiscard]] int line() const { return line_; }

 private:
  void skip_spaces();
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  [[nodiscard]] std::string_view number_text();
  [[nodiscard]] std::int64_t integer();
  [[nodiscard]] char escape();

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 0;
};

}  // namespace weft
