#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/graph/graph.h"
#include "weft/onnx/element.h"

// The content of an ONNX file as plain data. Protocol buffers end here: nothing else of weft knows
// them.
namespace weft::onnx_import {

/// Where the bytes of a tensor lie if not in the model's own file.
struct OutsideBytes {
  std::string path = {};  // empty: in the file
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

struct FileTensor {
  std::string name = {};
  Element element = Element::undefined;
  Ints dims = {};
  std::string bytes = {};  // elements as memory has them, row-major
  OutsideBytes outside = {};

  [[nodiscard]] std::int64_t elements() const;
};

/// The bytes, wherever they lie. Throws Error{environment} if a file cannot be read.
[[nodiscard]] std::string tensor_bytes(const FileTensor& tensor);

struct FileGraph;
using FileAttr =
    std::variant<std::int64_t, double, std::string, Ints, std::vector<double>,
                 std::vector<std::string>, FileTensor, std::shared_ptr<const FileGraph>>;

struct FileNode {
  std::string op = {};
  std::string domain = {};  // empty: ONNX's own
  std::string name = {};
  std::vector<std::string> inputs = {};  // empty: left out
  std::vector<std::string> outputs = {};
  std::map<std::string, FileAttr, std::less<>> attrs = {};
  std::string unreadable = {};  // why an attribute could not be read; empty if all could
};

/// A length, or the name of one.
struct FileDim {
  std::int64_t size = -1;
  std::string name = {};
};

struct FileValue {
  std::string name = {};
  Element element = Element::undefined;
  std::vector<FileDim> dims = {};
  bool has_shape = false;
  std::string other_kind = {};  // "sequence", "optional", …: not a tensor
};

struct FileGraph {
  std::vector<FileNode> nodes = {};
  std::vector<FileValue> inputs = {};
  std::vector<FileValue> outputs = {};
  std::vector<FileTensor> initializers = {};
  std::vector<std::string> sparse = {};  // names of initializers that are sparse
};

struct ModelFile {
  std::int64_t opset = 0;
  FileGraph graph = {};
};

/// The model in `bytes`. External tensors lie below `folder`; without one they are refused. Throws
/// Error{input} beginning with `where` for anything that is no sound ONNX model of an opset up
/// to 17.
[[nodiscard]] ModelFile parse_model(std::string_view bytes, const std::string& folder,
                                    const std::string& where);
/// A file with one tensor, as ONNX's test data has them.
[[nodiscard]] FileTensor parse_tensor(std::string_view bytes, const std::string& where);

}  // namespace weft::onnx_import
