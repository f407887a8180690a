// The file: a little-endian u64 (length of the header), the header (JSON: name → dtype, shape and
// [begin, end) in the data), the data. The data must be tiled by the tensors without gaps or
// overlaps, so a file has exactly one meaning and no byte of it goes unchecked.
#include "weft/store/safetensors.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "weft/base/error.h"
#include "weft/store/mapped_file.h"

namespace weft {

namespace {

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of Hugging Face's own reader
constexpr std::string_view kMetadata = "__metadata__";

struct ElementSize {
  std::string_view dtype;
  std::int64_t bytes = 0;
};
constexpr std::array<ElementSize, 15> kElementSizes = {{{"F64", 8},
                                                        {"F32", 4},
                                                        {"F16", 2},
                                                        {"BF16", 2},
                                                        {"F8_E4M3", 1},
                                                        {"F8_E5M2", 1},
                                                        {"I64", 8},
                                                        {"I32", 4},
                                                        {"I16", 2},
                                                        {"I8", 1},
                                                        {"U64", 8},
                                                        {"U32", 4},
                                                        {"U16", 2},
                                                        {"U8", 1},
                                                        {"BOOL", 1}}};

// ---- reading
// -------------------------------------------------------------------------------------

/// Parses the header. JSON leaves duplicate keys to the reader; here they are an error, because two
/// readers that choose differently would see two different files.
json parse_header(std::string_view text, const std::string& path) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    require(depth <= 4, "{}: header is nested too deeply", path);
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      require(keys.back().insert(key).second, "{}: key '{}' stands twice in the header", path, key);
    }
    return true;
  };
  try {
    json header = json::parse(text, check);
    require(header.is_object(), "{}: header is not a JSON object", path);
    return header;
  } catch (const json::exception& error) {
    throw Error(Blame::input, fmt::format("{}: header is not valid JSON: {}", path, error.what()));
  }
}

std::vector<std::int64_t> sizes(const json& tensor, const char* key, const std::string& where) {
  const auto member = tensor.find(key);
  require(member != tensor.end() && member->is_array(), "{}: '{}' is not a list", where, key);
  std::vector<std::int64_t> result;
  for (const json& item : *member) {
    require(item.is_number_unsigned() && item.get<std::uint64_t>() <= INT64_MAX,
            "{}: '{}' holds something that is not a size", where, key);
    result.push_back(item.get<std::int64_t>());
  }
  return result;
}

/// Bytes of a tensor, or -1 if they do not fit into 64 bits.
std::int64_t tensor_bytes(std::int64_t element, const std::vector<std::int64_t>& shape) {
  std::int64_t bytes = element;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      // A later zero would make the tensor empty, but nobody writes such a shape.
      return -1;
    }
  }
  return bytes;
}

StoredTensor parse_tensor(const json& tensor, std::span<const std::byte> data,
                          const std::string& where) {
  require(tensor.is_object(), "{}: not an object", where);
  const auto dtype = tensor.find("dtype");
  require(dtype != tensor.end() && dtype->is_string(), "{}: 'dtype' is not a text", where);
  StoredTensor result{dtype->get<std::string>(), sizes(tensor, "shape", where), {}};
  const std::int64_t element = stored_element_bytes(result.dtype);
  require(element > 0, "{}: unknown dtype '{}'", where, result.dtype);
  const std::vector<std::int64_t> offsets = sizes(tensor, "data_offsets", where);
  require(offsets.size() == 2 && offsets[0] <= offsets[1], "{}: 'data_offsets' is not [begin, end]",
          where);
  require(std::cmp_less_equal(offsets[1], data.size()),
          "{}: ends at byte {} of {} bytes of data; the file is truncated", where, offsets[1],
          data.size());
  const std::int64_t bytes = tensor_bytes(element, result.shape);
  require(bytes == offsets[1] - offsets[0], "{}: {} bytes do not hold this dtype and shape", where,
          offsets[1] - offsets[0]);
  result.bytes =
      data.subspan(static_cast<std::size_t>(offsets[0]), static_cast<std::size_t>(bytes));
  return result;
}

/// The tensors lie end to end: sorted by place, each begins where the last one ended.
void check_tiling(const std::map<std::string, StoredTensor>& tensors,
                  std::span<const std::byte> data, const std::string& path) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (const auto& [name, tensor] : tensors) {
    const auto begin = static_cast<std::size_t>(tensor.bytes.data() - data.data());
    ranges.emplace_back(begin, begin + tensor.bytes.size());
  }
  std::ranges::sort(ranges);
  std::size_t end = 0;
  for (const auto& range : ranges) {
    require(range.first >= end, "{}: tensors overlap at byte {} of the data", path, range.first);
    require(range.first == end, "{}: bytes {} to {} of the data belong to no tensor", path, end,
            range.first);
    end = range.second;
  }
  require(end == data.size(), "{}: bytes {} to {} of the data belong to no tensor", path, end,
          data.size());
}

std::map<std::string, std::string> parse_metadata(const json& object, const std::string& path) {
  require(object.is_object(), "{}: {} is not an object", path, kMetadata);
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : object.items()) {
    require(value.is_string(), "{}: metadata '{}' is not a text", path, key);
    result[key] = value.get<std::string>();
  }
  return result;
}

// ---- writing
// -------------------------------------------------------------------------------------

/// A new file that is either finished and renamed or removed.
class NewFile {
 public:
  explicit NewFile(std::string path)
      : path_(std::move(path)), beside_(fmt::format("{}.tmp{}", path_, ::getpid())) {
    file_ = ::open(beside_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    check(file_ >= 0, "create");
  }
  ~NewFile() {
    if (file_ >= 0) {
      ::close(file_);
      ::unlink(beside_.c_str());
    }
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  NewFile(NewFile&&) = delete;
  NewFile& operator=(NewFile&&) = delete;

  void write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) {
        continue;
      }
      check(written > 0, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void finish() {
    check(::fsync(file_) == 0, "write");  // a renamed file must survive a crash whole
    check(::rename(beside_.c_str(), path_.c_str()) == 0, "rename to");
    ::close(std::exchange(file_, -1));
  }

 private:
  void check(bool ok, const char* what) const {
    if (!ok) {
      fail_environment("{}: cannot {}: {}", path_, what, std::generic_category().message(errno));
    }
  }
  std::string path_;
  std::string beside_;
  int file_ = -1;
};

/// The order in which tensors lie in the file: wide elements first, so that each is aligned.
void sort_for_file(std::vector<TensorHeader>& tensors) {
  for (const TensorHeader& tensor : tensors) {
    WEFT_CHECK(tensor.name != kMetadata && stored_element_bytes(tensor.dtype) > 0);
  }
  std::ranges::sort(tensors, [](const TensorHeader& a, const TensorHeader& b) {
    return std::pair(-stored_element_bytes(a.dtype), std::string_view(a.name)) <
           std::pair(-stored_element_bytes(b.dtype), std::string_view(b.name));
  });
}

}  // namespace

std::int64_t stored_element_bytes(std::string_view dtype) {
  const auto* found = std::ranges::find(kElementSizes, dtype, &ElementSize::dtype);
  return found == kElementSizes.end() ? 0 : found->bytes;
}

std::int64_t stored_bytes(const TensorHeader& tensor) {
  return tensor_bytes(stored_element_bytes(tensor.dtype), tensor.shape);
}

void write_safetensors(const std::string& path, std::vector<TensorHeader> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const TensorSource& source) {
  sort_for_file(tensors);
  json header = json::object();
  if (!metadata.empty()) {
    header[std::string(kMetadata)] = metadata;
  }
  std::int64_t offset = 0;
  for (const TensorHeader& tensor : tensors) {
    const std::int64_t end = offset + stored_bytes(tensor);
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');  // aligns the data
  WEFT_CHECK(text.size() <= kMaxHeaderBytes);
  const std::uint64_t length = text.size();

  NewFile file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(text)));
  for (const TensorHeader& tensor : tensors) {
    const std::span<const std::byte> bytes = source(tensor);
    WEFT_CHECK(std::cmp_equal(bytes.size(), stored_bytes(tensor)));
    file.write(bytes);
  }
  file.finish();
}

void write_safetensors(const std::string& path, const std::map<std::string, StoredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorHeader> headers;
  for (const auto& [name, tensor] : tensors) {
    headers.push_back({name, tensor.dtype, tensor.shape});
  }
  write_safetensors(path, std::move(headers), metadata, [&](const TensorHeader& tensor) {
    return tensors.find(tensor.name)->second.bytes;
  });
}

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(std::make_unique<MappedFile>(path)) {
  const std::span<const std::byte> bytes = file_->bytes();
  require(bytes.size() >= kLengthBytes, "{}: too short for a safetensors file", path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  require(length <= kMaxHeaderBytes, "{}: header of {} bytes is too long; not a safetensors file?",
          path, length);
  require(length <= bytes.size() - kLengthBytes, "{}: header of {} bytes is truncated", path,
          length);
  const auto text = bytes.subspan(kLengthBytes, length);
  const auto data = bytes.subspan(kLengthBytes + length);
  const json header = parse_header({reinterpret_cast<const char*>(text.data()), text.size()}, path);
  for (const auto& [name, value] : header.items()) {
    if (name == kMetadata) {
      metadata_ = parse_metadata(value, path);
    } else {
      tensors_[name] = parse_tensor(value, data, fmt::format("{}: tensor '{}'", path, name));
    }
  }
  check_tiling(tensors_, data, path);
}

SafetensorsFile::~SafetensorsFile() = default;

}  // namespace weft
