#include "weft/graph/cursor.h"

#include <charconv>
#include <cmath>

#include "weft/base/error.h"
#include "weft/graph/structure.h"

namespace weft {
namespace {

constexpr std::string_view kWordLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";

template <typename Number>
bool parse_whole(std::string_view text, Number& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_double(std::string_view text, double& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
}

}  // namespace

void Cursor::fail(const std::string& message) const {
  throw Error(Blame::input,
              fmt::format("graph text, line {}, column {}: {}", line_, at_ + 1, message));
}

void Cursor::skip_spaces() {
  while (peek() == ' ' || peek() == '\t' || peek() == '\r') {
    ++at_;
  }
}

bool Cursor::at_end() {
  skip_spaces();
  return at_ == text_.size() || text_[at_] == '#';
}

bool Cursor::accept(std::string_view symbol) {
  skip_spaces();
  const bool found = text_.substr(at_).starts_with(symbol);
  at_ += found ? symbol.size() : 0;
  return found;
}

void Cursor::expect(std::string_view symbol) {
  if (!accept(symbol)) {
    fail(fmt::format("'{}' is expected", symbol));
  }
}

bool Cursor::accept_word(std::string_view word) {
  skip_spaces();
  const std::size_t end = std::min(text_.find_first_not_of(kWordLetters, at_), text_.size());
  const bool found = text_.substr(at_, end - at_) == word;
  at_ = found ? end : at_;
  return found;
}

std::string Cursor::word() {
  skip_spaces();
  const std::size_t end = std::min(text_.find_first_not_of(kWordLetters, at_), text_.size());
  const std::string_view found = text_.substr(at_, end - at_);
  if (!is_word(found)) {
    fail("a word is expected");
  }
  at_ = end;
  return std::string(found);
}

std::string Cursor::name() {
  expect("\"");
  std::string result;
  while (peek() != '"') {
    if (at_ >= text_.size()) {
      fail("the closing quote is missing");
    }
    const char c = text_[at_++];
    result += c == '\\' ? escape() : c;
  }
  ++at_;
  return result;
}

// What follows a backslash.
char Cursor::escape() {
  const char c = peek();
  if (c == 'x') {
    unsigned code = 0;
    if (text_.size() - at_ < 3 || !parse_whole(text_.substr(at_ + 1, 2), code, 16)) {
      fail("\\x needs two hexadecimal digits");
    }
    at_ += 3;
    return static_cast<char>(code);
  }
  if (c != '"' && c != '\\' && c != 'n' && c != 't') {
    fail("an unknown escape; known are \\\" \\\\ \\n \\t \\xNN");
  }
  ++at_;
  return c == 'n' ? '\n' : c == 't' ? '\t' : c;
}

TensorType Cursor::type() {
  skip_spaces();
  const std::size_t close = text_.find(']', at_);
  if (close == std::string_view::npos) {
    fail("a type such as f32[B,128,64] is expected");
  }
  try {
    TensorType result = parse_type(text_.substr(at_, close + 1 - at_));
    at_ = close + 1;
    return result;
  } catch (const Error& error) {
    fail(error.what());
  }
}

std::string_view Cursor::number_text() {
  skip_spaces();
  const std::size_t end = std::min(text_.find_first_not_of("+-.0123456789eE", at_), text_.size());
  const std::string_view found = text_.substr(at_, end - at_);
  if (found.empty()) {
    fail("a value is expected: an integer, a number, a text in quotes or [a list of integers]");
  }
  return found;
}

std::int64_t Cursor::integer() {
  const std::string_view text = number_text();
  std::int64_t result = 0;
  if (!parse_whole(text, result)) {
    fail(fmt::format("'{}' is not an integer of 64 bits", text));
  }
  at_ += text.size();
  return result;
}

double Cursor::number() {
  const std::string_view text = number_text();
  double result = 0;
  if (!parse_double(text, result)) {
    fail(fmt::format("'{}' is not a finite number", text));
  }
  at_ += text.size();
  return result;
}

Attr Cursor::attr() {
  skip_spaces();
  if (peek() == '"') {
    return name();
  }
  if (accept("[")) {
    Ints list;
    if (accept("]")) {
      return list;
    }
    do {
      list.push_back(integer());
    } while (accept(","));
    expect("]");
    return list;
  }
  // An integer has digits only; a point or an exponent makes a number.
  if (number_text().find_first_of(".eE") == std::string_view::npos) {
    return integer();
  }
  return number();
}

Attrs Cursor::attrs() {
  Attrs result;
  expect("{");
  do {
    std::string key = word();
    expect("=");
    Attr value = attr();
    if (!result.emplace(key, std::move(value)).second) {
      fail(fmt::format("attribute {} is given twice", key));
    }
  } while (accept(","));
  expect("}");
  return result;
}

Init Cursor::init() {
  if (accept_word("normal")) {
    return {.kind = Init::Kind::normal, .std_dev = number()};
  }
  if (accept_word("zeros")) {
    return {.kind = Init::Kind::zeros};
  }
  if (accept_word("ones")) {
    return {.kind = Init::Kind::ones};
  }
  if (accept_word("copy")) {
    return {.kind = Init::Kind::copy};
  }
  fail("an initial value is expected: zeros, ones, normal 0.02 or copy");
}

}  // namespace weft
