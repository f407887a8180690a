#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class MappedFile;

/// One tensor of a file. `bytes` points into memory that the caller (writing) or the mapped file
/// (reading) owns.
struct StoredTensor {
  std::string dtype;  // "F32", "F64", "BF16", "I64", …
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Bytes of one element of a safetensors dtype, 0 for an unknown one.
[[nodiscard]] std::int64_t stored_element_bytes(std::string_view dtype);

/// A tensor without its bytes.
struct TensorHeader {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};
[[nodiscard]] std::int64_t stored_bytes(const TensorHeader& tensor);

/// Gives the bytes of a tensor; they need to live until the next call.
using TensorSource = std::function<std::span<const std::byte>(const TensorHeader&)>;

/// Hugging Face's format, written beside and renamed. One tensor at a time is asked for, so that a
/// file may be larger than memory.
void write_safetensors(const std::string& path, std::vector<TensorHeader> tensors,
                       const std::map<std::string, std::string>& metadata,
                       const TensorSource& source);
void write_safetensors(const std::string& path, const std::map<std::string, StoredTensor>& tensors,
                       const std::map<std::string, std::string>& metadata);

/// A mapped file. Every offset was checked: overlaps, gaps, sizes that do not fit are Error{input}.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);
  ~SafetensorsFile();
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;
  SafetensorsFile(SafetensorsFile&&) = delete;
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;

  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  std::unique_ptr<MappedFile> file_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace weft
