#include "weft/store/weights.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/convert.h"

namespace weft {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-weights-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<float> counted(std::int64_t n, float first) {
  std::vector<float> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// Parameter p[2,3,4]: expert 0 is tensor "e0" [3,4]; expert 1 is "e1", stored transposed as columns
// 1 … 3 of [4,4], of which column 0 is parameter q[4,1].
std::vector<StoredPart> stacked() {
  return {{.parameter = "p",
           .offset = {0, 0, 0},
           .size = {1, 3, 4},
           .tensor = "e0",
           .tensor_shape = {3, 4},
           .tensor_offset = {0, 0}},
          {.parameter = "p",
           .offset = {1, 0, 0},
           .size = {1, 3, 4},
           .tensor = "e1",
           .tensor_shape = {4, 4},
           .tensor_offset = {0, 1},
           .transposed = true},
          {.parameter = "q",
           .offset = {0, 0},
           .size = {4, 1},
           .tensor = "e1",
           .tensor_shape = {4, 4},
           .tensor_offset = {0, 0}}};
}

void write_stacked(const std::string& folder, std::int64_t largest_file) {
  const std::vector<float> p = counted(24, 0);
  const std::vector<float> q = counted(4, 100);
  write_weights(
      folder,
      {.parts = stacked(), .dtypes = {{"p", "F32"}, {"q", "F32"}}, .largest_file = largest_file},
      [&](const std::string& parameter, const Box& box, const std::string& dtype,
          std::span<std::byte> out) {
        ASSERT_EQ(dtype, "F32");
        const float* from = parameter == "q" ? q.data() : p.data() + box.offset[0] * 12;
        std::memcpy(out.data(), from, out.size());
      });
}

TEST(Weights, PartsLieWhereTheLayoutSays) {
  const Folder folder;
  write_stacked(folder.path(), 1 << 20);
  const WeightFiles files(folder.path());
  const StoredTensor* e1 = files.find("e1");
  ASSERT_NE(e1, nullptr);
  std::vector<float> stored(16);
  std::memcpy(stored.data(), e1->bytes.data(), 64);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(stored[static_cast<std::size_t>(4 * r)], 100.0F + static_cast<float>(r));
    for (int c = 0; c < 3; ++c) {  // element (c, r) of expert 1
      EXPECT_EQ(stored[static_cast<std::size_t>(4 * r + 1 + c)],
                12.0F + static_cast<float>(4 * c + r));
    }
  }
}

TEST(Weights, EveryBoxReadsBack) {
  const Folder folder;
  write_stacked(folder.path(), 1 << 20);
  const WeightFiles files(folder.path());
  std::vector<StoredPart> parts = stacked();
  parts.pop_back();
  for (std::int64_t begin = 0; begin < 3; ++begin) {
    for (std::int64_t end = begin + 1; end <= 3; ++end) {
      const Box box{{0, begin, 1}, {2, end - begin, 2}};
      std::vector<double> out(static_cast<std::size_t>(4 * (end - begin)));
      read_weights(files, parts, box, "F64", std::as_writable_bytes(std::span(out)));
      std::size_t i = 0;
      for (std::int64_t e = 0; e < 2; ++e) {
        for (std::int64_t r = begin; r < end; ++r) {
          for (std::int64_t c = 1; c < 3; ++c) {
            EXPECT_EQ(out[i++], static_cast<double>(12 * e + 4 * r + c));
          }
        }
      }
    }
  }
}

TEST(Weights, LargeModelsAreSeveralFilesWithAnIndex) {
  const Folder folder;
  write_stacked(folder.path(), 64);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/model-00001-of-00002.safetensors"));
  const WeightFiles files(folder.path());
  EXPECT_EQ(files.tensors().size(), 2U);
  EXPECT_TRUE(weights_violations(files, stacked()).empty());
}

TEST(Weights, AllThatIsWrongIsNamed) {
  const Folder folder;
  write_stacked(folder.path(), 1 << 20);
  const WeightFiles files(folder.path());
  std::vector<StoredPart> parts = stacked();
  parts[0].tensor = "gone";
  parts[1].tensor_shape = {4, 5};
  const std::vector<std::string> found = weights_violations(files, parts);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_NE(found[0].find("'gone' is missing"), std::string::npos);
  EXPECT_NE(found[1].find("[4,4], the model has [4,5]"), std::string::npos);
}

TEST(Weights, OlderNamesAreFound) {
  const Folder folder;
  const std::vector<float> numbers = {1, 2};
  const StoredTensor tensor{"F32", {2}, std::as_bytes(std::span(numbers))};
  write_safetensors(folder.path() + "/model.safetensors",
                    {{"wte.weight", tensor}, {"encoder.LayerNorm.gamma", tensor}}, {});
  const WeightFiles files(folder.path());
  EXPECT_NE(files.find("transformer.wte.weight"), nullptr);
  EXPECT_NE(files.find("bert.encoder.LayerNorm.weight"), nullptr);
  EXPECT_EQ(files.find("lm_head.weight"), nullptr);
}

TEST(Weights, AnIndexCannotLeadElsewhere) {
  const Folder folder;
  write_file(folder.path() + "/model.safetensors.index.json",
             R"({"weight_map":{"a":"../other.safetensors"}})");
  EXPECT_THROW(WeightFiles{folder.path()}, Error);
}

TEST(Convert, AllHalfNumbersSurvive) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (!std::isnan(from_f16(half))) {
      EXPECT_EQ(to_f16(from_f16(half)), half);
    }
    if (!std::isnan(from_bf16(half))) {
      EXPECT_EQ(to_bf16(from_bf16(half)), half);
    }
  }
}

TEST(Convert, RoundsToNearestEven) {
  EXPECT_EQ(to_f16(1.0F + 0.00048828125F), 0x3c00);      // a tie: down to even
  EXPECT_EQ(to_f16(1.0F + 3 * 0.00048828125F), 0x3c02);  // a tie: up to even
  EXPECT_EQ(to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(to_bf16(1.0F + 0.00390625F), 0x3f80);
  EXPECT_EQ(to_bf16(1.0F + 3 * 0.00390625F), 0x3f82);
}

}  // namespace
}  // namespace weft
