// NumPy's format: "\x93NUMPY", two bytes of version, the length of the header (two bytes in version
// 1, four later), the header — a Python dict in text, {'descr': '<u2', 'fortran_order': False,
// 'shape': (3, 4), } — and the elements.
#include "weft/store/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 65536;
constexpr std::size_t kMaxRank = 32;

/// Reads the header word by word.
struct Cursor {
  std::string_view rest;
  const std::string& name;

  void skip_spaces() {
    while (!rest.empty() && (rest.front() == ' ' || rest.front() == '\n')) {
      rest.remove_prefix(1);
    }
  }
  bool take(std::string_view word) {
    skip_spaces();
    const bool found = rest.starts_with(word);
    rest.remove_prefix(found ? word.size() : 0);
    return found;
  }
  void expect(std::string_view word) {
    require(take(word), "{}: the header of the .npy has no '{}' where it should", name, word);
  }
  std::string text() {
    expect("'");
    const std::size_t end = rest.find('\'');
    require(end != std::string_view::npos, "{}: the header of the .npy ends within a text", name);
    std::string result(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    return result;
  }
  std::int64_t number() {
    skip_spaces();
    std::int64_t value = -1;
    const auto [end, code] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    require(code == std::errc() && value >= 0, "{}: the shape in the .npy is not of numbers", name);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    return value;
  }
};

std::vector<std::int64_t> read_shape(Cursor& at) {
  std::vector<std::int64_t> shape;
  at.expect("(");
  while (!at.take(")")) {
    require(shape.size() < kMaxRank, "{}: the .npy has more than {} dims", at.name, kMaxRank);
    shape.push_back(at.number());
    if (!at.take(",")) {
      at.expect(")");
      break;
    }
  }
  return shape;
}

void read_type(const std::string& text, NpyArray& array, const std::string& name) {
  const bool known = text == "|u1" || text == "<u1" || text == "|i1" || text == "<u2" ||
                     text == "<i2" || text == "<u4" || text == "<i4" || text == "<u8" ||
                     text == "<i8" || text == "<f4" || text == "<f8";
  require(known,
          "{}: elements of type '{}' are not read; convert with "
          "array.astype('<u2'), '<i4', '<i8', '|u1' or '<f4'",
          name, text);
  array.kind = text[1];
  array.width = static_cast<std::size_t>(text[2] - '0');
}

void read_header(std::string_view header, NpyArray& array, const std::string& name) {
  Cursor at{.rest = header, .name = name};
  bool has_type = false;
  bool has_order = false;
  bool has_shape = false;
  at.expect("{");
  while (!at.take("}")) {
    const std::string key = at.text();
    at.expect(":");
    if (key == "descr" && !has_type) {
      read_type(at.text(), array, name);
      has_type = true;
    } else if (key == "fortran_order" && !has_order) {
      require(at.take("False"), "{}: the .npy is in Fortran order; save np.ascontiguousarray(a)",
              name);
      has_order = true;
    } else {
      require(key == "shape" && !has_shape, "{}: the header of the .npy has a key '{}'", name, key);
      array.shape = read_shape(at);
      has_shape = true;
    }
    if (!at.take(",")) {
      at.expect("}");
      break;
    }
  }
  require(has_type && has_order && has_shape,
          "{}: the header of the .npy lacks descr, fortran_order or shape", name);
}

}  // namespace

NpyArray parse_npy(std::span<const std::byte> file, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  require(text.starts_with(kMagic) && text.size() >= 10, "{}: not a .npy file", name);
  const auto byte = [&](std::size_t i) { return std::to_integer<std::size_t>(file[i]); };
  const std::size_t version = byte(6);
  require(version >= 1 && version <= 3, "{}: version {} of the .npy format is not known", name,
          version);
  const std::size_t begin = version == 1 ? 10 : 12;
  require(file.size() >= begin, "{}: the .npy ends within its header", name);
  std::size_t length = byte(8) | byte(9) << 8U;
  if (version > 1) {
    length |= byte(10) << 16U | byte(11) << 24U;
  }
  require(length <= kMaxHeader && length <= file.size() - begin,
          "{}: the .npy has a header of {} bytes in a file of {}", name, length, file.size());
  NpyArray array;
  read_header(text.substr(begin, length), array, name);
  array.bytes = file.subspan(begin + length);
  // Products of any of the dims cannot overflow, whether or not another one is 0.
  std::int64_t elements = 1;
  std::int64_t largest = 1;
  const auto limit = std::numeric_limits<std::int64_t>::max() / 8;
  for (const std::int64_t size : array.shape) {
    require(size == 0 || largest <= limit / size, "{}: the shape in the .npy is too large", name);
    largest *= std::max<std::int64_t>(size, 1);
    elements *= size;
  }
  require(static_cast<std::size_t>(elements) * array.width == array.bytes.size(),
          "{}: {} needs {} bytes of elements, the file has {}", name, format_npy(array),
          static_cast<std::size_t>(elements) * array.width, array.bytes.size());
  return array;
}

std::string format_npy(const NpyArray& array) {
  std::string shape;
  for (const std::int64_t size : array.shape) {
    shape += (shape.empty() ? "" : ",") + std::to_string(size);
  }
  const char* kind = array.kind == 'u' ? "uint" : array.kind == 'i' ? "int" : "float";
  return fmt::format("{}{} [{}]", kind, array.width * 8, shape);
}

}  // namespace weft
