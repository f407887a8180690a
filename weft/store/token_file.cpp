#include "weft/store/token_file.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/store/mapped_file.h"
#include "weft/store/permutation.h"

namespace weft {

namespace {

/// A file of unsigned little-endian ids, `width` bytes each.
class TokenFile : public Dataset {
 public:
  TokenFile(const std::string& path, const DatasetOptions& options, int width)
      : path_(path), options_(options), width_(static_cast<std::size_t>(width)), file_(path) {
    require(options.sequence > 0, "{}: this model takes vectors, not tokens; use synthetic data",
            path);
    const std::size_t bytes = file_.bytes().size();
    require(bytes % width_ == 0, "{}: {} bytes are no whole number of {}-byte tokens", path, bytes,
            width_);
    tokens_ = static_cast<std::int64_t>(bytes / width_);
    windows_ = tokens_ == 0 ? 0 : (tokens_ - 1) / options.sequence;
    require(windows_ > 0, "{}: {} tokens are too few: one sample of sequence {} needs {}", path,
            tokens_, options.sequence, options.sequence + 1);
    // Files of another width or vocabulary are seen here, not in the middle of a run.
    for (std::int64_t position = 0; position < std::min<std::int64_t>(tokens_, 4096); ++position) {
      (void)token(position);
    }
  }

  [[nodiscard]] SampleBatch batch(std::int64_t step, std::int64_t samples) const override {
    WEFT_CHECK(step >= 0 && samples > 0);
    SampleBatch result;
    result.samples = samples;
    result.counted = samples * options_.sequence;
    result.tokens.reserve(static_cast<std::size_t>(result.counted));
    result.labels.reserve(static_cast<std::size_t>(result.counted));
    for (std::int64_t i = 0; i < samples; ++i) {
      append_window(window(step * samples + i) * options_.sequence, result);
    }
    return result;
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("{}: {} tokens, {} samples an epoch", path_, tokens_, windows_);
  }

 private:
  /// The window that the run's `visit`-th sample is.
  [[nodiscard]] std::int64_t window(std::int64_t visit) const {
    const auto epoch = static_cast<std::uint32_t>(visit / windows_);
    return static_cast<std::int64_t>(permuted(static_cast<std::uint64_t>(visit % windows_),
                                              static_cast<std::uint64_t>(windows_), options_.seed,
                                              epoch));
  }

  void append_window(std::int64_t first, SampleBatch& batch) const {
    std::int64_t here = token(first);
    for (std::int64_t t = 1; t <= options_.sequence; ++t) {
      const std::int64_t next = token(first + t);
      batch.tokens.push_back(here);
      batch.labels.push_back(next);
      here = next;
    }
  }

  [[nodiscard]] std::int64_t token(std::int64_t position) const {
    std::uint32_t id = 0;
    const auto at = file_.bytes().subspan(static_cast<std::size_t>(position) * width_, width_);
    std::memcpy(&id, at.data(), width_);
    require(id < options_.vocabulary,
            "{}: token {} at position {} is not below the vocabulary of {}; "
            "was the file made for another model?",
            path_, id, position, options_.vocabulary);
    return id;
  }

  std::string path_;
  DatasetOptions options_;
  std::size_t width_;
  MappedFile file_;
  std::int64_t tokens_ = 0;
  std::int64_t windows_ = 0;
};

}  // namespace

std::unique_ptr<Dataset> text_file(const std::string& path, const DatasetOptions& options) {
  require(options.vocabulary >= 256,
          "{}: text is read as bytes, which needs a vocabulary of at least 256; the model has {}",
          path, options.vocabulary);
  return std::make_unique<TokenFile>(path, options, 1);
}

std::unique_ptr<Dataset> token_file(const std::string& path, const DatasetOptions& options) {
  return std::make_unique<TokenFile>(path, options, options.vocabulary <= 65536 ? 2 : 4);
}

}  // namespace weft
