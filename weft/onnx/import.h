#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/onnx/known.h"
#include "weft/ops/op.h"

namespace weft {

struct OnnxOptions {
  DType dtype = DType::f32;   // what ONNX's float becomes
  std::int64_t sequence = 0;  // the length of every dim that has a name and is not the batch
  /// Inputs are named and laid out as the runtime fills them: x (images with channels last),
  /// tokens. Otherwise they keep names and layouts.
  bool for_training = true;
  /// Inputs that are constants, by name.
  std::map<std::string, onnx_import::Known> constants = {};
  /// Sizes of inputs, by name; of others the file's own, with the first dim of each as the batch.
  std::map<std::string, Ints> sizes = {};
  /// "cross-entropy:logits": a loss and the output it applies to; empty: no loss.
  std::string loss = {};
};

/// How a parameter begins.
struct OnnxInitial {
  onnx_import::FileTensor tensor = {};
  DType dtype = DType::f32;  // of the parameter
};

struct OnnxOutput {
  std::string name = {};
  ValueId value = -1;  // -1: it is `known`
  onnx_import::Element element = onnx_import::Element::undefined;
  onnx_import::Known known = {};
};

struct OnnxModel {
  Graph forward = {};
  std::vector<OnnxOutput> outputs = {};             // of the file, in order
  std::map<std::string, OnnxInitial> initial = {};  // by parameter
  std::int64_t classes = 0;                         // of a cross entropy
  std::int64_t sequence = 0;                        // tokens of a sample; 0: none
  std::int64_t vocabulary = 0;
};

/// What of a file cannot be imported.
struct OnnxRefusal {
  std::map<std::string, std::vector<std::string>> nodes = {};  // op and reason -> names of nodes
  std::set<std::string> must_be_constant = {};  // graph inputs that stand where a constant must be
  [[nodiscard]] bool empty() const { return nodes.empty(); }
  /// "unsupported: Loop (2 nodes: a, b); …"
  [[nodiscard]] std::string text() const;
};

/// The graph of a file; if something in it cannot be imported, all of that in `refusal`, and the
/// model is of no use. Throws Error{input} for files that contradict themselves or the options.
[[nodiscard]] OnnxModel import_onnx(const onnx_import::ModelFile& file, const OnnxOptions& options,
                                    const OpTable& ops, OnnxRefusal& refusal);

/// Bytes of a parameter in the dtype that the graph gives it.
[[nodiscard]] std::string initial_bytes(const OnnxInitial& initial);

}  // namespace weft
