#include "weft/store/token_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <vector>

#include "weft/base/error.h"
#include "weft/store/mapped_file.h"
#include "weft/store/npy.h"
#include "weft/store/token_samples.h"
#include "weft/store/tokenizer.h"

namespace weft {

namespace {

/// An id as it stands in the file; one of 8 bytes above the largest int64 becomes negative.
std::int64_t token_at(const TokenStream& stream, std::int64_t position) {
  std::uint64_t id = 0;
  std::memcpy(&id, stream.bytes.data() + static_cast<std::size_t>(position) * stream.width,
              stream.width);
  if (stream.has_sign && stream.width == 4) {
    return static_cast<std::int32_t>(id);
  }
  return static_cast<std::int64_t>(id);
}

class TokenWindows : public SampleSource {
 public:
  TokenWindows(TokenStream stream, const DatasetOptions& options)
      : stream_(std::move(stream)), options_(options) {
    const std::string& name = stream_.name;
    require(options.sequence > 0, "{}: this model takes {}, not tokens; use synthetic data{}", name,
            options.features > 0 ? "vectors" : "images",
            options.features > 0 ? "" : ", mnist:, cifar10: or images:");
    window_ = token_window(options);
    const std::size_t bytes = stream_.bytes.size();
    require(bytes % stream_.width == 0, "{}: {} bytes are no whole number of {}-byte tokens", name,
            bytes, stream_.width);
    tokens_ = static_cast<std::int64_t>(bytes / stream_.width);
    windows_ = tokens_ < window_.tokens ? 0 : (tokens_ - window_.tokens) / window_.stride + 1;
    require(windows_ > 0, "{}: {} tokens are too few: one sample of sequence {} needs {}", name,
            tokens_, options.sequence, window_.tokens);
    // Files of another width or vocabulary are seen here, not in the middle of a run.
    for (std::int64_t position = 0; position < std::min<std::int64_t>(tokens_, 4096); ++position) {
      (void)token(position);
    }
  }

  [[nodiscard]] std::int64_t samples() const override { return windows_; }
  [[nodiscard]] std::optional<std::int64_t> fixed_count() const override { return window_.counted; }

  void append(const SampleKey& key, SampleBatch& batch) const override {
    WEFT_CHECK(key.index >= 0 && key.index < windows_);
    std::vector<std::int64_t> ids(static_cast<std::size_t>(window_.tokens));
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = token(key.index * window_.stride + static_cast<std::int64_t>(t));
    }
    append_token_sample(ids, key, options_, batch);
  }

  [[nodiscard]] std::string description() const override {
    return fmt::format("{}: {} tokens, {} samples an epoch", stream_.name, tokens_, windows_);
  }

 private:
  [[nodiscard]] std::int64_t token(std::int64_t position) const {
    const std::int64_t id = token_at(stream_, position);
    require(id >= 0 && id < options_.vocabulary,
            "{}: token {} at position {} is not below the vocabulary of {}; "
            "was the file made for another model?",
            stream_.name, id, position, options_.vocabulary);
    return id;
  }

  TokenStream stream_;
  DatasetOptions options_;
  TokenWindow window_;
  std::int64_t tokens_ = 0;
  std::int64_t windows_ = 0;
};

TokenStream tokenized(const MappedFile& file, const std::string& path,
                      const DatasetOptions& options) {
  const Tokenizer tokenizer = read_tokenizer(options.tokenizer);
  require(tokenizer.vocabulary() <= options.vocabulary,
          "{} has ids up to {}, the model a vocabulary of {}: use the model's own tokenizer, or a "
          "model with a vocabulary of at least {}",
          options.tokenizer, tokenizer.vocabulary() - 1, options.vocabulary,
          tokenizer.vocabulary());
  const auto text = file.bytes();
  const auto ids = std::make_shared<const std::vector<std::uint32_t>>(
      tokenizer.encode({reinterpret_cast<const char*>(text.data()), text.size()}));
  return {.name = path, .bytes = std::as_bytes(std::span(*ids)), .width = 4, .owner = ids};
}

}  // namespace

TokenStream npy_tokens(std::span<const std::byte> file, const std::string& name) {
  const NpyArray array = parse_npy(file, name);
  const bool known = (array.kind == 'u' && (array.width == 2 || array.width == 4)) ||
                     (array.kind == 'i' && (array.width == 4 || array.width == 8));
  require(known && array.shape.size() == 1,
          "{}: tokens are one dim of uint16, uint32, int32 or int64; the file has {}", name,
          format_npy(array));
  return {.name = name, .bytes = array.bytes, .width = array.width, .has_sign = array.kind == 'i'};
}

std::unique_ptr<const SampleSource> token_windows(TokenStream stream,
                                                  const DatasetOptions& options) {
  return std::make_unique<TokenWindows>(std::move(stream), options);
}

std::unique_ptr<const SampleSource> text_file(const std::string& path,
                                              const DatasetOptions& options) {
  const auto file = std::make_shared<const MappedFile>(path);
  if (!options.tokenizer.empty()) {
    return token_windows(tokenized(*file, path, options), options);
  }
  require(options.vocabulary >= 256 || options.sequence == 0,
          "{}: text is read as bytes, which needs a vocabulary of at least 256; the model has {}",
          path, options.vocabulary);
  return token_windows({.name = path, .bytes = file->bytes(), .width = 1, .owner = file}, options);
}

std::unique_ptr<const SampleSource> token_file(const std::string& path,
                                               const DatasetOptions& options) {
  const auto file = std::make_shared<const MappedFile>(path);
  TokenStream stream;
  if (std::filesystem::path(path).extension() == ".npy") {
    stream = npy_tokens(file->bytes(), path);
  } else {
    stream = {.name = path, .bytes = file->bytes(), .width = options.vocabulary <= 65536 ? 2U : 4U};
  }
  stream.owner = file;
  return token_windows(std::move(stream), options);
}

}  // namespace weft
