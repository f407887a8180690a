#pragma once

#include <memory>
#include <string>

#include "weft/store/dataset.h"

namespace weft {

/// Data that needs no file and can be learnt. `arguments` is empty or "ignore=SHARE".
[[nodiscard]] std::unique_ptr<const SampleSource> synthetic_data(const std::string& arguments,
                                                                 const DatasetOptions& options);

}  // namespace weft
