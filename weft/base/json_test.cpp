#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

template <typename Function>
std::string input_error(Function function) {
  try {
    static_cast<void>(function());
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input) << error.what();
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text) {
  return input_error([&] { return parse_json(text, "f.json"); });
}

TEST(Json, SaysWhereTheMistakeIs) {
  EXPECT_THAT(parse_error(""), StartsWith("f.json:1:1: not JSON: "));
  EXPECT_THAT(parse_error("{\"a\": 1,\n \"b\" 2}"), StartsWith("f.json:2:6: not JSON: "));
  EXPECT_THAT(parse_error("[1, 2"), StartsWith("f.json:1:6: not JSON: "));
  EXPECT_THAT(parse_error("[1]\n\n]"), StartsWith("f.json:3:1: not JSON: "));
  EXPECT_THAT(parse_error("[1,\n 1e999]"), AllOf(StartsWith("f.json:2:"), HasSubstr("1e999")));
  EXPECT_THAT(parse_error("[\"\xff\"]"), StartsWith("f.json:1:3: not JSON: "));
  EXPECT_THAT(parse_error("[x]"), Not(HasSubstr("json.exception"))) << "no words of the library";
}

TEST(Json, LimitsNesting) {
  const auto nested = [](int levels) {
    return std::string(static_cast<std::size_t>(levels), '[') +
           std::string(static_cast<std::size_t>(levels), ']');
  };
  EXPECT_EQ(parse_error(nested(200)), "no error");
  EXPECT_EQ(parse_error(nested(201)), "f.json:1:201: more than 200 levels of nesting");
  EXPECT_THAT(parse_error(std::string(1'000'000, '[')), HasSubstr("nesting"));
  EXPECT_EQ(parse_error("\"" + std::string(500, '[') + "\\\"" + std::string(500, '{') + "\""),
            "no error")
      << "brackets in text do not count";
}

TEST(Json, GivesTypedMembers) {
  const nlohmann::json j = parse_json(
      R"({"i": 3, "whole": 1e6, "x": 2.5, "s": "text", "b": true, "n": null, "neg": -4})", "f");
  EXPECT_EQ(json_int(j, "i", "f"), 3);
  EXPECT_EQ(json_int(j, "neg", "f"), -4);
  EXPECT_EQ(json_int(j, "whole", "f"), 1'000'000);
  EXPECT_EQ(json_number(j, "i", "f"), 3.0);
  EXPECT_EQ(json_number(j, "x", "f"), 2.5);
  EXPECT_EQ(json_string(j, "s", "f"), "text");
  EXPECT_TRUE(json_member(j, "n", "f").is_null());

  EXPECT_EQ(json_int_or(j, "i", "f", 7), 3);
  EXPECT_EQ(json_int_or(j, "none", "f", 7), 7);
  EXPECT_EQ(json_int_or(j, "n", "f", 7), 7) << "null is as good as missing";
  EXPECT_EQ(json_number_or(j, "none", "f", 0.5), 0.5);
  EXPECT_EQ(json_string_or(j, "none", "f", "d"), "d");
  EXPECT_EQ(json_string_or(j, "s", "f", "d"), "text");
  EXPECT_TRUE(json_bool_or(j, "b", "f", false));
  EXPECT_FALSE(json_bool_or(j, "none", "f", false));
}

TEST(Json, SaysWhichMemberIsWrong) {
  const nlohmann::json j =
      parse_json(R"({"s": "text", "x": 2.5, "big": 18446744073709551615, "n": null})", "f");
  EXPECT_EQ(input_error([&] { return json_int(j, "batch", "plan.json"); }),
            "plan.json: \"batch\" is missing");
  EXPECT_EQ(input_error([&] { return json_int(j, "s", "plan.json"); }),
            "plan.json: \"s\" must be an integer, not \"text\"");
  EXPECT_THAT(input_error([&] { return json_int(j, "x", "p"); }), HasSubstr("not 2.5"));
  EXPECT_THAT(input_error([&] { return json_int(j, "big", "p"); }), HasSubstr("64 bits"));
  EXPECT_THAT(input_error([&] { return json_int(j, "n", "p"); }), HasSubstr("not null"));
  EXPECT_THAT(input_error([&] { return json_number(j, "s", "p"); }), HasSubstr("a number"));
  EXPECT_THAT(input_error([&] { return json_string(j, "x", "p"); }), HasSubstr("a string"));
  EXPECT_THAT(input_error([&] { return json_int_or(j, "s", "p", 1); }), HasSubstr("an integer"));
  EXPECT_THAT(input_error([&] { return json_bool_or(j, "x", "p", true); }),
              HasSubstr("true or false"));
  const nlohmann::json list = parse_json("[1]", "f");
  EXPECT_EQ(input_error([&] { return json_int(list, "batch", "p"); }),
            "p: an object with \"batch\" is expected, not [1]");
  EXPECT_THAT(input_error([&] { return json_int_or(list, "batch", "p", 1); }),
              HasSubstr("an object"));
}

}  // namespace
}  // namespace weft
