// The files: MNIST's idx (two zero bytes, the type, the number of dims, each dim as a big-endian
// u32, the elements), CIFAR-10's binary batches (records of a label and 3 planes of 32 × 32), .npy.
// Means and deviations are those of the training images, as published with the sets.
#include "weft/store/image_files.h"

#include <algorithm>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/store/mapped_file.h"
#include "weft/store/npy.h"

namespace weft {

namespace {

using Path = std::filesystem::path;

constexpr std::size_t kCifarSide = 32;
constexpr std::size_t kCifarPixels = 3 * kCifarSide * kCifarSide;
constexpr std::size_t kCifarRecord = 1 + kCifarPixels;

bool is_there(const Path& path) {
  std::error_code code;
  return std::filesystem::exists(path, code);
}

/// Whichever of the names is there, or an empty path. One that is only there compressed is an
/// error.
Path find_file(const Path& folder, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (is_there(folder / name)) {
      return folder / name;
    }
  }
  for (const char* name : names) {
    const Path packed = folder / (std::string(name) + ".gz");
    require(!is_there(packed), "{} is compressed: run 'gunzip {}' first", packed.string(),
            packed.string());
  }
  return {};
}

ImageFile mnist_file(const Path& images, const Path& labels) {
  const auto image_file = std::make_shared<const MappedFile>(images.string());
  const auto label_file = std::make_shared<const MappedFile>(labels.string());
  const IdxArray pixels = parse_idx(image_file->bytes(), images.string());
  const IdxArray classes = parse_idx(label_file->bytes(), labels.string());
  require(pixels.shape.size() == 3, "{}: images have 3 dims, the file has {}", images.string(),
          pixels.shape.size());
  require(classes.shape.size() == 1 && classes.shape[0] == pixels.shape[0],
          "{}: is not one label for each of the {} images of {}", labels.string(), pixels.shape[0],
          images.string());
  return {.name = images.string(),
          .pixels = pixels.bytes,
          .labels = classes.bytes,
          .images = pixels.shape[0],
          .pixel_stride = static_cast<std::size_t>(pixels.shape[1] * pixels.shape[2]),
          .label_stride = 1,
          .height = pixels.shape[1],
          .width = pixels.shape[2],
          .channels = 1,
          .mean = {0.1307F},
          .deviation = {0.3081F},
          .owners = {image_file, label_file}};
}

ImageFile cifar10_file(const Path& path) {
  const auto file = std::make_shared<const MappedFile>(path.string());
  ImageFile result = parse_cifar10(file->bytes(), path.string());
  result.owners = {file};
  return result;
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> file, const std::string& name) {
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint32_t>(file[i]); };
  require(file.size() < 2 || byte(0) != 0x1f || byte(1) != 0x8b,
          "{}: is compressed; unpack it with gunzip", name);
  require(file.size() >= 4 && byte(0) == 0 && byte(1) == 0 && byte(2) == 8 && byte(3) >= 1 &&
              byte(3) <= 4,
          "{}: not an idx file of unsigned bytes", name);
  const std::size_t rank = byte(3);
  require(file.size() >= 4 + 4 * rank, "{}: the idx file ends within its header", name);
  IdxArray array;
  std::uint64_t elements = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::size_t at = 4 + 4 * d;
    const std::uint32_t size =
        byte(at) << 24U | byte(at + 1) << 16U | byte(at + 2) << 8U | byte(at + 3);
    array.shape.push_back(size);
    require(size > 0 && elements <= file.size() / size,
            "{}: the header asks for nothing, or for more than the file has", name);
    elements *= size;
  }
  array.bytes = file.subspan(4 + 4 * rank);
  require(array.bytes.size() == elements, "{}: the header asks for {} bytes, the file has {}", name,
          elements, array.bytes.size());
  return array;
}

ImageFile parse_cifar10(std::span<const std::byte> file, const std::string& name) {
  require(!file.empty() && file.size() % kCifarRecord == 0,
          "{}: {} bytes are no whole number of CIFAR-10 records of {}; this is for the binary "
          "version (cifar-10-binary)",
          name, file.size(), kCifarRecord);
  return {.name = name,
          .pixels = file.subspan(1),
          .labels = file,
          .images = static_cast<std::int64_t>(file.size() / kCifarRecord),
          .pixel_stride = kCifarRecord,
          .label_stride = kCifarRecord,
          .planes = true,
          .height = kCifarSide,
          .width = kCifarSide,
          .channels = 3,
          .mean = {0.4914F, 0.4822F, 0.4465F},
          .deviation = {0.2470F, 0.2435F, 0.2616F}};
}

ImageFile parse_npy_images(std::span<const std::byte> images, std::span<const std::byte> labels,
                           const std::string& name, const DatasetOptions& options) {
  const NpyArray array = parse_npy(images, name);
  std::vector<std::int64_t> shape = array.shape;
  const bool is_float = array.kind == 'f' && array.width == 4;
  require((shape.size() == 3 || shape.size() == 4) &&
              (is_float || (array.kind == 'u' && array.width == 1)),
          "{}: images are uint8 or float32 of [n,h,w,c], [n,c,h,w] or [n,h,w]; the file has {}",
          name, format_npy(array));
  if (shape.size() == 3) {
    shape.push_back(1);
  }
  const std::int64_t h = options.height;
  const std::int64_t w = options.width;
  const bool rows_last =
      shape[2] == h && shape[3] == w && (shape[1] == options.channels || shape[1] == 1);
  const bool planes = rows_last && !(shape[1] == h && shape[2] == w);
  ImageFile file{.name = name,
                 .pixels = array.bytes,
                 .images = shape[0],
                 .planes = planes,
                 .height = planes ? shape[2] : shape[1],
                 .width = planes ? shape[3] : shape[2],
                 .channels = planes ? shape[1] : shape[3],
                 .is_float = is_float};
  require(file.height > 0 && file.width > 0 && file.channels > 0, "{}: images of no size: {}", name,
          format_npy(array));
  file.pixel_stride = array.width * static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);
  file.mean.assign(static_cast<std::size_t>(is_float ? 0 : file.channels), 0.5F);
  file.deviation = file.mean;
  if (!labels.empty()) {
    const NpyArray classes = parse_npy(labels, name + "'s labels");
    const bool integers = (classes.kind == 'u' && classes.width == 1) ||
                          (classes.kind == 'i' && (classes.width == 4 || classes.width == 8));
    require(integers && classes.shape == std::vector<std::int64_t>{shape[0]},
            "{}: the labels are {}; give uint8, int32 or int64 [{}]", name, format_npy(classes),
            shape[0]);
    file.labels = classes.bytes;
    file.label_stride = classes.width;
    file.label_width = classes.width;
  }
  return file;
}

std::unique_ptr<const SampleSource> mnist_images(const std::string& folder,
                                                 const DatasetOptions& options) {
  const auto images = [&](const char* dashed, const char* dotted) {
    return find_file(folder, {dashed, dotted});
  };
  const Path train = images("train-images-idx3-ubyte", "train-images.idx3-ubyte");
  const Path train_labels = images("train-labels-idx1-ubyte", "train-labels.idx1-ubyte");
  require(!train.empty() && !train_labels.empty(),
          "mnist:{}: the folder has no train-images-idx3-ubyte and train-labels-idx1-ubyte",
          folder);
  std::vector<ImageFile> files;
  files.push_back(mnist_file(train, train_labels));
  const Path test = images("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte");
  const Path test_labels = images("t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte");
  std::vector<ImageFile> tests;
  if (!test.empty() && !test_labels.empty()) {
    tests.push_back(mnist_file(test, test_labels));
  }
  return image_source(std::move(files), std::move(tests), "mnist:" + folder, options);
}

std::unique_ptr<const SampleSource> cifar10_images(const std::string& folder,
                                                   const DatasetOptions& options) {
  std::vector<ImageFile> files;
  for (int i = 1; i <= 5; ++i) {
    const std::string name = fmt::format("data_batch_{}.bin", i);
    if (const Path path = find_file(folder, {name.c_str()}); !path.empty()) {
      files.push_back(cifar10_file(path));
    }
  }
  require(!files.empty(),
          "cifar10:{}: the folder has no data_batch_1.bin … data_batch_5.bin (the binary version "
          "of the set)",
          folder);
  std::vector<ImageFile> tests;
  if (const Path path = find_file(folder, {"test_batch.bin"}); !path.empty()) {
    tests.push_back(cifar10_file(path));
  }
  return image_source(std::move(files), std::move(tests), "cifar10:" + folder, options);
}

std::unique_ptr<const SampleSource> npy_images(const std::string& files,
                                               const DatasetOptions& options) {
  const std::size_t comma = files.find(',');
  const std::string path = files.substr(0, comma);
  const auto images = std::make_shared<const MappedFile>(path);
  std::shared_ptr<const MappedFile> labels;
  if (comma != std::string::npos) {
    labels = std::make_shared<const MappedFile>(files.substr(comma + 1));
    require(!labels->bytes().empty(), "{}: is empty", files.substr(comma + 1));
  }
  ImageFile file = parse_npy_images(
      images->bytes(), labels ? labels->bytes() : std::span<const std::byte>(), path, options);
  file.owners = {images, labels};
  std::vector<ImageFile> train;
  train.push_back(std::move(file));
  return image_source(std::move(train), {}, "images:" + files, options);
}

}  // namespace weft
