#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/store/dataset.h"

namespace weft {

/// An idx file of unsigned bytes (MNIST). `bytes` points into the file's memory.
struct IdxArray {
  std::vector<std::int64_t> shape = {};
  std::span<const std::byte> bytes = {};
};
/// Error{input}, which begins with `name`, for anything else.
[[nodiscard]] IdxArray parse_idx(std::span<const std::byte> file, const std::string& name);

/// One file of images and labels, as it lies in memory.
struct ImageFile {
  std::string name;
  std::span<const std::byte> pixels = {};  // of image 0
  std::span<const std::byte> labels = {};  // of image 0; empty: none
  std::int64_t images = 0;
  std::size_t pixel_stride = 0;  // bytes from one image to the next
  std::size_t label_stride = 0;
  bool planes = false;  // [c, h, w], else [h, w, c]
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  bool is_float = false;  // f32, taken as it is; else bytes, x = (byte / 255 - mean) / deviation
  std::vector<float> mean = {};  // by channel
  std::vector<float> deviation = {};
  std::size_t label_width = 1;  // bytes
  std::vector<std::shared_ptr<const void>> owners = {};
};

/// A file of CIFAR-10's binary version.
[[nodiscard]] ImageFile parse_cifar10(std::span<const std::byte> file, const std::string& name);
/// Images [n,h,w,c], [n,c,h,w] (if that is how the model's height, width and channels fit) or
/// [n,h,w]; uint8 or float32. `labels` may be empty for image_to_image.
[[nodiscard]] ImageFile parse_npy_images(std::span<const std::byte> images,
                                         std::span<const std::byte> labels, const std::string& name,
                                         const DatasetOptions& options);

/// The images of `train`, then those of `test`, which are never trained on. The size must be the
/// model's; grey images serve a model of 3 channels; a model of vectors takes images of as many
/// numbers. Labels that are not below the number of classes are Error{input}.
[[nodiscard]] std::unique_ptr<const SampleSource> image_source(std::vector<ImageFile> train,
                                                               std::vector<ImageFile> test,
                                                               const std::string& name,
                                                               const DatasetOptions& options);

/// A folder with train-images-idx3-ubyte, train-labels-idx1-ubyte and the t10k- files for tests.
[[nodiscard]] std::unique_ptr<const SampleSource> mnist_images(const std::string& folder,
                                                               const DatasetOptions& options);
/// A folder with data_batch_1.bin … and test_batch.bin.
[[nodiscard]] std::unique_ptr<const SampleSource> cifar10_images(const std::string& folder,
                                                                 const DatasetOptions& options);
/// "FILE.npy,LABELS.npy"
[[nodiscard]] std::unique_ptr<const SampleSource> npy_images(const std::string& files,
                                                             const DatasetOptions& options);

}  // namespace weft
