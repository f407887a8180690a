#include "weft/frontend/model_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr const char* kTinyModels[] = {
    "bert:layers=2,hidden=32,heads=4,vocab=64,seq=16",
    "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16",
    "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,experts=4,balance=0.01",
    "llama:layers=2,hidden=32,heads=4,vocab=64,seq=16,ffn=64",
    "mlp:inputs=8,hidden=16,layers=2,outputs=4",
    "neox:layers=2,hidden=32,heads=4,vocab=64,seq=16",
    "resnet:depths=1/1,sizes=8/16,stem=4,image=32,classes=3",
    "swin",
    "t5:layers=2,hidden=32,heads=4,vocab=64,seq=16",
    "unet",
    "vgg",
    "vit:layers=2,hidden=32,heads=4"};

class ModelFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string complaint(const std::string& text, const ModelOptions& options) const {
    try {
      (void)load_model(text, options, ops_);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input) << error.what();
      return error.what();
    }
    return "";
  }

  std::string folder_ =
      (std::filesystem::temp_directory_path() / ("weft-model-file-" + std::to_string(getpid())))
          .string();
  OpTable ops_ = builtin_ops();
};

TEST_F(ModelFileTest, EveryFamilyComesBackAsItWas) {
  for (const std::string text : kTinyModels) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Model model = load_model(text, {.dtype = dtype}, ops_);
      const Model again = parse_model(format_model(model), text, ops_);
      EXPECT_EQ(again.forward, model.forward) << text;
      EXPECT_EQ(again.stored, model.stored) << text;
      EXPECT_EQ(again.stored_counts, model.stored_counts) << text;
      EXPECT_EQ(again.dtype, dtype);
      EXPECT_EQ(again.sequence, model.sequence) << text;
      EXPECT_EQ(again.vocabulary, model.vocabulary) << text;
      EXPECT_EQ(again.samples, model.samples) << text;
    }
  }
}

TEST_F(ModelFileTest, TheDescriptionFindsTheFileAndNoticesAChange) {
  const std::string file = path("m.weft");
  save_model(load_model(kTinyModels[1], {}, ops_), file);
  const Model model = load_model(file, {}, ops_);
  EXPECT_THAT(model.description, HasSubstr("file:" + file + "@"));
  EXPECT_EQ(load_model(model.description, {.sequence = 16}, ops_).forward, model.forward);
  save_model(load_model("gpt:layers=1,hidden=32,heads=4,vocab=64,seq=16", {}, ops_), file);
  EXPECT_THAT(complaint(model.description, {}), HasSubstr("was changed since the plan was made"));
}

TEST_F(ModelFileTest, SequenceAndDtypeAreTheFiles) {
  const std::string file = path("m.weft");
  save_model(load_model(kTinyModels[1], {.dtype = DType::f64}, ops_), file);
  EXPECT_EQ(model_file_dtype(file, ops_), DType::f64);
  EXPECT_THAT(complaint(file, {}), HasSubstr("was built in f64"));
  EXPECT_THAT(complaint(file, {.sequence = 8, .dtype = DType::f64}), HasSubstr("16 tokens"));
  EXPECT_THAT(complaint(path("none.weft"), {}), HasSubstr("there is no model file"));
  EXPECT_THAT(complaint("file:x", {}), HasSubstr("file:PATH@HASH"));
}

TEST_F(ModelFileTest, TrainingOptionsApply) {
  const std::string file = path("m.weft");
  save_model(load_model(kTinyModels[1], {}, ops_), file);
  const ModelOptions options{.freeze = {"embed/*"}, .label_smoothing = 0.1};
  EXPECT_EQ(load_model(file, options, ops_).forward,
            load_model(kTinyModels[1], options, ops_).forward);
}

TEST_F(ModelFileTest, SaysWhatKeepsAModelFromBeingTrained) {
  Model model = load_model(kTinyModels[1], {}, ops_);
  EXPECT_THAT(violations(model, ops_), testing::IsEmpty());
  model.vocabulary = 65;
  model.sequence = 8;
  EXPECT_THAT(violations(model, ops_),
              testing::ElementsAre(HasSubstr("the sequence is 8"), HasSubstr("vocabulary is 65")));
  model = load_model(kTinyModels[4], {}, ops_);
  for (Value& value : model.forward.values) {
    value.name = value.name == "x" ? "pixels" : value.name;
  }
  EXPECT_THAT(violations(model, ops_), testing::Contains(HasSubstr("input 'pixels'")));
}

// Any text gives a model or a message for the user; never a crash, never a bug report.
TEST_F(ModelFileTest, DamagedTextIsTheUsersMistake) {
  std::mt19937 random(1);
  for (const std::string name : kTinyModels) {
    const std::string text = format_model(load_model(name, {}, ops_));
    for (int round = 0; round < 40; ++round) {
      std::string damaged = text;
      for (int change = 0; change < 3; ++change) {
        const std::size_t at = random() % damaged.size();
        const auto letters = std::string_view("0123456789-\"{}[],. \nBabc=");
        damaged[at] = letters[random() % letters.size()];
      }
      if (round % 4 == 0) {
        damaged.resize(random() % damaged.size());
      }
      try {
        (void)parse_model(damaged, "damaged", ops_);
      } catch (const Error& error) {
        EXPECT_EQ(error.blame(), Blame::input) << error.what();
      }
    }
  }
}

}  // namespace
}  // namespace weft
