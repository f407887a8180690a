#include "weft/store/shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <random>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/safetensors.h"

namespace weft {
namespace {

using testing::HasSubstr;
using Sizes = std::vector<std::int64_t>;

class ShardsTest : public testing::Test {
 protected:
  ShardsTest() { std::filesystem::remove_all(folder_); }
  ~ShardsTest() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = testing::TempDir() + "/weft_shards_" + std::to_string(::getpid());
};

/// Elements of a box of the tensor whose element at [i, j, k] is 10000 i + 100 j + k.
std::vector<std::int32_t> cut(const Box& box) {
  std::vector<std::int32_t> result;
  for (std::int64_t i = 0; i < box.size[0]; ++i) {
    for (std::int64_t j = 0; j < box.size[1]; ++j) {
      for (std::int64_t k = 0; k < box.size[2]; ++k) {
        result.push_back(static_cast<std::int32_t>(10000 * (box.offset[0] + i) +
                                                   100 * (box.offset[1] + j) + box.offset[2] + k));
      }
    }
  }
  return result;
}

std::vector<std::int32_t> read(const ShardReader& reader, const Box& box) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(box.size[0] * box.size[1] * box.size[2]),
                                -1);
  reader.read("t", box, std::as_writable_bytes(std::span(out)));
  return out;
}

std::string complaint(const auto& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

TEST_F(ShardsTest, ReadsAnyBoxFromUnevenParts) {
  const Sizes whole = {4, 5, 6};
  // Ratios 1:3 over dim 1 on two ranks; rank 1 keeps it in two parts; rank 2 has a copy and an
  // overlapping part.
  const std::vector<std::vector<Box>> boxes = {{{{0, 0, 0}, {4, 1, 6}}},
                                               {{{0, 1, 0}, {4, 4, 2}}, {{0, 1, 2}, {4, 4, 4}}},
                                               {{{0, 0, 0}, {4, 1, 6}}, {{1, 0, 1}, {2, 3, 3}}}};
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<std::vector<std::int32_t>> data;
    for (const Box& box : boxes[rank]) {
      data.push_back(cut(box));
    }
    std::vector<Shard> shards;
    for (std::size_t i = 0; i < data.size(); ++i) {
      shards.push_back({"t", "I32", whole, boxes[rank][i], std::as_bytes(std::span(data[i]))});
    }
    write_shards(folder_, rank, shards);
  }
  const ShardReader reader(folder_, 3);
  EXPECT_EQ(reader.names(), std::vector<std::string>{"t"});
  EXPECT_EQ(reader.whole("t"), whole);
  EXPECT_EQ(reader.dtype("t"), "I32");
  std::mt19937 random(1);  // NOLINT(bugprone-random-generator-seed): the test must repeat
  for (int round = 0; round < 200; ++round) {
    Box box{{0, 0, 0}, {0, 0, 0}};
    for (std::size_t d = 0; d < 3; ++d) {
      box.offset[d] = static_cast<std::int64_t>(random() % whole[d]);
      box.size[d] = static_cast<std::int64_t>(random() % (whole[d] - box.offset[d] + 1));
    }
    EXPECT_EQ(read(reader, box), cut(box)) << "round " << round;
  }
}

TEST_F(ShardsTest, KeepsScalarsAndVectors) {
  const std::vector<double> scalar = {3.5};
  const std::vector<double> low = {1, 2};
  const std::vector<double> high = {3};
  write_shards(folder_, 0,
               {{"s", "F64", {}, {}, std::as_bytes(std::span(scalar))},
                {"v", "F64", {3}, {{0}, {2}}, std::as_bytes(std::span(low))}});
  write_shards(folder_, 1, {{"v", "F64", {3}, {{2}, {1}}, std::as_bytes(std::span(high))}});
  const ShardReader reader(folder_, 2);
  double s = 0;
  reader.read("s", {}, std::as_writable_bytes(std::span(&s, 1)));
  EXPECT_EQ(s, 3.5);
  std::vector<double> v(2);
  reader.read("v", {{1}, {2}}, std::as_writable_bytes(std::span(v)));
  EXPECT_EQ(v, (std::vector<double>{2, 3}));
}

TEST_F(ShardsTest, NamesWhatIsMissing) {
  const Box half{{0, 0, 0}, {1, 2, 2}};
  const std::vector<std::int32_t> data = cut(half);
  write_shards(folder_, 0, {{"t", "I32", {2, 2, 2}, half, std::as_bytes(std::span(data))}});
  const ShardReader reader(folder_, 1);
  EXPECT_THAT(complaint([&] {
                read(reader, {{0, 1, 0}, {2, 1, 2}});
              }),
              HasSubstr("no file holds box [1,1,0] + [1,1,2] of tensor 't'"));
  EXPECT_THAT(complaint([&] { read(reader, {{1, 0, 0}, {2, 1, 2}}); }), HasSubstr("does not lie"));
  EXPECT_THAT(complaint([&] { (void)reader.dtype("u"); }), HasSubstr("no tensor 'u'"));
  EXPECT_THAT(complaint([&] { const ShardReader two(folder_, 2); }),
              HasSubstr("rank-00001.safetensors: missing"));
  write_shards(folder_, 1, {});
  EXPECT_THAT(complaint([&] { const ShardReader one(folder_, 1); }), HasSubstr("holds 2 files"));
}

TEST_F(ShardsTest, RefusesFilesOfTwoCheckpoints) {
  const std::vector<std::int32_t> data = {1, 2};
  const auto bytes = std::as_bytes(std::span(data));
  write_shards(folder_, 0, {{"t", "I32", {4}, {{0}, {2}}, bytes}});
  write_shards(folder_, 1, {{"t", "I32", {5}, {{2}, {2}}, bytes}});
  EXPECT_THAT(complaint([&] { const ShardReader reader(folder_, 2); }),
              HasSubstr("not of one checkpoint"));
}

TEST_F(ShardsTest, RefusesHostileBoxes) {
  const std::vector<std::int32_t> data = {1, 2};
  const std::map<std::string, StoredTensor> tensors = {
      {"t", {"I32", {2}, std::as_bytes(std::span(data))}}};
  std::filesystem::create_directory(folder_);
  const auto opening = [&](const std::map<std::string, std::string>& metadata) {
    write_safetensors(folder_ + "/rank-00000.safetensors", tensors, metadata);
    return complaint([&] { const ShardReader reader(folder_, 1); });
  };
  EXPECT_THAT(opening({}), HasSubstr("no metadata"));
  EXPECT_THAT(opening({{"t", "{"}}), HasSubstr("rank-00000"));
  EXPECT_THAT(opening({{"t", R"({"name":"t","whole":[3],"offset":[2]})"}}),
              HasSubstr("does not lie in"));
  EXPECT_THAT(opening({{"t", R"({"name":"t","whole":[3],"offset":[9223372036854775807]})"}}),
              HasSubstr("does not lie in"));
  EXPECT_THAT(opening({{"t", R"({"name":"t","whole":[3,1],"offset":[0]})"}}),
              HasSubstr("does not lie in"));
  EXPECT_THAT(opening({{"t", R"({"name":"t","whole":[-3],"offset":[0]})"}}),
              HasSubstr("not a size"));
}

TEST_F(ShardsTest, SeesEveryDamagedByte) {
  std::vector<std::int32_t> data(6, 5);
  write_shards(folder_, 0, {{"t", "I32", {6}, {{0}, {6}}, std::as_bytes(std::span(data))}});
  EXPECT_NO_THROW(verify_shards(folder_, 0));
  const std::string path = folder_ + "/rank-00000.safetensors";
  const std::string whole = read_file(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write_file(path, damaged);
    const std::string said = complaint([&] { verify_shards(folder_, 0); });
    // Blanks that fill up the header are no data.
    EXPECT_TRUE(said.find(path) == 0 || whole[i] == ' ') << "byte " << i << ": " << said;
  }
  std::string last = whole;
  last.back() = 'x';
  write_file(path, last);
  EXPECT_THAT(complaint([&] { verify_shards(folder_, 0); }), HasSubstr("tensor 't' is damaged"));
}

}  // namespace
}  // namespace weft
