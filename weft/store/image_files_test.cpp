#include "weft/store/image_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "weft/base/error.h"
#include "weft/store/npy.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string idx(const std::vector<int>& shape, const std::string& elements) {
  std::string file = {0, 0, 8, static_cast<char>(shape.size())};
  for (const int size : shape) {
    file += {0, 0, static_cast<char>(size / 256), static_cast<char>(size % 256)};
  }
  return file + elements;
}

std::string npy(const std::string& type, const std::string& shape, const std::string& elements) {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(118, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size()) + '\0' + header +
         elements;
}

template <typename T>
std::string raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class ImageFilesTest : public testing::Test {
 protected:
  ImageFilesTest() { std::filesystem::create_directories(folder_); }
  ~ImageFilesTest() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << content;
  }
  static std::string complaint(const std::string& spec, const DatasetOptions& options) {
    try {
      (void)open_dataset(spec, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.blame(), Blame::input);
      return error.what();
    }
    return "";
  }

  std::string folder_ = testing::TempDir() + "/weft_images_" + std::to_string(::getpid());
};

const DatasetOptions kGrey{
    .kind = SampleKind::classify_image, .height = 1, .width = 2, .channels = 1, .vocabulary = 10};

TEST_F(ImageFilesTest, ReadsMnistAndKeepsItsTests) {
  write("train-images-idx3-ubyte", idx({3, 1, 2}, {0, '\xFF', 0, 0, 0, 0}));
  write("train-labels-idx1-ubyte", idx({3}, {7, 8, 9}));
  auto data = open_dataset("mnist:" + folder_, kGrey);
  EXPECT_EQ(data->evaluation_samples(), 0);
  write("t10k-images-idx3-ubyte", idx({1, 1, 2}, {'\xFF', '\xFF'}));
  write("t10k-labels-idx1-ubyte", idx({1}, {1}));
  data = open_dataset("mnist:" + folder_, kGrey);
  const SampleBatch all = data->batch(0, 3);
  EXPECT_THAT(all.labels, testing::UnorderedElementsAre(7, 8, 9));
  EXPECT_EQ(all.counted, 3);
  const auto seven = std::find(all.labels.begin(), all.labels.end(), 7) - all.labels.begin();
  EXPECT_NEAR(all.features[2 * seven], -0.1307 / 0.3081, 1e-6);
  EXPECT_NEAR(all.features[2 * seven + 1], (1 - 0.1307) / 0.3081, 1e-6);
  ASSERT_EQ(data->evaluation_batches(4), 1);
  const SampleBatch test = data->evaluation_batch(0, 4);
  EXPECT_THAT(test.labels, ElementsAre(1, kIgnoredLabel, kIgnoredLabel, kIgnoredLabel));
  EXPECT_EQ(test.counted, 1);
  EXPECT_EQ(test.features.size(), 8U);
}

TEST_F(ImageFilesTest, GreyFillsColoursAndVectors) {
  write("train-images-idx3-ubyte", idx({1, 1, 2}, {0, '\xFF'}));
  write("train-labels-idx1-ubyte", idx({1}, {7}));
  DatasetOptions colour = kGrey;
  colour.channels = 3;
  const auto x = open_dataset("mnist:" + folder_, colour)->batch(0, 1).features;
  ASSERT_EQ(x.size(), 6U);
  EXPECT_EQ(x[0], x[2]);
  EXPECT_EQ(x[3], x[5]);
  const auto vector = open_dataset(
      "mnist:" + folder_, {.kind = SampleKind::classify_vector, .features = 2, .vocabulary = 10});
  EXPECT_EQ(vector->batch(0, 1).features, (std::vector<float>{x[0], x[3]}));
}

TEST_F(ImageFilesTest, ReadsCifar10AsChannelsLast) {
  std::string record(3073, '\0');
  record[0] = 4;
  record[1 + 1024] = '\xFF';  // green of the first pixel
  write("data_batch_1.bin", record);
  write("test_batch.bin", record + record);
  DatasetOptions options = kGrey;
  options.height = options.width = 32;
  options.channels = 3;
  const auto data = open_dataset("cifar10:" + folder_, options);
  EXPECT_EQ(data->evaluation_samples(), 2);
  const SampleBatch batch = data->batch(5, 1);
  EXPECT_THAT(batch.labels, ElementsAre(4));
  EXPECT_NEAR(batch.features[0], -0.4914 / 0.2470, 1e-5);
  EXPECT_NEAR(batch.features[1], (1 - 0.4822) / 0.2435, 1e-5);
  EXPECT_NEAR(batch.features[4], -0.4822 / 0.2435, 1e-5);
  options.height = 64;
  EXPECT_THAT(complaint("cifar10:" + folder_, options), HasSubstr("does not resize"));
}

TEST_F(ImageFilesTest, ReadsNpyInBothOrders) {
  DatasetOptions options = kGrey;
  options.height = 2;
  options.width = 1;
  options.channels = 3;
  write("nhwc.npy", npy("<f4", "1, 2, 1, 3", raw<float>({1, 2, 3, 4, 5, 6})));
  write("nchw.npy", npy("<f4", "1, 3, 2, 1", raw<float>({1, 4, 2, 5, 3, 6})));
  write("labels.npy", npy("<i8", "1,", raw<std::int64_t>({9})));
  for (const char* name : {"nhwc.npy", "nchw.npy"}) {
    const auto data =
        open_dataset("images:" + folder_ + "/" + name + "," + folder_ + "/labels.npy", options);
    EXPECT_THAT(data->batch(0, 1).features, ElementsAre(1, 2, 3, 4, 5, 6)) << name;
    EXPECT_THAT(data->batch(0, 1).labels, ElementsAre(9));
  }
  EXPECT_THAT(complaint("images:" + folder_ + "/nhwc.npy", options), HasSubstr("has no labels"));
  options.kind = SampleKind::image_to_image;
  const auto data = open_dataset("images:" + folder_ + "/nhwc.npy", options);
  const SampleBatch batch = data->batch(0, 1);
  EXPECT_THAT(batch.targets, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(batch.counted, 6);
  EXPECT_TRUE(batch.labels.empty());
  EXPECT_NE(batch.features, batch.targets);
  EXPECT_EQ(batch.features, data->batch(0, 1).features);
  EXPECT_NE(batch.features, data->batch(1, 1).features) << "noise of its own for each visit";
}

TEST_F(ImageFilesTest, SaysWhatIsWrong) {
  EXPECT_THAT(complaint("mnist:" + folder_, kGrey), HasSubstr("has no train-images-idx3-ubyte"));
  write("train-images-idx3-ubyte.gz", "x");
  EXPECT_THAT(complaint("mnist:" + folder_, kGrey), HasSubstr("run 'gunzip "));
  write("train-images-idx3-ubyte", idx({1, 1, 2}, {0, 0}));
  write("train-labels-idx1-ubyte", idx({2}, {7, 7}));
  EXPECT_THAT(complaint("mnist:" + folder_, kGrey), HasSubstr("one label for each of the 1"));
  write("train-labels-idx1-ubyte", idx({1}, {10}));
  EXPECT_THAT(complaint("mnist:" + folder_, kGrey), HasSubstr("label 10 of image 0"));
  EXPECT_THAT(complaint("mnist:" + folder_, {.sequence = 4, .vocabulary = 300}),
              HasSubstr("takes tokens, not images"));
  for (const std::string& file :
       {std::string(), std::string("\0\0\x08", 3), idx({1, 1, 2}, {0}),
        idx({255, 255, 255, 255}, ""),
        std::string("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16),
        std::string("\x1f\x8b....", 6)}) {
    EXPECT_THROW((void)parse_idx(bytes_of(file), "f"), Error);
  }
  EXPECT_THROW((void)parse_cifar10(bytes_of(std::string(3072, 'x')), "f"), Error);
}

TEST(Npy, TakesExactlyWhatNumpyWrites) {
  const std::string good = npy("<u2", "3,", raw<std::uint16_t>({1, 2, 3}));
  EXPECT_EQ(format_npy(parse_npy(bytes_of(good), "f")), "uint16 [3]");
  EXPECT_EQ(parse_npy(bytes_of(npy("|u1", "", "x")), "f").bytes.size(), 1U);
  for (std::size_t size = 0; size < good.size(); ++size) {
    EXPECT_THROW((void)parse_npy(bytes_of(good.substr(0, size)), "f"), Error) << size;
  }
  for (const std::string& bad :
       {npy(">u2", "3,", "xxxxxx"), npy("<f2", "3,", "xxxxxx"), npy("<u2", "-3,", "xxxxxx"),
        npy("<u2", "4294967296, 4294967296, 4294967296", ""), npy("<u2", "3, x", "xxxxxx"),
        npy("<u2", "3,), 'shape': (3,", "xxxxxx"), npy("O", "3,", "xxxxxx")}) {
    EXPECT_THROW((void)parse_npy(bytes_of(bad), "f"), Error) << bad;
  }
}

}  // namespace
}  // namespace weft
