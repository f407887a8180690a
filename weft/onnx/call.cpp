#include "weft/onnx/call.h"

#include "weft/base/error.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

Call::Call(Importer& import, const FileNode& file_node)
    : importer(import), node(file_node), b(import.build()) {
}

bool Call::has(int i) const {
  return i >= 0 && i < inputs() && !node.inputs[static_cast<std::size_t>(i)].empty();
}

Operand& Call::in(int i) const {
  need(has(i), fmt::format("input {} is missing", i));
  Operand* operand = importer.find(node.inputs[static_cast<std::size_t>(i)]);
  WEFT_CHECK(operand != nullptr);
  return *operand;
}

const Known& Call::known(int i, std::string_view what) const {
  const Known* numbers = importer.numbers(in(i));
  if (numbers == nullptr) {
    importer.note_needed_constant(in(i));
    refuse(fmt::format("{} is computed at run time", what));
  }
  return *numbers;
}

bool Call::is_known(int i) const {
  return has(i) && importer.numbers(in(i)) != nullptr;
}

ValueId Call::constant(Known known, std::string_view what) const {
  Operand operand;
  operand.name = fmt::format("{}.{}", node.outputs.empty() ? node.op : node.outputs[0], what);
  operand.element = known.element;
  operand.shape.assign(known.dims.begin(), known.dims.end());
  importer.count_folded(known.elements());
  operand.known = std::make_shared<const Known>(std::move(known));
  return importer.plain(operand);
}

const FileAttr* Call::attr(std::string_view name) const {
  const auto found = node.attrs.find(name);
  return found == node.attrs.end() ? nullptr : &found->second;
}

namespace {

template <typename T>
const T* attr_as(const Call& call, std::string_view name) {
  const FileAttr* attr = call.attr(name);
  if (attr == nullptr) {
    return nullptr;
  }
  const T* typed = std::get_if<T>(attr);
  call.need(typed != nullptr, fmt::format("attribute '{}' of another type", name));
  return typed;
}

}  // namespace

std::int64_t Call::whole(std::string_view name, std::int64_t otherwise) const {
  const auto* value = attr_as<std::int64_t>(*this, name);
  return value == nullptr ? otherwise : *value;
}

double Call::real(std::string_view name, double otherwise) const {
  const auto* value = attr_as<double>(*this, name);
  return value == nullptr ? otherwise : *value;
}

std::string Call::text(std::string_view name, std::string_view otherwise) const {
  const auto* value = attr_as<std::string>(*this, name);
  return value == nullptr ? std::string(otherwise) : *value;
}

Ints Call::wholes(std::string_view name) const {
  const auto* value = attr_as<Ints>(*this, name);
  return value == nullptr ? Ints{} : *value;
}

std::vector<double> Call::reals(std::string_view name) const {
  const auto* value = attr_as<std::vector<double>>(*this, name);
  return value == nullptr ? std::vector<double>{} : *value;
}

int Call::axis(std::int64_t axis, int rank) const {
  need(axis >= -rank && axis < rank, fmt::format("axis {} of {} dims", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Ints Call::list(std::string_view name, int i) const {
  constexpr std::int64_t kMostListed = 1 << 16;
  need(!has(i) || known(i, name).elements() <= kMostListed, fmt::format("{} of huge size", name));
  return has(i) ? whole_list(known(i, name)) : wholes(name);
}

bool Call::wants(int output) const {
  return output < static_cast<int>(node.outputs.size()) &&
         !node.outputs[static_cast<std::size_t>(output)].empty();
}

void Call::give(int output, ValueId value, Element element) const {
  if (wants(output)) {
    Operand operand;
    operand.name = node.outputs[static_cast<std::size_t>(output)];
    operand.element = element;
    operand.shape = b.type(value).shape;
    operand.plain = value;
    importer.define(std::move(operand));
  }
}

void Call::give_channels_last(int output, ValueId value, Element element) const {
  if (wants(output)) {
    Operand operand;
    operand.name = node.outputs[static_cast<std::size_t>(output)];
    operand.element = element;
    operand.shape = permuted(b.type(value).shape, from_channels_last(b.type(value).rank()));
    operand.channels_last = value;
    importer.define(std::move(operand));
  }
}

// What nobody wants was computed all the same.
void Call::give(int output, Known known) const {
  if (!wants(output)) {
    importer.count_folded(static_cast<std::int64_t>(known.reals.size() + known.wholes.size()));
  } else {
    Operand operand;
    operand.name = node.outputs[static_cast<std::size_t>(output)];
    operand.element = known.element;
    for (const std::int64_t n : known.dims) {
      operand.shape.emplace_back(n);
    }
    operand.known = std::make_shared<const Known>(std::move(known));
    importer.define(std::move(operand));
  }
}

}  // namespace weft::onnx_import
