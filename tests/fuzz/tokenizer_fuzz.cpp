// A tokenizer.json, then a 0 byte and a text, which is encoded with it.
#include <algorithm>
#include <cstring>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/store/tokenizer.h"

namespace weft::fuzz {

void tokenizer(std::string_view bytes) {
  const std::size_t json = std::min(bytes.find('\0'), bytes.size());
  const Tokenizer read = parse_tokenizer(bytes.substr(0, json), "tokenizer.json");
  const std::string_view text = bytes.substr(std::min(json + 1, bytes.size()));
  const std::vector<std::uint32_t> ids = read.encode(text);
  for (const std::uint32_t id : ids) {
    WEFT_CHECK(id < read.vocabulary());
  }
  static_cast<void>(read.decode(ids));
  std::vector<std::uint32_t> any(text.size() / sizeof(std::uint32_t));
  if (!any.empty()) {
    std::memcpy(any.data(), text.data(), any.size() * sizeof(std::uint32_t));
  }
  static_cast<void>(read.decode(any));
}

}  // namespace weft::fuzz
