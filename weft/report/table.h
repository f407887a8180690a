#pragma once

#include <string>
#include <vector>

namespace weft {

/// Rows of text under a header, columns padded to the widest cell. Columns named in `right` (by
/// index) are aligned right.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows = {};
  std::vector<int> right = {};
};

[[nodiscard]] std::string format_table(const Table& table);

}  // namespace weft
