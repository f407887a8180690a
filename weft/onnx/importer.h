#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "weft/onnx/import.h"
#include "weft/ops/builder.h"

namespace weft::onnx_import {

/// Why a node cannot be imported. Never leaves this module.
struct Unsupported {
  std::string reason;
};

/// A value of the ONNX graph: known numbers, a tensor of the file, or a value of our graph, in
/// ONNX's order of dims or with channels last ([b,c,h,w] as [b,h,w,c]). What is there is made into
/// what is asked for, once.
struct Operand {
  std::string name = {};
  Element element = Element::undefined;
  Shape shape = {};  // in ONNX's order
  std::shared_ptr<const Known> known = {};
  const FileTensor* initializer = nullptr;
  bool is_input = false;
  ValueId plain = -1;
  ValueId channels_last = -1;
  ValueId swapped = -1;                // a matrix of which this is the transposed one
  std::optional<bool> is_number = {};  // all elements are one finite number; known once asked for

  [[nodiscard]] int rank() const { return static_cast<int>(shape.size()); }
  /// Its numbers are or can be known, and it is no weight that is trained: may be folded.
  [[nodiscard]] bool is_constant() const;
};

/// Walks the nodes of a file in order and appends what they mean to a graph of ours.
class Importer {
 public:
  Importer(const ModelFile& file, const OnnxOptions& options, const OpTable& ops, OnnxModel& model,
           OnnxRefusal& refusal);
  void run();

  [[nodiscard]] Builder& build() { return build_; }
  [[nodiscard]] std::int64_t opset() const { return file_.opset; }
  [[nodiscard]] DType dtype(Element element) const { return dtype_of(element, options_.dtype); }
  [[nodiscard]] OnnxModel& model() { return model_; }
  [[nodiscard]] std::vector<std::string> output_names() const;

  /// Null if no node gives it, or none that could be imported.
  [[nodiscard]] Operand* find(const std::string& name);
  void define(Operand operand);
  /// The nodes of a branch of If whose condition is known, in place of the If.
  void run_nodes(const FileGraph& graph);

  [[nodiscard]] ValueId plain(Operand& x);
  [[nodiscard]] ValueId channels_last(Operand& x);
  /// A parameter that is not trained, in the dtype of sums.
  [[nodiscard]] ValueId statistic(Operand& x);
  /// Numbers; decodes a tensor of the file. Null if they are not known.
  [[nodiscard]] const Known* numbers(Operand& x);
  /// The share of a micro-batch in the samples of the step, an input of graphs for training; -1 in
  /// others.
  [[nodiscard]] ValueId sample_share();
  /// 1 over the number of labels of the step.
  [[nodiscard]] ValueId inv_count();
  void note_needed_constant(const Operand& x);

  // Throw Error{input} where a small file asks for absurdly much: elements of constants in all,
  // elements that were read to compute them, nodes of the graph.
  void count_folded(std::int64_t elements);
  void count_read(std::int64_t elements);
  void require_room() const;

 private:
  void define_initializers(const FileGraph& graph);
  void define_inputs();
  void define_input(const FileValue& input);
  [[nodiscard]] bool refuse_input(const FileValue& input, const Shape& shape);
  void fill_from_data(Operand& input);
  [[nodiscard]] Shape input_shape(const FileValue& input) const;
  void run_node(const FileNode& node);
  void refuse(const FileNode& node, const std::string& reason);
  void enter_layer(const FileNode& node);
  void end();
  void collect_outputs();
  [[nodiscard]] std::string parameter_name(const std::string& wanted);
  ValueId parameter(const Operand& x, FileTensor tensor, bool trained, DType kept);
  ValueId constant(const Operand& x);

  const ModelFile& file_;
  const OnnxOptions& options_;
  OnnxModel& model_;
  OnnxRefusal& refusal_;
  Builder build_;
  std::map<std::string, Operand, std::less<>> operands_;
  std::set<std::string> refused_;  // values that nodes which cannot be imported would give
  std::map<std::string, int, std::less<>> layers_;  // -> the last number appended to it
  std::string layer_;                               // of the file's nodes
  std::string scope_layer_;                         // the same, made unique
  int depth_ = 0;                                   // of subgraphs
  ValueId sample_share_ = -1;
  std::int64_t folded_ = 0;  // elements of constants
  std::int64_t read_ = 0;    // the same, each time that one is an operand
};

}  // namespace weft::onnx_import
