#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace weft {

/// What a model learns from. The parts of a batch have the names of the graph's inputs.
enum class SampleKind : std::uint8_t {
  next_token,            // tokens; labels: the token that follows each
  masked_token,          // tokens, 15 % of them hidden (BERT's 80/10/10); labels: the hidden ones
  sequence_to_sequence,  // tokens; labels: how the text goes on; decoder_tokens: 0 and those before
  classify_vector,       // x: `features` numbers; labels: one class
  classify_image,        // x: [height, width, channels]; labels: one class
  image_to_image,        // x: an image with noise; targets: the image
};

struct DatasetOptions {
  SampleKind kind = SampleKind::next_token;
  std::int64_t sequence = 0;         // tokens a sample
  std::int64_t target_sequence = 0;  // labels of sequence_to_sequence; 0: as many as tokens
  std::int64_t features = 0;         // of classify_vector
  std::int64_t height = 0;           // of images
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t vocabulary = 0;  // ids and labels are below this; image_to_image needs none
  std::int64_t mask_id = -1;    // of masked_token; -1: the last id of the vocabulary
  /// Share of the samples, the last ones of the file, that is never trained on. Sets with test
  /// files of their own keep those instead.
  double held_out = 0;
  std::string tokenizer = {};  // a tokenizer.json for text; empty: tokens are bytes
  std::uint64_t seed = 0;
};

/// Samples `begin` … `end` - 1 of a step.
struct SampleRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const SampleRange&) const = default;
};

/// The samples of a step that were asked for, row-major. labels[i] == kIgnoredLabel counts nothing.
struct SampleBatch {
  std::int64_t samples = 0;            // of the whole step
  std::vector<SampleRange> held = {};  // the rows that are here, in this order; empty: all of them
  std::vector<std::int64_t> tokens = {};          // rows × sequence
  std::vector<std::int64_t> decoder_tokens = {};  // rows × target sequence
  std::vector<float> features = {};               // "x": rows × numbers
  std::vector<float> targets = {};                // as features
  std::vector<std::int64_t> labels = {};          // rows × sequence, or rows
  /// Labels of the whole step that are not ignored; of image_to_image the numbers in its targets.
  std::int64_t counted = 0;
};
inline constexpr std::int64_t kIgnoredLabel = -100;

/// Which sample a source shall give, and what its random choices (masks, noise) depend on: the
/// visit, so that an epoch sees other masks than the one before.
struct SampleKey {
  std::int64_t index = 0;
  std::int64_t visit = 0;
  bool evaluation = false;
};

/// Where samples come from: a file, or a formula. Without state: threads may share it.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// How many there are; 0: without end.
  [[nodiscard]] virtual std::int64_t samples() const = 0;
  /// How many more follow those, which the set itself keeps for tests.
  [[nodiscard]] virtual std::int64_t test_samples() const { return 0; }
  /// Appends one row to every part of the batch that this kind of sample has.
  virtual void append(const SampleKey& key, SampleBatch& batch) const = 0;
  /// Labels of a sample that are not ignored, if all samples have as many.
  [[nodiscard]] virtual std::optional<std::int64_t> fixed_count() const = 0;
  [[nodiscard]] virtual std::int64_t counted(const SampleKey& key) const;
  [[nodiscard]] virtual std::string description() const = 0;
};

/// Samples in the order of training. What a step sees depends on (seed, step, batch size) alone: so
/// every rank knows the same batch and reads its own rows of it, and training resumes at the exact
/// sample. Each epoch visits every sample once, in a seeded order of its own.
class Dataset {
 public:
  Dataset(std::unique_ptr<const SampleSource> source, const DatasetOptions& options);

  /// All rows of a step.
  [[nodiscard]] SampleBatch batch(std::int64_t step, std::int64_t samples) const;
  /// Only these rows; `counted` is still the whole step's.
  [[nodiscard]] SampleBatch batch(std::int64_t step, std::int64_t samples,
                                  std::span<const SampleRange> rows) const;
  [[nodiscard]] SampleBatch batch(std::int64_t step, std::int64_t samples, std::int64_t first,
                                  std::int64_t count) const;
  /// Labels of a step that are not ignored. Reads nothing.
  [[nodiscard]] std::int64_t counted(std::int64_t step, std::int64_t samples) const;

  /// Samples that are never trained on.
  [[nodiscard]] std::int64_t evaluation_samples() const { return held_out_; }
  /// Batches of `samples` that show each of them once. The last one is filled up with samples whose
  /// labels are ignored; where nothing can be ignored (image_to_image) an incomplete one is left
  /// out.
  [[nodiscard]] std::int64_t evaluation_batches(std::int64_t samples) const;
  /// In the order of the file, the same every time. `i` is below evaluation_batches.
  [[nodiscard]] SampleBatch evaluation_batch(std::int64_t i, std::int64_t samples) const;
  [[nodiscard]] SampleBatch evaluation_batch(std::int64_t i, std::int64_t samples,
                                             std::span<const SampleRange> rows) const;

  [[nodiscard]] std::string description() const;

 private:
  [[nodiscard]] SampleKey training_key(std::int64_t visit) const;
  [[nodiscard]] SampleKey evaluation_key(std::int64_t visit) const;

  std::unique_ptr<const SampleSource> source_;
  std::uint64_t seed_ = 0;
  bool ignores_labels_ = true;
  std::int64_t trained_ = 0;  // 0: without end
  std::int64_t held_out_ = 0;
};

/// `text:FILE` (byte tokens, or those of `options.tokenizer`), `tokens:FILE.bin` (uint16, or uint32
/// when the vocabulary needs it), `tokens:FILE.npy`, `mnist:DIR`, `cifar10:DIR`,
/// `images:FILE.npy,LABELS.npy`, `synthetic` (seeded and learnable, for every kind),
/// `synthetic:ignore=0.1` (that share of labels ignored); a bare file name is taken by its ending.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const std::string& spec,
                                                    const DatasetOptions& options);

}  // namespace weft
