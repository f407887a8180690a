// Images of one or several files as samples: every byte becomes (byte / 255 - mean) / deviation,
// planes become [h, w, c], a grey image fills all channels of a model of colours.
#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/store/image_files.h"
#include "weft/store/image_samples.h"

namespace weft {

namespace {

float number_at(const ImageFile& file, std::size_t image, std::size_t element,
                std::size_t channel) {
  const std::byte* const at = file.pixels.data() + image * file.pixel_stride;
  if (file.is_float) {
    float value = 0;
    std::memcpy(&value, at + element * sizeof(float), sizeof(float));
    return value;
  }
  const auto byte = static_cast<float>(std::to_integer<int>(at[element]));
  return (byte / 255.0F - file.mean[channel]) / file.deviation[channel];
}

class ImageSource : public SampleSource {
 public:
  ImageSource(std::vector<ImageFile> train, std::vector<ImageFile> test, std::string name,
              const DatasetOptions& options)
      : name_(std::move(name)), options_(options), files_(std::move(train)) {
    for (const ImageFile& file : files_) {
      trained_ += file.images;
    }
    for (ImageFile& file : test) {
      tested_ += file.images;
      files_.push_back(std::move(file));
    }
    require(options.sequence == 0, "{}: this model takes tokens, not images", name_);
    require(trained_ > 0, "{}: has no images", name_);
    for (const ImageFile& file : files_) {
      check_size(file);
      check_labels(file);
    }
  }

  [[nodiscard]] std::int64_t samples() const override { return trained_; }
  [[nodiscard]] std::int64_t test_samples() const override { return tested_; }
  [[nodiscard]] std::optional<std::int64_t> fixed_count() const override {
    return image_labels(options_);
  }

  void append(const SampleKey& key, SampleBatch& batch) const override {
    std::int64_t i = key.index;
    auto file = files_.begin();
    for (; file != files_.end() && i >= file->images; ++file) {
      i -= file->images;
    }
    WEFT_CHECK(file != files_.end());
    const auto image = static_cast<std::size_t>(i);
    append_image_sample(image_of(*file, image), label_of(*file, image), key, options_, batch);
  }

  [[nodiscard]] std::string description() const override {
    const ImageFile& file = files_.front();
    return fmt::format("{}: {} images of {}×{}×{}", name_, trained_, file.height, file.width,
                       file.channels);
  }

 private:
  void check_size(const ImageFile& file) const {
    if (options_.features > 0) {
      const std::int64_t numbers = file.height * file.width * file.channels;
      require(numbers == options_.features,
              "{}: images of {}×{}×{} are {} numbers, the model takes {}", file.name, file.height,
              file.width, file.channels, numbers, options_.features);
      return;
    }
    const bool channels_fit = file.channels == options_.channels || file.channels == 1;
    require(
        file.height == options_.height && file.width == options_.width && channels_fit,
        "{}: images are {}×{}×{} (height, width, channels), the model takes {}×{}×{}; weft does "
        "not resize: set the model's image size, or resize the images",
        file.name, file.height, file.width, file.channels, options_.height, options_.width,
        options_.channels);
  }

  void check_labels(const ImageFile& file) const {
    if (options_.kind == SampleKind::image_to_image) {
      return;
    }
    require(!file.labels.empty() || file.images == 0,
            "{}: has no labels, which this model learns; give images:FILE.npy,LABELS.npy",
            file.name);
    for (std::int64_t i = 0; i < file.images; ++i) {
      const std::int64_t label = label_of(file, static_cast<std::size_t>(i));
      require(label >= 0 && label < options_.vocabulary,
              "{}: label {} of image {} is not below the model's {} classes", file.name, label, i,
              options_.vocabulary);
    }
  }

  static std::int64_t label_of(const ImageFile& file, std::size_t image) {
    if (file.labels.empty()) {
      return kIgnoredLabel;
    }
    const std::byte* const at = file.labels.data() + image * file.label_stride;
    if (file.label_width == 1) {
      return std::to_integer<std::int64_t>(*at);
    }
    if (file.label_width == 4) {
      std::int32_t value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    std::int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  [[nodiscard]] std::vector<float> image_of(const ImageFile& file, std::size_t image) const {
    const auto pixels = static_cast<std::size_t>(file.height * file.width);
    const auto from = static_cast<std::size_t>(file.channels);
    const auto to = options_.features > 0 ? from : static_cast<std::size_t>(options_.channels);
    std::vector<float> numbers(pixels * to);
    for (std::size_t p = 0; p < pixels; ++p) {
      for (std::size_t c = 0; c < to; ++c) {
        const std::size_t channel = from == 1 ? 0 : c;
        const std::size_t element = file.planes ? channel * pixels + p : p * from + channel;
        numbers[p * to + c] = number_at(file, image, element, channel);
      }
    }
    return numbers;
  }

  std::string name_;
  DatasetOptions options_;
  std::vector<ImageFile> files_;
  std::int64_t trained_ = 0;
  std::int64_t tested_ = 0;
};

}  // namespace

std::unique_ptr<const SampleSource> image_source(std::vector<ImageFile> train,
                                                 std::vector<ImageFile> test,
                                                 const std::string& name,
                                                 const DatasetOptions& options) {
  return std::make_unique<ImageSource>(std::move(train), std::move(test), name, options);
}

}  // namespace weft
