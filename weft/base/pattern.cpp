#include "weft/base/pattern.h"

namespace weft {

// What stands before the first `*` and behind the last one has its place; most names fail there.
// Each piece between two stars may be taken where it comes first: that leaves most to later ones.
bool matches(std::string_view pattern, std::string_view name) {
  const std::size_t first = pattern.find('*');
  if (first == std::string_view::npos) {
    return pattern == name;
  }
  const std::string_view suffix = pattern.substr(pattern.rfind('*') + 1);
  if (name.size() < first + suffix.size() || !name.starts_with(pattern.substr(0, first)) ||
      !name.ends_with(suffix)) {
    return false;
  }
  name = name.substr(first, name.size() - first - suffix.size());
  pattern = pattern.substr(first, pattern.size() - first - suffix.size());  // "*piece*piece*"
  for (pattern.remove_prefix(1); !pattern.empty();) {
    const std::size_t end = pattern.find('*');
    const std::string_view piece = pattern.substr(0, end);
    const std::size_t at = name.find(piece);
    if (at == std::string_view::npos) {
      return false;
    }
    name.remove_prefix(at + piece.size());
    pattern.remove_prefix(end + 1);
  }
  return true;
}

}  // namespace weft
