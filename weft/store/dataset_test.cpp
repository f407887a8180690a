#include "weft/store/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/store/permutation.h"

namespace weft {
namespace {

using testing::HasSubstr;

class DatasetTest : public testing::Test {
 protected:
  ~DatasetTest() override { std::filesystem::remove(path_); }

  template <typename T>
  void write(const std::vector<T>& values) const {
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()),
               static_cast<std::streamsize>(values.size() * sizeof(T)));
  }
  std::string complaint(const std::string& spec, const DatasetOptions& options) const {
    try {
      (void)open_dataset(spec, options)->batch(0, 8);
    } catch (const Error& error) {
      blame_ = error.blame();
      return error.what();
    }
    return "";
  }

  std::string path_ = testing::TempDir() + "/weft_dataset_" + std::to_string(::getpid()) + ".bin";
  mutable Blame blame_ = Blame::bug;
};

TEST(Permutation, VisitsEachIndexOnce) {
  for (const std::uint64_t count : {1, 2, 3, 5, 16, 17, 64, 65, 1000}) {
    for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < count; ++i) {
        seen.insert(permuted(i, count, 7, epoch));
      }
      EXPECT_EQ(seen.size(), count);
      EXPECT_LT(*seen.rbegin(), count);
    }
  }
  EXPECT_LT(permuted(123, std::uint64_t{1} << 62U, 7, 0), std::uint64_t{1} << 62U);
}

TEST(Permutation, EveryPlaceIsAboutAsLikely) {
  // 4000 seeds over 5 places: 800 ± 5 standard deviations of 25.
  std::vector<int> hits(5, 0);
  for (std::uint64_t seed = 0; seed < 4000; ++seed) {
    ++hits[permuted(2, 5, seed, 0)];
  }
  for (const int hit : hits) {
    EXPECT_NEAR(hit, 800, 130);
  }
}

TEST_F(DatasetTest, TextIsWindowsOfBytesWithTheNextAsLabel) {
  std::vector<char> text;
  for (int i = 0; i < 42; ++i) {
    text.push_back(static_cast<char>(180 + i));  // bytes above 127 stay positive
  }
  write(text);
  const auto data = open_dataset("text:" + path_, {.sequence = 10, .vocabulary = 256, .seed = 3});
  // 4 windows begin at 0, 10, 20, 30; a batch of 4 is an epoch.
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t step = 0; step < 4; ++step) {
    const SampleBatch batch = data->batch(step, 4);
    EXPECT_EQ(batch.counted, 40);
    std::vector<std::int64_t> firsts;
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(batch.labels[i], batch.tokens[i] + 1);
      if (i % 10 == 0) {
        firsts.push_back(batch.tokens[i]);
      } else {
        EXPECT_EQ(batch.tokens[i], batch.tokens[i - 1] + 1);
      }
    }
    orders.push_back(firsts);
    EXPECT_THAT(firsts, testing::UnorderedElementsAre(180, 190, 200, 210));
  }
  EXPECT_GT(std::set(orders.begin(), orders.end()).size(), 1U);  // epochs differ
}

TEST_F(DatasetTest, AStepDependsOnSeedStepAndBatchAlone) {
  write(std::vector<std::uint16_t>(1000, 1));
  for (const std::string& spec : {std::string("synthetic"), "tokens:" + path_}) {
    const DatasetOptions options{.sequence = 7, .vocabulary = 50257, .seed = 11};
    const auto data = open_dataset(spec, options);
    (void)data->batch(0, 3);
    EXPECT_EQ(data->batch(900, 5).tokens, open_dataset(spec, options)->batch(900, 5).tokens);
  }
  const auto tokens = [](std::uint64_t seed, std::int64_t step) {
    return open_dataset("synthetic", {.sequence = 16, .vocabulary = 64, .seed = seed})
        ->batch(step, 2)
        .tokens;
  };
  EXPECT_NE(tokens(1, 0), tokens(2, 0));
  EXPECT_NE(tokens(1, 0), tokens(1, 1));
}

TEST_F(DatasetTest, ABatchIsTheConcatenationOfSmallerOnes) {
  const auto data = open_dataset("synthetic", {.sequence = 5, .vocabulary = 64, .seed = 1});
  const SampleBatch two = data->batch(0, 2);
  std::vector<std::int64_t> joined = data->batch(0, 1).tokens;
  const SampleBatch second = data->batch(1, 1);
  joined.insert(joined.end(), second.tokens.begin(), second.tokens.end());
  EXPECT_EQ(two.tokens, joined);
}

TEST_F(DatasetTest, TokensAreTwoOrFourBytesWide) {
  write(std::vector<std::uint16_t>{5, 50000, 7});
  EXPECT_EQ(open_dataset(path_, {.sequence = 2, .vocabulary = 50257})->batch(0, 1).tokens,
            (std::vector<std::int64_t>{5, 50000}));
  write(std::vector<std::uint32_t>{5, 99999, 7});
  EXPECT_EQ(
      open_dataset("tokens:" + path_, {.sequence = 2, .vocabulary = 100000})->batch(0, 1).labels,
      (std::vector<std::int64_t>{99999, 7}));
}

TEST_F(DatasetTest, SaysWhatIsWrongWithAFile) {
  const DatasetOptions options{.sequence = 3, .vocabulary = 300};
  write(std::vector<std::uint16_t>{1, 2, 300, 3});
  EXPECT_THAT(complaint(path_, options), HasSubstr("token 300 at position 2"));
  EXPECT_EQ(blame_, Blame::input);
  std::vector<std::uint16_t> late(10000, 1);
  late[9000] = 400;
  write(late);
  const auto data = open_dataset(path_, options);
  EXPECT_THROW((void)data->batch(0, 3333), Error);
  write(std::vector<std::uint16_t>{1, 2, 3});
  EXPECT_THAT(complaint(path_, options), HasSubstr("3 tokens are too few"));
  write(std::vector<char>{1, 2, 3});
  EXPECT_THAT(complaint(path_, options), HasSubstr("no whole number of 2-byte tokens"));
  write(std::vector<char>{});
  EXPECT_THAT(complaint("text:" + path_, options), HasSubstr("0 tokens are too few"));
  EXPECT_THAT(complaint("text:" + path_, {.sequence = 3, .vocabulary = 255}),
              HasSubstr("at least 256"));
  EXPECT_THAT(
      complaint(path_, {.kind = SampleKind::classify_vector, .features = 3, .vocabulary = 10}),
      HasSubstr("takes vectors"));
  EXPECT_THAT(complaint("nowhere.bin", options), HasSubstr("cannot open"));
  EXPECT_EQ(blame_, Blame::environment);
  for (const char* spec : {"", "pictures", "text:", "tokens:", "text", "a.jpg"}) {
    EXPECT_THAT(complaint(spec, options), HasSubstr("is not understood; give text:FILE")) << spec;
  }
  for (const char* spec : {"synthetic:ignore=1", "synthetic:ignore=-0.1", "synthetic:ignore=x",
                           "synthetic:ignore=0.1x", "synthetic:noise=1", "synthetic:ignore=nan"}) {
    EXPECT_THAT(complaint(spec, options), HasSubstr("synthetic:ignore=SHARE")) << spec;
  }
}

TEST_F(DatasetTest, TheChainCanBeLearnt) {
  const auto data = open_dataset("synthetic", {.sequence = 64, .vocabulary = 1000, .seed = 5});
  std::map<std::int64_t, std::map<std::int64_t, double>> pairs;
  double total = 0;
  const SampleBatch batch = data->batch(0, 400);
  for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
    ASSERT_LT(batch.tokens[i], 1000);
    ++pairs[batch.tokens[i]][batch.labels[i]];
    ++total;
  }
  EXPECT_LE(pairs.size(), 256U);
  double entropy = 0;
  for (const auto& [token, row] : pairs) {
    double sum = 0;
    for (const auto& [next, count] : row) {
      sum += count;
    }
    for (const auto& [next, count] : row) {
      entropy -= count / total * std::log(count / sum);
    }
  }
  EXPECT_LT(entropy, 1.6);  // log(1000) is 6.9
  EXPECT_GT(entropy, 0.8);
}

TEST_F(DatasetTest, ClustersCanBeToldApart) {
  const auto data = open_dataset(
      "synthetic",
      {.kind = SampleKind::classify_vector, .features = 20, .vocabulary = 4, .seed = 5});
  const SampleBatch batch = data->batch(0, 200);
  ASSERT_EQ(batch.features.size(), 4000U);
  ASSERT_EQ(batch.labels.size(), 200U);
  EXPECT_EQ(batch.counted, 200);
  // The nearest of the first 100 samples has the same label for almost all of the other 100.
  int right = 0;
  for (std::size_t i = 100; i < 200; ++i) {
    double best = 1e30;
    std::int64_t label = -1;
    for (std::size_t j = 0; j < 100; ++j) {
      double distance = 0;
      for (std::size_t k = 0; k < 20; ++k) {
        distance += std::pow(batch.features[i * 20 + k] - batch.features[j * 20 + k], 2);
      }
      if (distance < best) {
        best = distance;
        label = batch.labels[j];
      }
    }
    right += label == batch.labels[i] ? 1 : 0;
  }
  EXPECT_GT(right, 95);
}

TEST_F(DatasetTest, IgnoresTheGivenShareOfLabels) {
  const DatasetOptions options{.sequence = 50, .vocabulary = 64, .seed = 5};
  const SampleBatch batch = open_dataset("synthetic:ignore=0.1", options)->batch(0, 100);
  const auto ignored = std::count(batch.labels.begin(), batch.labels.end(), kIgnoredLabel);
  EXPECT_EQ(batch.counted, 5000 - ignored);
  EXPECT_NEAR(static_cast<double>(ignored), 500, 110);
  EXPECT_EQ(batch.tokens, open_dataset("synthetic", options)->batch(0, 100).tokens);
}

}  // namespace
}  // namespace weft
