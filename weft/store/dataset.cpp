// Visit v of a run is sample v mod n of epoch v / n, taken through that epoch's permutation of the
// n samples that are trained on; step t of batches of b makes the visits t b … t b + b - 1. The
// samples behind those n are for evaluation.
#include "weft/store/dataset.h"

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/store/permutation.h"

namespace weft {

namespace {

// What a set without end shows in an evaluation.
constexpr std::int64_t kEndlessEvaluation = 256;

std::int64_t rows_in(std::span<const SampleRange> rows, std::int64_t samples) {
  std::int64_t count = 0;
  for (const SampleRange& range : rows) {
    WEFT_CHECK(0 <= range.begin && range.begin <= range.end && range.end <= samples);
    count += range.end - range.begin;
  }
  return count;
}

void ignore_labels_from(std::size_t first, SampleBatch& batch) {
  std::fill(batch.labels.begin() + static_cast<std::ptrdiff_t>(first), batch.labels.end(),
            kIgnoredLabel);
}

}  // namespace

std::int64_t SampleSource::counted(const SampleKey& /*key*/) const {
  WEFT_CHECK(fixed_count().has_value());
  return *fixed_count();
}

Dataset::Dataset(std::unique_ptr<const SampleSource> source, const DatasetOptions& options)
    : source_(std::move(source)),
      seed_(options.seed),
      ignores_labels_(options.kind != SampleKind::image_to_image) {
  require(options.held_out >= 0 && options.held_out < 1,
          "the held-out share {} is not from 0 to below 1", options.held_out);
  const std::int64_t all = source_->samples();
  if (source_->test_samples() > 0) {
    trained_ = all;
    held_out_ = source_->test_samples();
  } else if (all == 0) {
    held_out_ = kEndlessEvaluation;
  } else if (options.held_out > 0) {
    held_out_ =
        std::max<std::int64_t>(1, std::llround(static_cast<double>(all) * options.held_out));
    trained_ = all - held_out_;
    require(trained_ > 0, "{}: with {} held out nothing is left to train on",
            source_->description(), options.held_out);
  } else {
    trained_ = all;
  }
}

SampleKey Dataset::training_key(std::int64_t visit) const {
  if (trained_ == 0) {
    return {.index = visit, .visit = visit};
  }
  const auto count = static_cast<std::uint64_t>(trained_);
  const auto epoch = static_cast<std::uint32_t>(visit / trained_);
  const auto place = static_cast<std::uint64_t>(visit % trained_);
  return {.index = static_cast<std::int64_t>(permuted(place, count, seed_, epoch)), .visit = visit};
}

SampleKey Dataset::evaluation_key(std::int64_t visit) const {
  const std::int64_t i = visit % held_out_;
  return {.index = trained_ + i, .visit = i, .evaluation = true};
}

SampleBatch Dataset::batch(std::int64_t step, std::int64_t samples) const {
  return batch(step, samples, 0, samples);
}

SampleBatch Dataset::batch(std::int64_t step, std::int64_t samples, std::int64_t first,
                           std::int64_t count) const {
  const SampleRange rows{.begin = first, .end = first + count};
  return batch(step, samples, {&rows, 1});
}

SampleBatch Dataset::batch(std::int64_t step, std::int64_t samples,
                           std::span<const SampleRange> rows) const {
  WEFT_CHECK(step >= 0 && samples > 0);
  SampleBatch result;
  result.samples = samples;
  (void)rows_in(rows, samples);
  result.held.assign(rows.begin(), rows.end());
  for (const SampleRange& range : rows) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      source_->append(training_key(step * samples + i), result);
    }
  }
  result.counted = counted(step, samples);
  return result;
}

std::int64_t Dataset::counted(std::int64_t step, std::int64_t samples) const {
  if (const auto each = source_->fixed_count()) {
    return samples * *each;
  }
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < samples; ++i) {
    sum += source_->counted(training_key(step * samples + i));
  }
  return sum;
}

std::int64_t Dataset::evaluation_batches(std::int64_t samples) const {
  WEFT_CHECK(samples > 0);
  return (held_out_ + (ignores_labels_ ? samples - 1 : 0)) / samples;
}

SampleBatch Dataset::evaluation_batch(std::int64_t i, std::int64_t samples) const {
  const SampleRange all{.begin = 0, .end = samples};
  return evaluation_batch(i, samples, {&all, 1});
}

SampleBatch Dataset::evaluation_batch(std::int64_t i, std::int64_t samples,
                                      std::span<const SampleRange> rows) const {
  WEFT_CHECK(i >= 0 && i < evaluation_batches(samples));
  SampleBatch result;
  result.samples = samples;
  (void)rows_in(rows, samples);
  result.held.assign(rows.begin(), rows.end());
  for (const SampleRange& range : rows) {
    for (std::int64_t row = range.begin; row < range.end; ++row) {
      const std::int64_t visit = i * samples + row;
      const std::size_t labels = result.labels.size();
      source_->append(evaluation_key(visit), result);
      if (visit >= held_out_) {
        ignore_labels_from(labels, result);
      }
    }
  }
  for (std::int64_t visit = i * samples; visit < std::min((i + 1) * samples, held_out_); ++visit) {
    result.counted += source_->counted(evaluation_key(visit));
  }
  return result;
}

std::string Dataset::description() const {
  const bool own_tests = source_->test_samples() > 0;
  if (trained_ == 0 || held_out_ == 0) {
    return source_->description();
  }
  return fmt::format("{}; {} {} are for evaluation", source_->description(), held_out_,
                     own_tests ? "more" : "of them");
}

}  // namespace weft
