#pragma once

#include <string>
#include <string_view>

namespace weft {

/// True if the bytes begin as gzip files do.
[[nodiscard]] bool is_gzip(std::string_view bytes);
/// What was compressed. Error{input} names `what` if the bytes are damaged, or more than `most`
/// bytes come out of them.
[[nodiscard]] std::string gunzip(std::string_view bytes, const std::string& what, std::size_t most);

}  // namespace weft
