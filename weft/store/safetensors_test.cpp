#include "weft/store/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/base/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string scratch(const std::string& name) {
  return testing::TempDir() + "/weft_safetensors_" + std::to_string(::getpid()) + "_" + name;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string content(8, '\0');
  std::memcpy(content.data(), &length, 8);
  return content + header + std::string(data_bytes, '\1');
}

/// What opening a file with this content says; empty if it is accepted.
std::string complaint(const std::string& content) {
  const std::string path = scratch("hostile");
  std::ofstream(path, std::ios::binary) << content;
  std::string message;
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input) << error.what();
    message = error.what();
  }
  std::filesystem::remove(path);
  return message;
}

TEST(Safetensors, ReadsBackWhatWasWritten) {
  const std::string path = scratch("roundtrip");
  const std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> b = {-7};
  const std::vector<std::uint16_t> c = {9, 10, 11};
  write_safetensors(path,
                    {{"a", {"F32", {2, 3}, bytes_of(a)}},
                     {"b", {"I64", {}, bytes_of(b)}},
                     {"c", {"BF16", {3}, bytes_of(c)}},
                     {"none", {"F32", {0, 4}, {}}}},
                    {{"step", "12"}, {"umlaut", "ü"}});
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 4U);
  EXPECT_EQ(file.tensors().at("a").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.tensors().at("a").dtype, "F32");
  EXPECT_EQ(0, std::memcmp(file.tensors().at("a").bytes.data(), a.data(), 24));
  EXPECT_TRUE(file.tensors().at("b").shape.empty());
  EXPECT_EQ(0, std::memcmp(file.tensors().at("b").bytes.data(), b.data(), 8));
  EXPECT_EQ(0, std::memcmp(file.tensors().at("c").bytes.data(), c.data(), 6));
  EXPECT_EQ(file.metadata().at("umlaut"), "ü");
  for (const auto& [name, tensor] : file.tensors()) {
    const auto element = static_cast<std::uintptr_t>(stored_element_bytes(tensor.dtype));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes.data()) % element, 0U) << name;
  }
  std::filesystem::remove(path);
}

TEST(Safetensors, ReadsTheFormOfHuggingFace) {
  EXPECT_EQ(complaint(file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   )", 4)),
            "");
  EXPECT_EQ(complaint(file_of("{}", 0)), "");
}

TEST(Safetensors, RefusesHostileFiles) {
  const auto tensor = [](const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_THAT(complaint(""), HasSubstr("too short"));
  EXPECT_THAT(complaint(std::string(8, '\xff')), HasSubstr("too long"));
  EXPECT_THAT(complaint(file_of("{}", 0).substr(0, 9)), HasSubstr("truncated"));
  EXPECT_THAT(complaint(file_of("[1]", 0)), HasSubstr("not a JSON object"));
  EXPECT_THAT(complaint(file_of("{\"x\":", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint(file_of("{\"\xff\xfe\":1}", 0)), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint(file_of(std::string(100000, '['), 0)), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint(file_of(R"({"x":1})", 0)), HasSubstr("not an object"));
  EXPECT_THAT(complaint(file_of(R"({"x":{"shape":[],"data_offsets":[0,4]}})", 4)),
              HasSubstr("'dtype'"));
  EXPECT_THAT(complaint(file_of(R"({"x":{"dtype":"Q4","shape":[],"data_offsets":[0,4]}})", 4)),
              HasSubstr("unknown dtype 'Q4'"));
  EXPECT_THAT(complaint(file_of(R"({"__metadata__":{"a":1}})", 0)), HasSubstr("not a text"));
  EXPECT_THAT(complaint(file_of(tensor("[2]", "[0,8]"), 7)), HasSubstr("truncated"));
  EXPECT_THAT(complaint(file_of(tensor("[2]", "[0,4]"), 4)), HasSubstr("do not hold"));
  EXPECT_THAT(complaint(file_of(tensor("[1]", "[4,0]"), 4)), HasSubstr("data_offsets"));
  EXPECT_THAT(complaint(file_of(tensor("[1]", "[0,4,8]"), 8)), HasSubstr("data_offsets"));
  EXPECT_THAT(complaint(file_of(tensor("[-1]", "[0,4]"), 4)), HasSubstr("not a size"));
  EXPECT_THAT(complaint(file_of(tensor("[1.5]", "[0,4]"), 4)), HasSubstr("not a size"));
  EXPECT_THAT(complaint(file_of(tensor("[18446744073709551615]", "[0,4]"), 4)),
              HasSubstr("not a size"));
  // 2^62 · 4 elements of 4 bytes would wrap around to 0.
  EXPECT_THAT(complaint(file_of(tensor("[4611686018427387904,4]", "[0,0]"), 0)),
              HasSubstr("do not hold"));
  EXPECT_THAT(complaint(file_of(tensor("[1]", "[4,8]"), 8)), HasSubstr("belong to no tensor"));
  EXPECT_THAT(complaint(file_of(tensor("[1]", "[0,4]"), 5)), HasSubstr("belong to no tensor"));
}

TEST(Safetensors, RefusesTwoMeanings) {
  const std::string x = R"("x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  EXPECT_THAT(complaint(file_of("{" + x + "," + x + "}", 8)), HasSubstr("'x' stands twice"));
  const std::string y = R"("y":{"dtype":"F32","shape":[2],"data_offsets":[4,12]})";
  EXPECT_THAT(complaint(file_of("{" + x + "," + y + "}", 12)), HasSubstr("overlap"));
  const std::string twice =
      R"({"x":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  EXPECT_THAT(complaint(file_of(twice, 8)), HasSubstr("'dtype' stands twice"));
}

TEST(Safetensors, NoByteOfAFileCanCrashTheReader) {
  const std::string good = file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
  ASSERT_EQ(complaint(good), "");
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '\xff', '"', '9', '}'}) {
      std::string bad = good;
      bad[i] = c;
      (void)complaint(bad);  // accepted or Error{input}; complaint() checks the blame
    }
    EXPECT_NE(complaint(good.substr(0, i)), "") << "cut at " << i;
  }
}

TEST(Safetensors, WritesWholeFilesOnly) {
  const std::string folder = scratch("folder");
  std::filesystem::create_directory(folder);
  write_safetensors(folder + "/a.safetensors", {}, {});
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
  }
  EXPECT_EQ(files, 1);
  try {
    write_safetensors(folder + "/missing/a", {}, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::environment);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
