#include "weft/store/dataset.h"

#include <algorithm>
#include <filesystem>

#include "weft/base/error.h"
#include "weft/store/synthetic_data.h"
#include "weft/store/token_file.h"

namespace weft {

namespace {

constexpr const char* kForms =
    "text:FILE, tokens:FILE.bin, synthetic, synthetic:ignore=SHARE, or a file ending in .txt or "
    ".bin";

std::string ending(const std::string& path) {
  return std::filesystem::path(path).extension().string();
}

}  // namespace

std::unique_ptr<Dataset> open_dataset(const std::string& spec, const DatasetOptions& options) {
  WEFT_CHECK(options.vocabulary > 0);
  WEFT_CHECK((options.sequence > 0) != (options.features > 0));
  const std::size_t colon = spec.find(':');
  const std::string kind = spec.substr(0, colon);
  const std::string rest = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (kind == "synthetic") {
    return synthetic_data(rest, options);
  }
  if (kind == "text" && !rest.empty()) {
    return text_file(rest, options);
  }
  if (kind == "tokens" && !rest.empty()) {
    return token_file(rest, options);
  }
  if (ending(spec) == ".txt") {
    return text_file(spec, options);
  }
  require(ending(spec) == ".bin", "data '{}' is not understood; give {}", spec, kForms);
  return token_file(spec, options);
}

}  // namespace weft
