// Models as the command line names them: "gpt:layers=2,hidden=64".
#include <algorithm>

#include "fuzz.h"
#include "weft/frontend/family.h"

namespace weft::fuzz {

void model_text(std::string_view bytes) {
  static const OpTable ops = builtin_ops();
  static const std::vector<Family> all = families();
  const std::string text(bytes);
  const std::string name = text.substr(0, text.find(':'));
  // Other names may be paths of this machine.
  const bool is_family =
      std::ranges::any_of(all, [&](const Family& family) { return family.name == name; });
  if (is_family && layers_of(text) <= 16) {
    static_cast<void>(load_model(text, {}, ops));
  }
}

}  // namespace weft::fuzz
