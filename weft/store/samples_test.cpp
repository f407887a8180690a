#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "weft/base/error.h"
#include "weft/store/dataset.h"
#include "weft/store/read_ahead.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.blame(), Blame::input);
    return error.what();
  }
  return "";
}

class SamplesTest : public testing::Test {
 protected:
  ~SamplesTest() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".json");
  }
  /// tokens 0, 1, 2, …
  void write_count(int tokens) const {
    std::ofstream file(path_, std::ios::binary);
    for (int i = 0; i < tokens; ++i) {
      const auto id = static_cast<std::uint16_t>(i);
      file.write(reinterpret_cast<const char*>(&id), 2);
    }
  }
  std::string path_ = testing::TempDir() + "/weft_samples_" + std::to_string(::getpid()) + ".bin";
};

TEST_F(SamplesTest, ARankReadsItsOwnRows) {
  for (const SampleKind kind :
       {SampleKind::next_token, SampleKind::masked_token, SampleKind::sequence_to_sequence}) {
    const auto data = open_dataset("synthetic:ignore=0.3",
                                   {.kind = kind, .sequence = 8, .vocabulary = 100, .seed = 2});
    const SampleBatch whole = data->batch(3, 6);
    EXPECT_EQ(whole.counted, data->counted(3, 6));
    EXPECT_EQ(whole.counted, static_cast<std::int64_t>(whole.labels.size()) -
                                 std::ranges::count(whole.labels, kIgnoredLabel));
    const std::vector<SampleRange> rows = {{0, 1}, {4, 6}};
    const SampleBatch part = data->batch(3, 6, rows);
    EXPECT_EQ(part.held, rows);
    EXPECT_EQ(part.samples, 6);
    EXPECT_EQ(part.counted, whole.counted);
    std::vector<std::int64_t> want(whole.tokens.begin(), whole.tokens.begin() + 8);
    want.insert(want.end(), whole.tokens.begin() + 32, whole.tokens.end());
    EXPECT_EQ(part.tokens, want);
    EXPECT_EQ(data->batch(3, 6, 4, 2).tokens,
              std::vector(whole.tokens.begin() + 32, whole.tokens.end()));
    EXPECT_TRUE(data->batch(3, 6, std::span<const SampleRange>()).tokens.empty());
  }
}

TEST_F(SamplesTest, AnEpochVisitsEachSampleOnceAndResumesExactly) {
  write_count(101);
  const DatasetOptions options{.sequence = 5, .vocabulary = 200, .seed = 4};
  const auto data = open_dataset(path_, options);
  std::vector<std::int64_t> firsts;
  for (std::int64_t step = 0; step < 10; ++step) {  // 20 windows; two epochs of 5 steps
    const SampleBatch batch = data->batch(step, 4);
    for (std::size_t i = 0; i < 4; ++i) {
      firsts.push_back(batch.tokens[i * 5]);
    }
  }
  EXPECT_EQ(std::set(firsts.begin(), firsts.begin() + 20).size(), 20U);
  EXPECT_EQ(std::set(firsts.begin() + 20, firsts.end()).size(), 20U);
  const auto resumed = open_dataset(path_, options);  // as another process would, at step 7
  EXPECT_EQ(resumed->batch(7, 4).tokens, data->batch(7, 4).tokens);
}

TEST_F(SamplesTest, TheHeldOutPartIsNeverTrainedOn) {
  write_count(101);
  const auto data =
      open_dataset(path_, {.sequence = 5, .vocabulary = 200, .held_out = 0.25, .seed = 4});
  EXPECT_EQ(data->evaluation_samples(), 5);
  EXPECT_THAT(data->description(), HasSubstr("5 of them are for evaluation"));
  for (std::int64_t step = 0; step < 30; ++step) {
    EXPECT_LT(std::ranges::max(data->batch(step, 1).tokens), 75);
  }
  EXPECT_EQ(data->evaluation_batches(2), 3);
  EXPECT_THAT(data->evaluation_batch(0, 2).tokens,
              ElementsAre(75, 76, 77, 78, 79, 80, 81, 82, 83, 84));
  const SampleBatch last = data->evaluation_batch(2, 2);
  EXPECT_EQ(last.counted, 5);
  EXPECT_EQ(std::ranges::count(last.labels, kIgnoredLabel), 5);
  EXPECT_THAT(error_of([&] {
                (void)open_dataset(path_, {.sequence = 90, .vocabulary = 200, .held_out = 0.5});
              }),
              HasSubstr("nothing is left"));
  EXPECT_EQ(open_dataset(path_, {.sequence = 5, .vocabulary = 200})->evaluation_samples(), 0);
}

TEST_F(SamplesTest, MasksAsBertDoes) {
  const DatasetOptions options{
      .kind = SampleKind::masked_token, .sequence = 100, .vocabulary = 1000};
  const auto data = open_dataset("synthetic", options);
  DatasetOptions plain = options;
  plain.kind = SampleKind::next_token;
  const SampleBatch masked = data->batch(0, 400);
  const SampleBatch shown = open_dataset("synthetic", plain)->batch(0, 400);
  EXPECT_EQ(masked.counted, 400 * 15);
  double mask = 0;
  double same = 0;
  std::vector<int> by_place(100, 0);
  for (std::size_t i = 0; i < masked.tokens.size(); ++i) {
    if (masked.labels[i] == kIgnoredLabel) {
      continue;
    }
    ++by_place[i % 100];
    mask += masked.tokens[i] == 999 ? 1 : 0;
    same += masked.tokens[i] == masked.labels[i] ? 1 : 0;
  }
  EXPECT_NEAR(mask / 6000, 0.8, 0.025);
  EXPECT_NEAR(same / 6000, 0.1, 0.02);
  EXPECT_GT(std::ranges::min(by_place), 25);  // of 60 ± 7
  EXPECT_LT(std::ranges::max(by_place), 100);
  EXPECT_EQ(masked.tokens.size(), shown.tokens.size());
}

TEST_F(SamplesTest, MasksChangeWithTheEpoch) {
  write_count(20);  // one sample
  const DatasetOptions options{
      .kind = SampleKind::masked_token, .sequence = 20, .vocabulary = 64, .mask_id = 63};
  const auto data = open_dataset(path_, options);
  EXPECT_NE(data->batch(0, 1).labels, data->batch(1, 1).labels);
  const SampleBatch batch = data->batch(0, 1);
  EXPECT_EQ(batch.counted, 3);
  for (std::size_t i = 0; i < 20; ++i) {
    const bool hidden = batch.labels[i] != kIgnoredLabel;
    EXPECT_EQ(hidden ? batch.labels[i] : batch.tokens[i], static_cast<std::int64_t>(i));
  }
}

TEST_F(SamplesTest, SequencesGoOnInTheLabels) {
  write_count(14);
  const auto data = open_dataset(path_, {.kind = SampleKind::sequence_to_sequence,
                                         .sequence = 4,
                                         .target_sequence = 3,
                                         .vocabulary = 50});
  const SampleBatch batch = data->batch(0, 2);
  EXPECT_EQ(batch.counted, 6);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t t = batch.tokens[i * 4];
    EXPECT_EQ(t % 7, 0);
    EXPECT_EQ(batch.labels[i * 3], t + 4);
    EXPECT_EQ(batch.labels[i * 3 + 2], t + 6);
    EXPECT_EQ(batch.decoder_tokens[i * 3], 0);
    EXPECT_EQ(batch.decoder_tokens[i * 3 + 2], t + 5);
  }
}

TEST_F(SamplesTest, SyntheticImagesHaveAPatternForEachClass) {
  const auto data = open_dataset("synthetic", {.kind = SampleKind::classify_image,
                                               .height = 16,
                                               .width = 16,
                                               .channels = 3,
                                               .vocabulary = 5});
  const SampleBatch batch = data->batch(0, 40);
  ASSERT_EQ(batch.features.size(), 40U * 768U);
  int near = 0;
  int pairs = 0;
  for (std::size_t i = 1; i < 40; ++i) {
    double distance = 0;
    for (std::size_t k = 0; k < 768; ++k) {
      const double d = batch.features[k] - batch.features[i * 768 + k];
      distance += d * d / 768;
    }
    // Two noises of variance 1/4, and for other classes two patterns of variance 1.
    const bool same = batch.labels[i] == batch.labels[0];
    EXPECT_EQ(distance < 1, same) << distance;
    near += same ? 1 : 0;
    ++pairs;
  }
  EXPECT_GT(near, 0);
  EXPECT_LT(near, pairs);
  const auto denoise = open_dataset(
      "synthetic", {.kind = SampleKind::image_to_image, .height = 4, .width = 4, .channels = 2});
  EXPECT_EQ(denoise->batch(0, 3).targets.size(), 96U);
  EXPECT_EQ(denoise->batch(0, 3).counted, 96);
  EXPECT_NE(denoise->evaluation_batch(0, 3).targets, denoise->batch(0, 3).targets);
}

TEST_F(SamplesTest, TokensMayBeNpy) {
  const std::string path = path_ + ".npy";
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (4,), }";
  header.resize(118, ' ');
  const std::vector<std::int32_t> ids = {5, 6, 7, -1};
  std::ofstream(path, std::ios::binary)
      << std::string("\x93NUMPY\x01\x00\x76\x00", 10) << header
      << std::string(reinterpret_cast<const char*>(ids.data()), 16);
  EXPECT_THAT(error_of([&] { (void)open_dataset(path, {.sequence = 2, .vocabulary = 10}); }),
              HasSubstr("token -1 at position 3"));
  std::filesystem::remove(path);
}

TEST_F(SamplesTest, TextGoesThroughTheTokenizer) {
  const std::string json = path_ + ".json";
  std::ofstream(json) << R"({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "model": {"vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3}, "merges": ["a b"]}})";
  std::ofstream(path_) << "ab ab b";
  const DatasetOptions options{.sequence = 4, .vocabulary = 4, .tokenizer = json};
  const auto data = open_dataset("text:" + path_, options);
  EXPECT_THAT(data->batch(0, 1).tokens, ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(data->batch(0, 1).labels, ElementsAre(3, 2, 3, 1));
  DatasetOptions small = options;
  small.vocabulary = 3;
  EXPECT_THAT(error_of([&] { (void)open_dataset("text:" + path_, small); }),
              HasSubstr("ids up to 3, the model a vocabulary of 3"));
  EXPECT_THAT(error_of([&] { (void)open_dataset("synthetic", options); }), HasSubstr("for text"));
}

TEST(ReadAhead, GivesBatchesInOrderAndStops) {
  std::atomic<int> reads = 0;
  const auto read = [&](std::int64_t step) {
    ++reads;
    SampleBatch batch;
    batch.samples = step;
    return batch;
  };
  {
    ReadAhead ahead(read, 3, 6);
    EXPECT_EQ(ahead.next().samples, 3);
    EXPECT_EQ(ahead.next().samples, 4);
    EXPECT_EQ(ahead.next().samples, 5);
  }
  EXPECT_EQ(reads, 3);
  { const ReadAhead unused(read, 0, 1000000); }  // ends although most was never asked for
  EXPECT_LE(reads, 5);
  { const ReadAhead nothing(read, 5, 5); }
}

TEST(ReadAhead, PassesOnWhatReadingThrows) {
  ReadAhead ahead(
      [](std::int64_t step) {
        require(step < 1, "step {} cannot be read", step);
        return SampleBatch();
      },
      0, 10);
  (void)ahead.next();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(error_of([&] { (void)ahead.next(); }), "step 1 cannot be read");
  }
}

}  // namespace
}  // namespace weft
