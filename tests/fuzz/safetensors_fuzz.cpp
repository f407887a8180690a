// Files of weights, and the index of those that are in parts (which begins with '{').
#include <cstring>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/store/weights.h"

namespace weft::fuzz {

void safetensors(std::string_view bytes) {
  if (bytes.starts_with('{')) {
    static_cast<void>(parse_weight_index(bytes, "index.json"));
    return;
  }
  const SafetensorsContent content =
      parse_safetensors(std::as_bytes(std::span(bytes)), "weights.safetensors");
  std::size_t all = 0;
  std::size_t sum = 0;
  for (const auto& [name, tensor] : content.tensors) {
    all += tensor.bytes.size();
    for (const std::byte byte : tensor.bytes) {
      sum += std::to_integer<std::size_t>(byte);  // every byte can be read
    }
  }
  WEFT_CHECK(all <= bytes.size() && sum <= 255 * all);
}

}  // namespace weft::fuzz
