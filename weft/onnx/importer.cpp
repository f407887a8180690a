// The walk over the nodes of a file. Every value of the file is an Operand, which is turned into
// numbers or into a value of our graph when a node asks for it: so weights that only shapes are
// taken of, masks that nobody reads and layouts that nobody needs leave no trace.
#include "weft/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "weft/base/error.h"
#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/layer_name.h"
#include "weft/onnx/loss.h"
#include "weft/ops/rules.h"

namespace weft::onnx_import {

namespace {

constexpr int kMostDepth = 16;        // of branches in branches
constexpr std::size_t kMostDims = 8;  // of a tensor
constexpr std::size_t kMostNodes = 200'000;
constexpr std::int64_t kMostElements = std::int64_t{1} << 44;  // of a tensor, for each sample
constexpr std::int64_t kMostFolded = std::int64_t{1} << 25;    // of all constants together
constexpr std::int64_t kMostRead = std::int64_t{1} << 25;      // of them, to compute others

// A dim of length 0 counts as 1: strides are products of the other dims.
void require_size(const Operand& x) {
  std::int64_t elements = 1;
  require(x.shape.size() <= kMostKnownDims, "'{}' has {} dims", x.name, x.shape.size());
  for (const Dim dim : x.shape) {
    require(dim.size >= 0 &&
                !__builtin_mul_overflow(elements, std::max<std::int64_t>(dim.size, 1), &elements) &&
                elements <= kMostElements,
            "'{}' has more elements than any memory: {}", x.name, format_shape(x.shape));
  }
}

bool is_empty(const Shape& shape) {
  return std::ranges::any_of(shape, [](Dim dim) { return dim.size == 0; });
}

}  // namespace

bool Operand::is_constant() const {
  if (initializer == nullptr) {
    return known != nullptr;
  }
  return is_whole(element) && initializer->elements() <= kMostKnown;
}

Importer::Importer(const ModelFile& file, const OnnxOptions& options, const OpTable& ops,
                   OnnxModel& model, OnnxRefusal& refusal)
    : file_(file), options_(options), model_(model), refusal_(refusal), build_(model.forward, ops) {
}

void Importer::run() {
  build_.set_scope("inputs");
  define_initializers(file_.graph);
  define_inputs();
  run_nodes(file_.graph);
  if (refusal_.empty()) {
    end();
  }
}

Operand* Importer::find(const std::string& name) {
  const auto found = operands_.find(name);
  return found == operands_.end() ? nullptr : &found->second;
}

void Importer::define(Operand operand) {
  require(!operands_.contains(operand.name) && !refused_.contains(operand.name),
          "two nodes give '{}'", operand.name);
  require_size(operand);
  if (operand.known != nullptr) {
    count_folded(operand.known->elements());
  }
  const std::string name = operand.name;
  operands_.emplace(name, std::move(operand));
}

void Importer::count_folded(std::int64_t elements) {
  folded_ += elements;
  require(folded_ <= kMostFolded, "constants of more than {} elements in all", kMostFolded);
}

// Comes before the arithmetic: a file whose constants are too many computes no more of them.
void Importer::count_read(std::int64_t elements) {
  read_ += elements;
  require(read_ <= kMostRead && folded_ <= kMostFolded,
          "arithmetic on constants of more than {} elements in all", kMostRead);
}

void Importer::define_initializers(const FileGraph& graph) {
  for (const FileTensor& tensor : graph.initializers) {
    Operand operand;
    operand.name = tensor.name;
    operand.element = tensor.element;
    operand.shape.assign(tensor.dims.begin(), tensor.dims.end());
    operand.initializer = &tensor;
    define(std::move(operand));
  }
  for (const std::string& name : graph.sparse) {
    refusal_.nodes["sparse initializer"].push_back(name);
    refused_.insert(name);
  }
}

void Importer::define_inputs() {
  for (const FileValue& input : file_.graph.inputs) {
    if (find(input.name) == nullptr) {  // older files list initializers here as well
      define_input(input);
    }
  }
}

Shape Importer::input_shape(const FileValue& input) const {
  const auto given = options_.sizes.find(input.name);
  if (given != options_.sizes.end()) {
    return {given->second.begin(), given->second.end()};
  }
  require(input.has_shape, "input '{}' has no shape", input.name);
  Shape shape;
  for (std::size_t d = 0; d < input.dims.size(); ++d) {
    const FileDim& dim = input.dims[d];
    const FileDim& batch = file_.graph.inputs.front().dims.empty()
                               ? input.dims[0]
                               : file_.graph.inputs.front().dims[0];
    if (d == 0 || (!dim.name.empty() && dim.name == batch.name)) {
      shape.push_back(kBatch);
    } else if (dim.size >= 0) {
      shape.emplace_back(dim.size);
    } else {
      require(options_.sequence > 0,
              "dim {} of input '{}' ({}) has no length: give it with --seq, or export the model "
              "with that length",
              d, input.name, dim.name.empty() ? "unnamed" : dim.name);
      shape.emplace_back(options_.sequence);
    }
  }
  return shape;
}

bool Importer::refuse_input(const FileValue& input, const Shape& shape) {
  std::string what;
  if (!input.other_kind.empty() || !has_dtype(input.element)) {
    what = fmt::format("input of type {}",
                       input.other_kind.empty() ? element_name(input.element) : input.other_kind);
  } else if (std::ranges::any_of(shape, [](Dim dim) { return dim.size < 0; })) {
    what = "tensor of negative length";
  } else if (shape.size() > kMostDims) {
    what = fmt::format("tensor of {} dims", shape.size());
  } else {
    return false;
  }
  refusal_.nodes[what].push_back(input.name);
  refused_.insert(input.name);
  return true;
}

void Importer::define_input(const FileValue& input) {
  Operand operand;
  operand.name = input.name;
  operand.element = input.element;
  operand.is_input = true;
  const auto constant = options_.constants.find(input.name);
  if (constant != options_.constants.end()) {
    operand.element = constant->second.element;
    operand.shape.assign(constant->second.dims.begin(), constant->second.dims.end());
    operand.known = std::make_shared<const Known>(constant->second);
    define(std::move(operand));
    return;
  }
  if (refuse_input(input, {})) {
    return;
  }
  operand.shape = input_shape(input);
  if (refuse_input(input, operand.shape)) {
    return;
  }
  if (is_empty(operand.shape)) {  // all of its numbers are known
    Known nothing{.element = operand.element, .dims = {}, .reals = {}, .wholes = {}};
    for (const Dim dim : operand.shape) {
      nothing.dims.push_back(dim.size);
    }
    operand.known = std::make_shared<const Known>(std::move(nothing));
    define(std::move(operand));
    return;
  }
  if (options_.for_training) {
    fill_from_data(operand);
  } else {
    operand.plain = build_.input(input.name, {operand.shape, dtype(operand.element)});
  }
  define(std::move(operand));
}

// The runtime knows inputs by the names of what they hold.
void Importer::fill_from_data(Operand& input) {
  const bool real = is_real(input.element);
  const std::string name = real ? "x" : "tokens";
  for (const Value& other : model_.forward.values) {
    require(other.name != name,
            "input '{}': data can fill one floating input (x) and one of whole numbers (tokens)",
            input.name);
  }
  if (!real) {
    require(input.rank() == 2 && input.element == Element::i64,
            "input '{}' holds whole numbers, but is not [batch, sequence] of int64", input.name);
    input.plain = build_.input(name, {input.shape, DType::i64});
    model_.sequence = input.shape[1].size;
    return;
  }
  require(input.rank() > 0, "input '{}' is a number, not a batch of samples", input.name);
  const bool image = input.rank() == 4;
  const Shape laid = image ? permuted(input.shape, to_channels_last(4)) : input.shape;
  (image ? input.channels_last : input.plain) = build_.input(name, {laid, dtype(input.element)});
}

// ---- nodes

void Importer::run_nodes(const FileGraph& graph) {
  require(depth_ < kMostDepth, "branches are nested more than {} deep", kMostDepth);
  if (depth_ > 0) {
    define_initializers(graph);
  }
  ++depth_;
  for (const FileNode& node : graph.nodes) {
    run_node(node);
  }
  --depth_;
}

void Importer::refuse(const FileNode& node, const std::string& reason) {
  std::string what = node.domain.empty() ? node.op : node.domain + "." + node.op;
  what += reason.empty() ? "" : ": " + reason;
  const std::string first = node.outputs.empty() ? "" : node.outputs[0];
  refusal_.nodes[what].push_back(node.name.empty() ? first : node.name);
  refused_.insert(node.outputs.begin(), node.outputs.end());
}

void Importer::require_room() const {
  require(model_.forward.nodes.size() <= kMostNodes, "the graph has more than {} nodes",
          kMostNodes);
}

void Importer::run_node(const FileNode& node) {
  require_room();
  const auto op = onnx_ops().find(node.op);
  if (!node.domain.empty() || op == onnx_ops().end()) {
    refuse(node, "");
    return;
  }
  if (opset() < op->second.since) {
    refuse(node, fmt::format("the form of opset {}", opset()));
    return;
  }
  for (const std::string& input : node.inputs) {
    if (refused_.contains(input)) {
      refused_.insert(node.outputs.begin(), node.outputs.end());
      return;
    }
    require(input.empty() || find(input) != nullptr,
            "node '{}' ({}) reads '{}', which nothing before it gives", node.name, node.op, input);
  }
  const int depth = depth_;
  try {
    if (!node.unreadable.empty()) {
      throw Unsupported{node.unreadable};
    }
    enter_layer(node);
    const Call call(*this, node);
    if (!fold(call)) {
      op->second.emit(call);
    }
  } catch (const Unsupported& unsupported) {
    refuse(node, unsupported.reason);
  } catch (const Error& error) {
    if (error.blame() != Blame::input) {
      throw;
    }
    refuse(node, error.what());
  } catch (const std::out_of_range&) {
    refuse(node, "numbers or names that are missing");
  }
  depth_ = depth;  // what was thrown out of a branch has left it
}

// Layers of our graph lie one after another: a layer that was left and comes again is a new one.
void Importer::enter_layer(const FileNode& node) {
  const LayerName name = layer_name(node, layer_);
  if (name.layer != layer_ || scope_layer_.empty()) {
    layer_ = name.layer;
    scope_layer_ = name.layer;
    const auto [first, is_new] = layers_.emplace(name.layer, 1);
    for (bool taken = !is_new; taken; taken = !layers_.emplace(scope_layer_, 1).second) {
      scope_layer_ = fmt::format("{}~{}", name.layer, ++first->second);
    }
  }
  build_.set_scope(name.rest.empty() ? scope_layer_ : scope_layer_ + "/" + name.rest);
}

// ---- from an operand to what is asked for

const Known* Importer::numbers(Operand& x) {
  if (x.known == nullptr && x.initializer != nullptr && x.element != Element::text) {
    x.known = std::make_shared<const Known>(decode(*x.initializer));
  }
  return x.known.get();
}

void Importer::note_needed_constant(const Operand& x) {
  if (x.is_input) {
    refusal_.must_be_constant.insert(x.name);
  } else {
    refusal_.must_be_constant.insert("");
  }
}

std::string Importer::parameter_name(const std::string& wanted) {
  std::string name = wanted.empty() ? "constant" : wanted;
  for (int n = 2; model_.initial.contains(name) ||
                  std::ranges::any_of(model_.forward.values,
                                      [&](const Value& value) { return value.name == name; });
       ++n) {
    name = fmt::format("{}.{}", wanted, n);
  }
  return name;
}

ValueId Importer::parameter(const Operand& x, FileTensor tensor, bool trained, DType kept) {
  for (const Dim dim : x.shape) {
    if (dim.size <= 0) {
      throw Unsupported{fmt::format("tensor '{}' has no elements", x.name)};
    }
  }
  const std::string name = parameter_name(x.name);
  const ValueId id = build_.parameter(name, {x.shape, kept}, {});
  model_.forward.values[static_cast<std::size_t>(id)].trained = trained;
  model_.initial[name] = {.tensor = std::move(tensor), .dtype = kept};
  return id;
}

ValueId Importer::constant(const Operand& x) {
  const Known& known = *x.known;
  if (known.elements() == 0 || known.mentions_batch()) {
    throw Unsupported{
        fmt::format("'{}' {}", x.name,
                    known.elements() == 0 ? "has no elements" : "depends on the batch size")};
  }
  const DType kept = dtype(x.element);
  if (known.is_splat() && std::isfinite(known.number(0))) {
    return broadcast(build_, scalar(build_, known.number(0), kept), x.shape);
  }
  FileTensor tensor;
  tensor.element = is_real(x.element)              ? Element::f64
                   : x.element == Element::boolean ? Element::u8
                                                   : x.element;
  tensor.dims = known.dims;
  tensor.bytes = encode(known, dtype_of(tensor.element, DType::f64));
  return parameter(x, std::move(tensor), false, kept);
}

ValueId Importer::plain(Operand& x) {
  if (x.plain >= 0) {
    return x.plain;
  }
  if (x.swapped >= 0) {
    x.plain = transpose(build_, x.swapped, {1, 0});
  } else if (x.channels_last >= 0) {
    x.plain = transpose(build_, x.channels_last, from_channels_last(x.rank()));
  } else if (x.initializer != nullptr) {
    x.plain = parameter(x, *x.initializer, is_real(x.element), dtype(x.element));
  } else {
    WEFT_CHECK(x.known != nullptr);
    x.plain = constant(x);
  }
  return x.plain;
}

ValueId Importer::channels_last(Operand& x) {
  if (x.channels_last < 0) {
    if (x.rank() < 3) {
      throw Unsupported{fmt::format("'{}' has no spatial dims", x.name)};
    }
    x.channels_last = transpose(build_, plain(x), to_channels_last(x.rank()));
  }
  return x.channels_last;
}

ValueId Importer::statistic(Operand& x) {
  if (x.plain < 0 && x.initializer != nullptr) {
    x.plain = parameter(x, *x.initializer, false, ops::sum_dtype(dtype(x.element)));
  }
  const ValueId id = plain(x);
  Value& value = model_.forward.values[static_cast<std::size_t>(id)];
  if (value.kind == ValueKind::parameter) {
    value.trained = false;
  }
  return id;
}

ValueId Importer::sample_share() {
  if (options_.for_training && sample_share_ < 0) {
    sample_share_ = build_.input("sample_share", {{}, ops::sum_dtype(options_.dtype)});
  }
  return sample_share_;
}

ValueId Importer::inv_count() {
  return build_.input("inv_count", {{}, ops::sum_dtype(options_.dtype)});
}

// ---- the end

std::vector<std::string> Importer::output_names() const {
  std::vector<std::string> names;
  for (const FileValue& output : file_.graph.outputs) {
    names.push_back(output.name);
  }
  return names;
}

// Outputs are asked for their values as inputs of nodes are, so this may be refused as a node may.
void Importer::end() {
  try {
    if (options_.loss.empty()) {
      collect_outputs();
    } else {
      build_.set_scope("loss");
      append_loss(*this, options_.loss);
    }
  } catch (const Unsupported& unsupported) {
    throw Error(
        Blame::input,
        fmt::format("{}: {}", options_.loss.empty() ? "the outputs" : "--loss " + options_.loss,
                    unsupported.reason));
  }
}

void Importer::collect_outputs() {
  for (const FileValue& output : file_.graph.outputs) {
    Operand* operand = find(output.name);
    require(operand != nullptr, "nothing gives output '{}'", output.name);
    OnnxOutput result{.name = output.name, .value = -1, .element = operand->element, .known = {}};
    if (operand->known != nullptr) {
      result.known = *operand->known;
    } else {
      result.value = plain(*operand);
    }
    model_.outputs.push_back(std::move(result));
  }
}

}  // namespace weft::onnx_import
