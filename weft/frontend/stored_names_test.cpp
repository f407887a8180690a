// What is stored equals tests/names/*.json, lists made from public indexes of weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "weft/frontend/model.h"

namespace weft {
namespace {

using nlohmann::json;
using Tensors = std::map<std::string, std::string>;  // name -> "F32[768,768]"

std::string describe(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  return dtype + json(shape).dump();
}

std::vector<std::string> expand(const std::vector<std::string>& names, const std::string& letter,
                                std::int64_t begin, std::int64_t end) {
  const std::string mark = "{" + letter + "}";
  std::vector<std::string> result;
  for (const std::string& name : names) {
    for (std::int64_t i = begin; i < end; ++i) {
      result.push_back(name);
      result.back().replace(name.find(mark), mark.size(), std::to_string(i));
    }
  }
  return result;
}

Tensors listed(const json& list) {
  Tensors tensors;
  for (const json& group : list.at("groups")) {
    std::vector<std::string> prefixes = {group.at("prefix")};
    const json ranges = group.value("ranges", json::object());
    for (const auto& [letter, range] : ranges.items()) {
      prefixes = expand(prefixes, letter, range.at(0), range.at(1));
    }
    for (const std::string& prefix : prefixes) {
      for (const auto& [name, shape] : group.at("tensors").items()) {
        std::string dtype = list.at("dtype");
        for (const std::string end : list.value("integers", json::array())) {
          dtype = name.ends_with(end) ? "I64" : dtype;
        }
        EXPECT_TRUE(tensors.emplace(prefix + name, describe(dtype, shape)).second) << prefix + name;
      }
    }
  }
  return tensors;
}

/// Files in f16 are compared as f32 ones: weft trains in f32, bf16 or f64.
Tensors stored(const json& list, const OpTable& ops) {
  const bool half = list.at("dtype") == "BF16";
  const Model model = load_model(list.at("model"), {.dtype = half ? DType::bf16 : DType::f32}, ops);
  std::map<std::string, DType> dtypes;
  for (const ValueId id : values_of_kind(model.forward, ValueKind::parameter)) {
    dtypes[model.forward.values[id].name] = model.forward.values[id].type.dtype;
  }
  const std::map<DType, std::string> names = {{DType::bf16, "BF16"}, {DType::f32, "F32"}};
  Tensors tensors;
  for (const StoredPart& part : model.stored) {
    tensors[part.tensor] = describe(names.at(dtypes.at(part.parameter)), part.tensor_shape);
  }
  for (const std::string& count : model.stored_counts) {
    tensors[count] = describe("I64", {});
  }
  return tensors;
}

std::int64_t elements(const Tensors& tensors) {
  std::int64_t sum = 0;
  for (const auto& [name, text] : tensors) {
    std::int64_t product = 1;
    for (const std::int64_t length : json::parse(text.substr(text.find('[')))) {
      product *= length;
    }
    sum += product;
  }
  return sum;
}

/// At most a few, so that a wrong prefix does not fill the screen.
std::string difference(const Tensors& a, const Tensors& b) {
  std::string text;
  int left = 8;
  for (const auto& [name, what] : a) {
    const auto other = b.find(name);
    if ((other == b.end() || other->second != what) && left-- > 0) {
      text += "\n  " + name + " " + what;
    }
  }
  return text;
}

TEST(StoredNames, AreThoseOfPublicFiles) {
  const OpTable ops = builtin_ops();
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_SOURCE_DIR "/tests/names")) {
    if (entry.path().extension() == ".json") {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  ASSERT_GE(files.size(), 16U);
  for (const std::filesystem::path& file : files) {
    SCOPED_TRACE(file.filename().string());
    std::ifstream stream(file);
    json list = json::parse(stream);
    if (list.at("dtype") == "F16") {
      list["dtype"] = "F32";
    }
    const Tensors want = listed(list);
    const Tensors got = stored(list, ops);
    EXPECT_EQ(difference(want, got), "") << "are not stored so";
    EXPECT_EQ(difference(got, want), "") << "are stored, but not listed so";
    EXPECT_EQ(elements(want), list.value("elements", elements(want)));
  }
}

}  // namespace
}  // namespace weft
