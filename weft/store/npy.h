#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft {

/// An array of a .npy file: little-endian, C order. `bytes` points into the file's memory.
struct NpyArray {
  char kind = 'u';        // 'u' unsigned, 'i' signed, 'f' floating, as NumPy writes it
  std::size_t width = 1;  // bytes an element
  std::vector<std::int64_t> shape = {};
  std::span<const std::byte> bytes = {};
};

/// Error{input}, which begins with `name`, for anything that is not exactly such a file.
[[nodiscard]] NpyArray parse_npy(std::span<const std::byte> file, const std::string& name);

/// "uint16 [3,4]"
[[nodiscard]] std::string format_npy(const NpyArray& array);

}  // namespace weft
