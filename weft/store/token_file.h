#pragma once

#include <memory>
#include <string>

#include "weft/store/dataset.h"

namespace weft {

/// Windows of `sequence` + 1 tokens, `sequence` apart, of a mapped file; labels are the next
/// tokens.
[[nodiscard]] std::unique_ptr<Dataset> text_file(const std::string& path,
                                                 const DatasetOptions& options);
[[nodiscard]] std::unique_ptr<Dataset> token_file(const std::string& path,
                                                  const DatasetOptions& options);

}  // namespace weft
