#include "weft/solver/selection_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/solver/gunzip.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr const char* kExample = R"({"problem": {"name": "small",
  "nodes": {"intervals": [[0, 2], [1, 3]], "costs": [[1, 2], [3]], "usages": [[10, 20], [30]]},
  "edges": {"nodes": [[0, 1]], "costs": [[7, 8]]}, "usage_limit": 50}})";

nlohmann::json example() {
  return nlohmann::json::parse(kExample);
}

std::string complaint(const nlohmann::json& json) {
  try {
    (void)selection_from_json(json, "file");
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

std::string compressed(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 100, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

TEST(SelectionFile, ReadsAllParts) {
  ASSERT_TRUE(is_selection(example()));
  const SelectionProblem problem = selection_from_json(example(), "file");
  EXPECT_EQ(problem.name, "small");
  ASSERT_EQ(problem.nodes.size(), 2U);
  EXPECT_EQ(problem.nodes[1].begin, 1);
  EXPECT_EQ(problem.nodes[1].end, 3);
  EXPECT_THAT(problem.nodes[0].cost, testing::ElementsAre(1, 2));
  EXPECT_THAT(problem.nodes[0].usage, testing::ElementsAre(10, 20));
  ASSERT_EQ(problem.edges.size(), 1U);
  EXPECT_EQ(problem.edges[0].b, 1);
  EXPECT_THAT(problem.edges[0].cost, testing::ElementsAre(7, 8));
  EXPECT_EQ(problem.usage_limit, 50);
}

TEST(SelectionFile, TheLimitMayBeAbsent) {
  nlohmann::json json = example();
  json["problem"].erase("usage_limit");
  EXPECT_FALSE(selection_from_json(json, "file").usage_limit.has_value());
}

TEST(SelectionFile, ReadsCompressedFiles) {
  const std::string path = testing::TempDir() + "selection.json.gz";
  write_file(path, compressed(kExample));
  EXPECT_EQ(read_problem_json(path), example());
  std::filesystem::remove(path);
}

TEST(SelectionFile, SaysWhatIsWrongWithCompressedData) {
  const std::string good = compressed(kExample);
  const auto complaint_of = [](const std::string& bytes, std::size_t most) -> std::string {
    try {
      (void)gunzip(bytes, "file.gz", most);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint_of(good, 1000), "");
  EXPECT_THAT(complaint_of(good.substr(0, 40), 1000), HasSubstr("file.gz: the gzip data ends"));
  EXPECT_THAT(complaint_of(good, 100), HasSubstr("file.gz: more than 100"));
  std::string bad = good;
  bad[15] = static_cast<char>(bad[15] ^ 0x55);
  bad[16] = static_cast<char>(bad[16] ^ 0x55);
  EXPECT_THAT(complaint_of(bad, 1000), HasSubstr("file.gz"));
}

TEST(SelectionFile, KnowsOtherFiles) {
  EXPECT_FALSE(is_selection(nlohmann::json::parse(R"({"format": "galv-case/1"})")));
  EXPECT_FALSE(is_selection(nlohmann::json::parse("[1]")));
  EXPECT_FALSE(is_selection(nlohmann::json::parse(R"({"problem": 3})")));
}

// A change of the example, and what the message must say.
struct Broken {
  const char* pointer = nullptr;
  const char* value = nullptr;
  const char* message = nullptr;
};

TEST(SelectionFile, SaysWhatIsWrongAndWhere) {
  const std::vector<Broken> cases = {
      {"/problem/nodes/costs", "[[1, 2]]", "2 intervals, 1 lists of costs"},
      {"/problem/nodes/costs/0", "[1]", "node 0: 1 costs but 2 usages"},
      {"/problem/nodes/costs/0", "[]", "node 0: 0 strategies"},
      {"/problem/nodes/costs/0/1", "-5", "node 0, costs: -5 is negative"},
      {"/problem/nodes/costs/0/1", "1.5", "node 0, costs: 1.5 is not an integer"},
      {"/problem/nodes/costs/0/1", "9223372036854775808", "is not an integer of 64 bits"},
      {"/problem/nodes/usages/1/0", "\"x\"", "node 1, usages: \"x\" is not an integer"},
      {"/problem/nodes/intervals/1", "[1]", "node 1: an interval is [begin, end]"},
      {"/problem/nodes/intervals/1", "7", "node 1, interval: a list of integers"},
      {"/problem/edges/nodes/0", "[0, 2]", "edge 0: there is no node 2; the last one is 1"},
      {"/problem/edges/nodes/0", "[0, -1]", "edge 0: -1 is negative"},
      {"/problem/edges/nodes/0", "[0, 1, 1]", "edge 0: it joins 3 nodes"},
      {"/problem/edges/costs/0", "[7]", "edge 0: 1 costs for 2 x 1 strategies"},
      {"/problem/edges/costs", "[]", "1 pairs of nodes but 0 lists"},
      {"/problem/edges", "{}", "\"nodes\" is missing"},
      {"/problem/usage_limit", "-1", "usage_limit: -1 is negative"},
      {"/problem/usage_limit", "\"5\"", "usage_limit: \"5\" is not an integer"},
  };
  for (const Broken& broken : cases) {
    nlohmann::json json = example();
    json[nlohmann::json::json_pointer(broken.pointer)] = nlohmann::json::parse(broken.value);
    EXPECT_THAT(complaint(json), HasSubstr(broken.message)) << broken.pointer << broken.value;
  }
}

}  // namespace
}  // namespace weft
