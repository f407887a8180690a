#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

namespace weft {

/// Keeps a line for everything that a search tries, if these are wanted.
struct SearchNotes {
  bool wanted = false;
  std::vector<std::string>& lines;

  template <typename... Args>
  void operator()(fmt::format_string<Args...> text, Args&&... args) const {
    if (wanted) {
      lines.push_back(fmt::format(text, std::forward<Args>(args)...));
    }
  }
};

}  // namespace weft
