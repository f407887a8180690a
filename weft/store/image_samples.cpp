// A classifier sees the image and its label. An image-to-image model learns to take noise away: its
// target is the image, its input the image plus uniform noise of deviation 1/2 of the visit's own.
#include "weft/store/image_samples.h"

#include <cmath>

namespace weft {

namespace {

constexpr double kNoise = 0.5;
constexpr std::uint32_t kNoiseStream = 0x6e6f6973U;

}  // namespace

std::int64_t image_labels(const DatasetOptions& options) {
  return options.kind == SampleKind::image_to_image
             ? options.height * options.width * options.channels
             : 1;
}

void add_uniform_noise(const RandomStream& stream, std::uint64_t image, double amplitude,
                       std::span<float> numbers) {
  const std::uint64_t blocks = (numbers.size() + 3) / 4;
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const auto words = stream.block(image * blocks + b);
    for (std::size_t i = 0; i < 4 && b * 4 + i < numbers.size(); ++i) {
      const double uniform = words[i] * (2.0 / 4294967296.0) - 1.0;
      numbers[b * 4 + i] += static_cast<float>(amplitude * uniform);
    }
  }
}

void append_image_sample(std::span<const float> image, std::int64_t label, const SampleKey& key,
                         const DatasetOptions& options, SampleBatch& batch) {
  const std::size_t first = batch.features.size();
  batch.features.insert(batch.features.end(), image.begin(), image.end());
  if (options.kind != SampleKind::image_to_image) {
    batch.labels.push_back(label);
    return;
  }
  batch.targets.insert(batch.targets.end(), image.begin(), image.end());
  const RandomStream stream{
      .seed = options.seed, .step = key.evaluation ? 1U : 0U, .node = kNoiseStream};
  add_uniform_noise(stream, static_cast<std::uint64_t>(key.visit), kNoise * std::sqrt(3.0),
                    std::span(batch.features).subspan(first));
}

}  // namespace weft
