#include "weft/onnx/emit.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/onnx/importer.h"

namespace weft::onnx_import {

namespace {

std::string shape_text(const Shape& shape) {
  const std::string bracketed = format_shape(shape);
  return bracketed.substr(1, bracketed.size() - 2);
}

bool is_identity(const Ints& perm) {
  for (std::size_t i = 0; i < perm.size(); ++i) {
    if (perm[i] != static_cast<std::int64_t>(i)) {
      return false;
    }
  }
  return true;
}

/// Dims longer than one keep their order, so that elements do.
bool keeps_elements(const Shape& shape, const Ints& perm) {
  std::int64_t last = -1;
  for (const std::int64_t d : perm) {
    if (shape[static_cast<std::size_t>(d)] != Dim(1)) {
      if (d < last) {
        return false;
      }
      last = d;
    }
  }
  return true;
}

}  // namespace

Shape permuted(const Shape& shape, const Ints& perm) {
  Shape result;
  for (const std::int64_t d : perm) {
    result.push_back(shape.at(static_cast<std::size_t>(d)));
  }
  return result;
}

Ints to_channels_last(int rank) {
  Ints perm = {0};
  for (int d = 2; d < rank; ++d) {
    perm.push_back(d);
  }
  perm.push_back(1);
  return perm;
}

Ints from_channels_last(int rank) {
  Ints perm = {0, rank - 1};
  for (int d = 1; d < rank - 1; ++d) {
    perm.push_back(d);
  }
  return perm;
}

ValueId reshape(Builder& b, ValueId x, const Shape& shape) {
  return b.type(x).shape == shape ? x : b.emit("reshape", {x}, {{"shape", shape_text(shape)}});
}

ValueId transpose(Builder& b, ValueId x, const Ints& perm) {
  const Shape shape = b.type(x).shape;
  if (perm.size() != shape.size()) {
    throw Unsupported{
        fmt::format("a shape {} that needs {} dims", format_shape(shape), perm.size())};
  }
  if (is_identity(perm)) {
    return x;
  }
  return keeps_elements(shape, perm) ? reshape(b, x, permuted(shape, perm))
                                     : b.emit("transpose", {x}, {{"perm", perm}});
}

Shape common_shape(const Shape& a, const Shape& b) {
  const std::size_t rank = std::max(a.size(), b.size());
  Shape result(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1);
    const Dim y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (x != y && x != Dim(1) && y != Dim(1)) {
      throw Unsupported{
          fmt::format("shapes {} and {} do not go together", format_shape(a), format_shape(b))};
    }
    result[rank - 1 - i] = x == Dim(1) ? y : x;
  }
  return result;
}

ValueId broadcast(Builder& b, ValueId x, const Shape& shape) {
  if (b.type(x).shape == shape) {
    return x;
  }
  return b.emit("expand", {x}, {{"shape", shape_text(shape)}});
}

ValueId as_suffix(Builder& b, ValueId x, const Shape& shape) {
  Shape own = b.type(x).shape;
  own.erase(own.begin(), std::ranges::find_if(own, [](Dim d) { return d != Dim(1); }));
  const bool fits =
      own.size() <= shape.size() && std::equal(own.rbegin(), own.rend(), shape.rbegin());
  return fits ? reshape(b, x, own) : broadcast(b, x, shape);
}

ValueId scalar(Builder& b, double value, DType dtype) {
  return b.emit("constant", {}, {{"value", value}, {"dtype", std::string(dtype_name(dtype))}});
}

ValueId cast(Builder& b, ValueId x, DType dtype) {
  return b.type(x).dtype == dtype
             ? x
             : b.emit("cast", {x}, {{"dtype", std::string(dtype_name(dtype))}});
}

ValueId unary(Builder& b, std::string_view function, ValueId x) {
  return b.emit("unary", {x}, {{"function", std::string(function)}}, function);
}

ValueId unary(Builder& b, std::string_view function, ValueId x, double alpha, double beta) {
  return b.emit("unary", {x},
                {{"function", std::string(function)}, {"alpha", alpha}, {"beta", beta}}, function);
}

// The second operand may be a suffix of the first. Sums, products and comparisons can be turned so
// that the longer one comes first; the others take a repeated first operand.
ValueId binary(Builder& b, std::string_view function, ValueId x, ValueId y) {
  static const std::map<std::string_view, std::string_view> kTurned = {
      {"add", "add"}, {"mul", "mul"}, {"max", "max"}, {"min", "min"}, {"eq", "eq"}, {"and", "and"},
      {"or", "or"},   {"xor", "xor"}, {"gt", "lt"},   {"lt", "gt"},   {"ge", "le"}, {"le", "ge"}};
  const Shape shape = common_shape(b.type(x).shape, b.type(y).shape);
  const auto turned = kTurned.find(function);
  if (b.type(x).shape != shape && turned != kTurned.end()) {
    std::swap(x, y);
    function = turned->second;
  }
  x = broadcast(b, x, shape);
  y = as_suffix(b, y, shape);
  if (function == "add" || function == "mul") {
    return b.emit(function, {x, y});
  }
  return b.emit("binary", {x, y}, {{"function", std::string(function)}}, function);
}

ValueId with_number(Builder& b, std::string_view function, ValueId x, double y) {
  const DType dtype = b.type(x).dtype;
  const bool floating = dtype != DType::i64 && dtype != DType::i32 && dtype != DType::u8;
  if (function == "mul" && floating) {
    return y == 1 ? x : b.emit("scale", {x}, {{"value", y}});
  }
  return binary(b, function, x, scalar(b, y, dtype));
}

ValueId reduce(Builder& b, std::string_view function, ValueId x, const Ints& dims, bool keep) {
  if (dims.empty()) {
    return x;
  }
  return b.emit(
      "reduce", {x},
      {{"function", std::string(function)}, {"dims", dims}, {"keep", std::int64_t{keep ? 1 : 0}}},
      function);
}

ValueId slice(Builder& b, ValueId x, int dim, std::int64_t start, std::int64_t size,
              std::int64_t step) {
  const Shape& shape = b.type(x).shape;
  const auto d = static_cast<std::size_t>(dim);
  if (d >= shape.size()) {
    throw Unsupported{fmt::format("a shape {} with fewer dims than it needs", format_shape(shape))};
  }
  if (start == 0 && step == 1 && shape[d] == Dim(size)) {
    return x;
  }
  Ints starts(shape.size(), 0);
  Ints sizes(shape.size(), 0);
  Ints steps(shape.size(), 1);
  starts[d] = start;
  sizes[d] = size;
  steps[d] = step;
  return b.emit("slice", {x}, {{"starts", starts}, {"sizes", sizes}, {"steps", steps}});
}

ValueId concat(Builder& b, const std::vector<ValueId>& parts, int dim) {
  return parts.size() == 1 ? parts[0] : b.emit("concat", parts, {{"dim", std::int64_t{dim}}});
}

}  // namespace weft::onnx_import
