#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weft {

struct DatasetOptions {
  std::int64_t sequence = 0;  // tokens a sample; 0: samples are vectors of `features` numbers
  std::int64_t features = 0;
  std::int64_t vocabulary = 0;  // ids and labels are below this
  std::uint64_t seed = 0;
};

/// Samples in row-major order. labels[i] == kIgnoredLabel counts nothing.
struct SampleBatch {
  std::int64_t samples = 0;
  std::vector<std::int64_t> tokens;  // samples × sequence
  std::vector<float> features;       // samples × features
  std::vector<std::int64_t> labels;  // samples × sequence, or samples
  std::int64_t counted = 0;          // labels that are not ignored
};
inline constexpr std::int64_t kIgnoredLabel = -100;

/// A set of samples. What a step sees depends on (seed, step, batch size) alone, so every rank can
/// ask for the same batch and training resumes at the exact sample.
class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual SampleBatch batch(std::int64_t step, std::int64_t samples) const = 0;
  [[nodiscard]] virtual std::string description() const = 0;
};

/// `text:FILE` (byte tokens), `tokens:FILE.bin` (uint16, or uint32 when the vocabulary needs it),
/// `synthetic` (a seeded, learnable sequence; also for feature models), `synthetic:ignore=0.1`
/// (that share of labels ignored); a bare file name is taken by its ending. Samples are visited in
/// a seeded permutation of each epoch.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const std::string& spec,
                                                    const DatasetOptions& options);

}  // namespace weft
