#include "weft/report/table.h"

#include <algorithm>

namespace weft {
namespace {

// Characters, not bytes: continuation bytes of UTF-8 take no room.
std::size_t width(const std::string& text) {
  return std::ranges::count_if(text, [](unsigned char c) { return (c & 0xC0U) != 0x80U; });
}

}  // namespace

std::string format_table(const Table& table) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    widths.push_back(width(table.header[c]));
    for (const auto& row : table.rows) {
      widths[c] = std::max(widths[c], width(row[c]));
    }
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const std::string pad(widths[c] - width(cells[c]), ' ');
      const bool right = std::ranges::find(table.right, static_cast<int>(c)) != table.right.end();
      out += (c == 0 ? "" : "  ") + (right ? pad + cells[c] : cells[c] + pad);
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + "\n";
  };
  line(table.header);
  std::ranges::for_each(table.rows, line);
  return text;
}

}  // namespace weft
