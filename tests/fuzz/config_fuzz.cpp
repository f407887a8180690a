// Hugging Face's config.json: what it describes, and the model of that.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/file.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/model.h"

namespace weft::fuzz {

void config(std::string_view bytes) {
  static const OpTable ops = builtin_ops();
  const std::string description =
      describe_hf_config(parse_json(bytes, "config.json"), "config.json");
  if (layers_of(description) <= 16) {
    static_cast<void>(load_model(description, {}, ops));
  }
}

}  // namespace weft::fuzz
