#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/ops/op.h"
#include "weft/store/dataset.h"
#include "weft/store/stored_part.h"

namespace weft {

struct OnnxInitial;

/// What a user named as MODEL, made definite: the same description always builds the same graph.
struct Model {
  std::string description = {};  // "gpt:layers=12,hidden=768,…", every key in a fixed order, or
                                 // "file:PATH@HASH"
  Graph forward = {};            // with the batch symbol
  DType dtype = DType::f32;      // what it computes in
  std::int64_t sequence = 0;     // tokens of a sample; 0: none
  std::int64_t vocabulary = 0;   // ids and labels are below this
  /// Of models of tokens: what they learn. Inputs "x" and "decoder_tokens" say it by themselves.
  SampleKind samples = SampleKind::next_token;
  /// Parameters that begin as a file says, and not by their Init; null if none do.
  std::shared_ptr<const std::map<std::string, OnnxInitial>> initial = {};
  std::vector<StoredPart> stored = {};  // where its parameters lie in files of weights
  /// i64 scalars of those files that say how many steps made them (num_batches_tracked of a batch
  /// norm). Written, not read: nothing depends on them.
  std::vector<std::string> stored_counts = {};
};

/// Tokens of a sample: the length of the input "tokens"; 0 if there is none.
[[nodiscard]] std::int64_t sequence_of(const Graph& forward);
/// The largest vocabulary that the graph can work with: that of the embeddings of its inputs and
/// the classes of its cross entropies; 0 if it has neither.
[[nodiscard]] std::int64_t vocabulary_of(const Graph& forward);

struct ModelOptions {
  std::int64_t sequence = 0;  // 0: the model's own
  DType dtype = DType::f32;
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
  double label_smoothing = 0;            // of the cross entropy
  std::string loss = {};                 // of an ONNX file: "cross-entropy:logits"
};

/// MODEL of the command line: a built-in name, a family with sizes, a HF folder or config.json, an
/// .onnx file, a model file (model_file.h).
/// Throws Error{input} that names what is not understood and what would be.
[[nodiscard]] Model load_model(const std::string& text, const ModelOptions& options,
                               const OpTable& ops);

struct BuiltinModel {
  std::string_view name;
  std::string_view description;
};
[[nodiscard]] std::span<const BuiltinModel> builtin_models();
/// The families with their keys and defaults, one line each.
[[nodiscard]] std::vector<std::string> family_help();

}  // namespace weft
