#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/random.h"
#include "weft/store/dataset.h"

namespace weft {

/// Labels of a sample of images or vectors; of image_to_image the numbers of its target.
[[nodiscard]] std::int64_t image_labels(const DatasetOptions& options);

/// Adds uniform numbers of ±amplitude; `image` is the number of the image in the stream.
void add_uniform_noise(const RandomStream& stream, std::uint64_t image, double amplitude,
                       std::span<float> numbers);

/// Makes a sample of `options.kind` (which is not of tokens) from an image as the model takes it.
void append_image_sample(std::span<const float> image, std::int64_t label, const SampleKey& key,
                         const DatasetOptions& options, SampleBatch& batch);

}  // namespace weft
