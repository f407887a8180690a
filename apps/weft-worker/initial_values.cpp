#include "initial_values.h"

#include <cstring>

#include "weft/base/error.h"
#include "weft/onnx/import.h"

namespace weft {
namespace {

/// The parameter whose first values a tensor takes: itself, or the one it is a copy of.
const Value* source_of(const Graph& graph, const std::string& name) {
  for (const Value& value : graph.values) {
    if (value.name == name) {
      const bool copy = value.kind == ValueKind::state && value.init.kind == Init::Kind::copy;
      return copy ? &graph.values[static_cast<std::size_t>(value.of)] : &value;
    }
  }
  return nullptr;
}

onnx_import::Element element_for(DType dtype) {
  using onnx_import::Element;
  switch (dtype) {
    case DType::f64:
      return Element::f64;
    case DType::f32:
      return Element::f32;
    case DType::bf16:
      return Element::bf16;
    case DType::f16:
      return Element::f16;
    case DType::i64:
      return Element::i64;
    case DType::i32:
      return Element::i32;
    case DType::u8:
      return Element::u8;
  }
  throw Error(Blame::bug, "bug in weft: a dtype that files do not have");
}

/// The whole tensor in the dtype of the part: rounded as the parameter is, then widened.
std::string whole_bytes(const OnnxInitial& initial, DType dtype) {
  std::string rounded = initial_bytes(initial);
  if (dtype == initial.dtype) {
    return rounded;
  }
  OnnxInitial again{.tensor = initial.tensor, .dtype = dtype};
  again.tensor.element = element_for(initial.dtype);
  again.tensor.bytes = std::move(rounded);
  again.tensor.outside = {};
  return initial_bytes(again);
}

/// Rows of the part, which run along the last dim, one after another.
void copy_part(const std::string& whole, const LocalTensor& part) {
  const std::int64_t bytes = element_bytes(part.type.dtype);
  if (part.type.rank() == 0) {
    std::memcpy(part.bytes.data(), whole.data(), static_cast<std::size_t>(bytes));
    return;
  }
  const auto last = static_cast<std::size_t>(part.type.rank() - 1);
  const std::int64_t run = part.region[last].size() * bytes;
  const std::int64_t rows = run == 0 ? 0 : static_cast<std::int64_t>(part.bytes.size()) / run;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t index = part.region[last].begin;
    std::int64_t stride = part.type.size(static_cast<int>(last));
    std::int64_t rest = row;
    for (std::size_t d = last; d-- > 0;) {
      index += (part.region[d].begin + rest % part.region[d].size()) * stride;
      rest /= part.region[d].size();
      stride *= part.type.size(static_cast<int>(d));
    }
    std::memcpy(part.bytes.data() + row * run, whole.data() + index * bytes,
                static_cast<std::size_t>(run));
  }
}

}  // namespace

void load_initial_values(const Model& model, const Graph& training,
                         const std::vector<LocalTensor>& stored) {
  if (model.initial == nullptr) {
    return;
  }
  for (const LocalTensor& part : stored) {
    const Value* source = source_of(training, part.name);
    WEFT_CHECK(source != nullptr);
    const auto initial = model.initial->find(source->name);
    if (initial != model.initial->end() &&
        (source->name == part.name || source->kind == ValueKind::parameter)) {
      const std::string whole = whole_bytes(initial->second, part.type.dtype);
      WEFT_CHECK(static_cast<std::int64_t>(whole.size()) == part.type.bytes());
      copy_part(whole, part);
    }
  }
}

}  // namespace weft
