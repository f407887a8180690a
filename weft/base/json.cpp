// JSON of the user: where it is wrong, and members with their types.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using Json = nlohmann::json;

// Programs that walk a value recursively must not run out of stack on a hostile file.
constexpr int kMaxDepth = 200;

// "3:14" for the byte at `offset`; both count from 1.
std::string line_and_column(std::string_view text, std::size_t offset) {
  offset = std::min(offset, text.size());
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
  }
  return fmt::format("{}:{}", line, offset - line_start + 1);
}

void check_depth(std::string_view text, const std::string& what) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      i += c == '\\' ? 1 : 0;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) {  // no `require`: it would look for the line at every bracket
        throw Error(Blame::input, fmt::format("{}:{}: more than {} levels of nesting", what,
                                              line_and_column(text, i), kMaxDepth));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// Reads once more only to learn where the first mistake is: not all exceptions of the library say.
struct MistakeFinder : nlohmann::json_sax<Json> {
  std::size_t offset = 0;

  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*elements*/) override { return true; }
  bool key(string_t& /*value*/) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& /*last_token*/,
                   const Json::exception& /*error*/) override {
    offset = position == 0 ? 0 : position - 1;
    return false;
  }
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: X" without all but X.
std::string plain_message(std::string message) {
  for (const std::string_view mark : {"] ", ", column "}) {
    const std::size_t at = message.find(mark);
    if (at != std::string::npos) {
      message.erase(0, at + mark.size());
    }
  }
  const std::size_t digits = message.find_first_not_of("0123456789");
  const bool had_column = digits != 0 && digits != std::string::npos && message[digits] == ':';
  return had_column ? message.substr(digits + 2) : message;
}

std::string shown(const Json& value) {
  constexpr std::size_t longest = 40;
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= longest ? text : text.substr(0, longest) + "…";
}

[[noreturn]] void wrong_type(const Json& value, std::string_view key, const std::string& where,
                             std::string_view wanted) {
  throw Error(Blame::input,
              fmt::format("{}: \"{}\" must be {}, not {}", where, key, wanted, shown(value)));
}

// 1e6 and 3.0 are whole numbers too; from 2^53 on a double no longer tells one from the next.
std::int64_t to_int(const Json& value, std::string_view key, const std::string& where) {
  constexpr double exact_limit = 9007199254740992.0;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() >
          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
    wrong_type(value, key, where, "an integer of 64 bits");
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::floor(number) && std::abs(number) <= exact_limit) {
      return static_cast<std::int64_t>(number);
    }
  }
  wrong_type(value, key, where, "an integer");
}

double to_number(const Json& value, std::string_view key, const std::string& where) {
  if (!value.is_number()) {
    wrong_type(value, key, where, "a number");
  }
  return value.get<double>();
}

std::string to_text(const Json& value, std::string_view key, const std::string& where) {
  if (!value.is_string()) {
    wrong_type(value, key, where, "a string");
  }
  return value.get<std::string>();
}

// Null if the member is missing or null: model configurations write `null` for "the usual".
const Json* find_member(const Json& object, std::string_view key, const std::string& where) {
  require(object.is_object(), "{}: an object with \"{}\" is expected, not {}", where, key,
          shown(object));
  const auto it = object.find(std::string(key));
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& what) {
  check_depth(text, what);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    MistakeFinder finder;
    Json::sax_parse(text, &finder);
    throw Error(Blame::input,
                fmt::format("{}:{}: not JSON: {}", what, line_and_column(text, finder.offset),
                            plain_message(error.what())));
  }
}

Json read_json(const std::string& path) {
  return parse_json(read_file(path), path);
}

const Json& json_member(const Json& object, std::string_view key, const std::string& where) {
  require(object.is_object(), "{}: an object with \"{}\" is expected, not {}", where, key,
          shown(object));
  const auto it = object.find(std::string(key));
  require(it != object.end(), "{}: \"{}\" is missing", where, key);
  return *it;
}

std::int64_t json_int(const Json& object, std::string_view key, const std::string& where) {
  return to_int(json_member(object, key, where), key, where);
}

double json_number(const Json& object, std::string_view key, const std::string& where) {
  return to_number(json_member(object, key, where), key, where);
}

std::string json_string(const Json& object, std::string_view key, const std::string& where) {
  return to_text(json_member(object, key, where), key, where);
}

std::int64_t json_int_or(const Json& object, std::string_view key, const std::string& where,
                         std::int64_t otherwise) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? otherwise : to_int(*member, key, where);
}

double json_number_or(const Json& object, std::string_view key, const std::string& where,
                      double otherwise) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? otherwise : to_number(*member, key, where);
}

std::string json_string_or(const Json& object, std::string_view key, const std::string& where,
                           const std::string& otherwise) {
  const Json* member = find_member(object, key, where);
  return member == nullptr ? otherwise : to_text(*member, key, where);
}

bool json_bool_or(const Json& object, std::string_view key, const std::string& where,
                  bool otherwise) {
  const Json* member = find_member(object, key, where);
  if (member != nullptr && !member->is_boolean()) {
    wrong_type(*member, key, where, "true or false");
  }
  return member == nullptr ? otherwise : member->get<bool>();
}

}  // namespace weft
