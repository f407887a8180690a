// Reads ONNX's protocol buffers into plain data. Whoever wrote the file may be hostile: nothing is
// allocated by a number in it before that many bytes are known to be there, nesting is bounded by
// the parser's recursion limit, and a path to external data must stay below the model's folder.
#include "weft/onnx/model_file.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "weft/base/error.h"

namespace weft::onnx_import {

namespace {

constexpr std::int64_t kFirstOpset = 1;  // each op says from which on it is understood: mostly 6
constexpr std::int64_t kLastOpset = 17;
constexpr int kNesting = 64;  // messages; a graph inside a node's attribute is three of them

// What the functions below have in common.
struct Source {
  std::string folder;
  std::string where;
};

template <typename Message>
void parse(Message& message, std::string_view bytes, const std::string& where) {
  require(bytes.size() < static_cast<std::size_t>(std::numeric_limits<int>::max()),
          "{}: the file is larger than 2 GiB; keep its tensors as external data", where);
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(kNesting);
  require(message.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage(),
          "{}: this is no ONNX file, or only a part of one", where);
}

template <typename T, typename Field>
std::string packed(const Field& field) {
  std::string bytes(field.size() * sizeof(T), '\0');
  std::size_t at = 0;
  for (const auto value : field) {
    const T element = static_cast<T>(value);
    std::memcpy(bytes.data() + at, &element, sizeof(T));
    at += sizeof(T);
  }
  return bytes;
}

// Fields other than raw_data: which one depends on the type.
std::string typed_bytes(const onnx::TensorProto& t, Element element) {
  switch (element) {
    case Element::f32:
    case Element::complex64:
      return packed<float>(t.float_data());
    case Element::f64:
    case Element::complex128:
      return packed<double>(t.double_data());
    case Element::i64:
      return packed<std::int64_t>(t.int64_data());
    case Element::u32:
      return packed<std::uint32_t>(t.uint64_data());
    case Element::u64:
      return packed<std::uint64_t>(t.uint64_data());
    case Element::i32:
      return packed<std::int32_t>(t.int32_data());
    case Element::u16:
    case Element::i16:
    case Element::f16:
    case Element::bf16:
      return packed<std::uint16_t>(t.int32_data());
    case Element::u8:
    case Element::i8:
    case Element::boolean:
      return packed<std::uint8_t>(t.int32_data());
    case Element::text:
    case Element::undefined:
      break;
  }
  return {};
}

std::int64_t decimal(const std::string& text, std::string_view what, const std::string& where) {
  std::int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  require(read.ec == std::errc{} && read.ptr == text.data() + text.size() && value >= 0,
          "{}: {} '{}' of external data is no length", where, what, text);
  return value;
}

OutsideBytes outside_bytes(const onnx::TensorProto& t, std::int64_t needed, const Source& source) {
  require(!source.folder.empty(), "{}: tensor '{}' lies in another file", source.where, t.name());
  OutsideBytes outside{.path = {}, .offset = 0, .length = needed};
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") {
      outside.path = entry.value();
    } else if (entry.key() == "offset") {
      outside.offset = decimal(entry.value(), "offset", source.where);
    } else if (entry.key() == "length") {
      const std::int64_t length = decimal(entry.value(), "length", source.where);
      require(length == needed, "{}: tensor '{}' needs {} bytes, its external data has {}",
              source.where, t.name(), needed, length);
    }
  }
  const std::filesystem::path relative(outside.path);
  bool inside = !relative.empty() && relative.is_relative();
  for (const std::filesystem::path& part : relative) {
    inside = inside && part != "..";
  }
  require(inside, "{}: external data '{}' must lie beside the model", source.where, outside.path);
  const std::filesystem::path path = std::filesystem::path(source.folder) / relative;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  require(!error, "{}: there is no file '{}' with the data of tensor '{}'", source.where,
          path.string(), t.name());
  require(static_cast<std::uint64_t>(outside.offset) <= size &&
              static_cast<std::uint64_t>(needed) <= size - outside.offset,
          "{}: tensor '{}' ends behind the end of '{}'", source.where, t.name(), path.string());
  outside.path = path.string();
  return outside;
}

std::int64_t checked_product(const Ints& dims, std::int64_t unit, const std::string& what) {
  std::int64_t product = unit;
  for (const std::int64_t n : dims) {
    require(n >= 0 && !__builtin_mul_overflow(product, n, &product),
            "{} has a length that no tensor has: {}", what, n);
  }
  return product;
}

FileTensor read_tensor(onnx::TensorProto& t, const Source& source) {
  FileTensor tensor;
  tensor.name = t.name();
  tensor.element = element_of(t.data_type());
  tensor.dims.assign(t.dims().begin(), t.dims().end());
  const std::string what = fmt::format("{}: tensor '{}'", source.where, t.name());
  require(tensor.dims.size() <= 64, "{} has {} dims", what, tensor.dims.size());
  require(!t.has_segment(), "{} is one segment of a tensor", what);
  const bool is_text = tensor.element == Element::text;
  const std::int64_t needed =
      checked_product(tensor.dims, is_text ? 1 : element_bytes(tensor.element), what);
  if (is_text) {
    return tensor;  // only its name and type are of interest: text cannot be computed
  }
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    tensor.outside = outside_bytes(t, needed, source);
    return tensor;
  }
  tensor.bytes =
      t.has_raw_data() ? std::move(*t.mutable_raw_data()) : typed_bytes(t, tensor.element);
  require(static_cast<std::int64_t>(tensor.bytes.size()) == needed,
          "{} needs {} bytes for its shape, it has {}", what, needed, tensor.bytes.size());
  return tensor;
}

FileValue read_value(const onnx::ValueInfoProto& v) {
  FileValue value;
  value.name = v.name();
  if (!v.type().has_tensor_type()) {
    value.other_kind = v.type().has_sequence_type()   ? "sequence"
                       : v.type().has_optional_type() ? "optional"
                       : v.type().has_map_type()      ? "map"
                                                      : "value without a tensor type";
    return value;
  }
  const auto& type = v.type().tensor_type();
  value.element = type.elem_type() == 0 ? Element::undefined : element_of(type.elem_type());
  value.has_shape = type.has_shape();
  for (const auto& dim : type.shape().dim()) {
    value.dims.push_back(dim.has_dim_value() ? FileDim{.size = dim.dim_value(), .name = {}}
                                             : FileDim{.size = -1, .name = dim.dim_param()});
  }
  return value;
}

FileGraph read_graph(onnx::GraphProto& g, const Source& source);

bool read_attr(onnx::AttributeProto& a, FileAttr& attr, const Source& source) {
  switch (a.type()) {
    case onnx::AttributeProto::FLOAT:
      attr = static_cast<double>(a.f());
      return true;
    case onnx::AttributeProto::INT:
      attr = static_cast<std::int64_t>(a.i());
      return true;
    case onnx::AttributeProto::STRING:
      attr = a.s();
      return true;
    case onnx::AttributeProto::TENSOR:
      attr = read_tensor(*a.mutable_t(), source);
      return true;
    case onnx::AttributeProto::GRAPH:
      attr = std::make_shared<const FileGraph>(read_graph(*a.mutable_g(), source));
      return true;
    case onnx::AttributeProto::FLOATS:
      attr = std::vector<double>(a.floats().begin(), a.floats().end());
      return true;
    case onnx::AttributeProto::INTS:
      attr = Ints(a.ints().begin(), a.ints().end());
      return true;
    case onnx::AttributeProto::STRINGS:
      attr = std::vector<std::string>(a.strings().begin(), a.strings().end());
      return true;
    default:
      return false;
  }
}

FileNode read_node(onnx::NodeProto& n, const Source& source) {
  FileNode node;
  node.op = n.op_type();
  node.domain = n.domain() == "ai.onnx" ? "" : n.domain();
  node.name = n.name();
  node.inputs.assign(n.input().begin(), n.input().end());
  node.outputs.assign(n.output().begin(), n.output().end());
  for (onnx::AttributeProto& a : *n.mutable_attribute()) {
    FileAttr attr;
    if (read_attr(a, attr, source)) {
      node.attrs[a.name()] = std::move(attr);
    } else {
      node.unreadable = fmt::format("attribute '{}'", a.name());
    }
  }
  return node;
}

FileGraph read_graph(onnx::GraphProto& g, const Source& source) {
  FileGraph graph;
  for (onnx::NodeProto& node : *g.mutable_node()) {
    graph.nodes.push_back(read_node(node, source));
  }
  for (onnx::TensorProto& tensor : *g.mutable_initializer()) {
    graph.initializers.push_back(read_tensor(tensor, source));
  }
  for (const auto& sparse : g.sparse_initializer()) {
    graph.sparse.push_back(sparse.values().name());
  }
  for (const onnx::ValueInfoProto& value : g.input()) {
    graph.inputs.push_back(read_value(value));
  }
  for (const onnx::ValueInfoProto& value : g.output()) {
    graph.outputs.push_back(read_value(value));
  }
  return graph;
}

}  // namespace

std::int64_t FileTensor::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t n : dims) {
    product *= n;
  }
  return product;
}

std::string tensor_bytes(const FileTensor& tensor) {
  const OutsideBytes& outside = tensor.outside;
  if (outside.path.empty()) {
    return tensor.bytes;
  }
  std::ifstream file(outside.path, std::ios::binary);
  std::string bytes(static_cast<std::size_t>(outside.length), '\0');
  file.seekg(outside.offset);
  if (!file.read(bytes.data(), outside.length)) {
    fail_environment("cannot read {} bytes at {} of '{}'", outside.length, outside.offset,
                     outside.path);
  }
  return bytes;
}

ModelFile parse_model(std::string_view bytes, const std::string& folder, const std::string& where) {
  onnx::ModelProto proto;
  parse(proto, bytes, where);
  ModelFile model;
  for (const onnx::OperatorSetIdProto& set : proto.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") {
      model.opset = set.version();
    }
  }
  require(proto.has_graph(), "{}: this ONNX file has no graph", where);
  require(model.opset >= kFirstOpset && model.opset <= kLastOpset,
          "{}: opset {} of ONNX; known are {} to {}", where, model.opset, kFirstOpset, kLastOpset);
  model.graph = read_graph(*proto.mutable_graph(), {.folder = folder, .where = where});
  return model;
}

FileTensor parse_tensor(std::string_view bytes, const std::string& where) {
  onnx::TensorProto proto;
  parse(proto, bytes, where);
  return read_tensor(proto, {.folder = {}, .where = where});
}

}  // namespace weft::onnx_import
