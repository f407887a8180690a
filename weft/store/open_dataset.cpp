// `--data`: from its words to a source of samples.
#include <array>
#include <filesystem>
#include <string_view>

#include "weft/base/error.h"
#include "weft/store/dataset.h"
#include "weft/store/image_files.h"
#include "weft/store/synthetic_data.h"
#include "weft/store/token_file.h"

namespace weft {

namespace {

constexpr const char* kForms =
    "text:FILE, tokens:FILE.bin, tokens:FILE.npy, mnist:DIR, cifar10:DIR, "
    "images:FILE.npy,LABELS.npy, synthetic, synthetic:ignore=SHARE, or a file ending in .txt, .bin "
    "or .npy";

using Open = std::unique_ptr<const SampleSource> (*)(const std::string&, const DatasetOptions&);

struct Form {
  std::string_view name;
  Open open = nullptr;
};
constexpr std::array<Form, 5> kFileForms = {{{"text", text_file},
                                             {"tokens", token_file},
                                             {"mnist", mnist_images},
                                             {"cifar10", cifar10_images},
                                             {"images", npy_images}}};

constexpr std::array<Form, 3> kEndings = {
    {{".txt", text_file}, {".bin", token_file}, {".npy", token_file}}};

bool wants_tokens(SampleKind kind) {
  return kind == SampleKind::next_token || kind == SampleKind::masked_token ||
         kind == SampleKind::sequence_to_sequence;
}

void check(const DatasetOptions& options) {
  const bool image = options.height > 0 && options.width > 0 && options.channels > 0;
  WEFT_CHECK(wants_tokens(options.kind) == (options.sequence > 0));
  WEFT_CHECK((options.kind == SampleKind::classify_vector) == (options.features > 0));
  WEFT_CHECK(image == (options.kind == SampleKind::classify_image ||
                       options.kind == SampleKind::image_to_image));
  WEFT_CHECK(options.vocabulary > 0 || options.kind == SampleKind::image_to_image);
  require(options.mask_id < options.vocabulary,
          "the mask's id {} is not below the vocabulary of {}", options.mask_id,
          options.vocabulary);
}

std::unique_ptr<const SampleSource> open_source(const std::string& spec,
                                                const DatasetOptions& options) {
  const std::size_t colon = spec.find(':');
  const std::string name = spec.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (name == "synthetic") {
    return synthetic_data(rest, options);
  }
  for (const Form& form : kFileForms) {
    if (form.name == name && !rest.empty()) {
      return form.open(rest, options);
    }
  }
  for (const Form& form : kEndings) {
    if (std::filesystem::path(spec).extension() == form.name) {
      return form.open(spec, options);
    }
  }
  require(false, "data '{}' is not understood; give {}", spec, kForms);
  return nullptr;
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& spec, const DatasetOptions& options) {
  check(options);
  require(options.tokenizer.empty() || spec.starts_with("text:") || spec.ends_with(".txt"),
          "--tokenizer is for text:FILE; '{}' has no text", spec);
  return std::make_unique<Dataset>(open_source(spec, options), options);
}

}  // namespace weft
