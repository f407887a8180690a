// ONNX files: the graph as the file has it, its constants, and the same graph with a loss, to be
// trained.
#include "fuzz.h"
#include "weft/onnx/import.h"

namespace weft::fuzz {

void onnx(std::string_view bytes) {
  static const OpTable ops = builtin_ops();
  const onnx_import::ModelFile file = onnx_import::parse_model(bytes, "", "model.onnx");
  OnnxRefusal refusal;
  const OnnxModel model = import_onnx(file, {.sequence = 8, .for_training = false}, ops, refusal);
  for (const auto& [name, initial] : model.initial) {
    static_cast<void>(initial_bytes(initial));
  }
  if (refusal.empty() && !model.outputs.empty()) {
    const std::string loss = "cross-entropy:" + model.outputs.front().name;
    static_cast<void>(import_onnx(file, {.loss = loss}, ops, refusal));
  }
  static_cast<void>(refusal.text());
}

}  // namespace weft::fuzz
