#include "weft/onnx/import.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/onnx/importer.h"
#include "weft/onnx/prune.h"

namespace weft {

std::string OnnxRefusal::text() const {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> parts;
  for (const auto& [what, names] : nodes) {
    std::vector<std::string> shown(
        names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size())));
    if (names.size() > kShown) {
      shown.emplace_back("…");
    }
    parts.push_back(fmt::format("{} ({} {}: {})", what, names.size(),
                                names.size() == 1 ? "node" : "nodes", fmt::join(shown, ", ")));
  }
  return fmt::format("unsupported: {}", fmt::join(parts, "; "));
}

OnnxModel import_onnx(const onnx_import::ModelFile& file, const OnnxOptions& options,
                      const OpTable& ops, OnnxRefusal& refusal) {
  OnnxModel model;
  onnx_import::Importer(file, options, ops, model, refusal).run();
  if (refusal.empty() && model.forward.loss >= 0) {
    onnx_import::prune(model);
  }
  return model;
}

std::string initial_bytes(const OnnxInitial& initial) {
  const bool same = onnx_import::has_dtype(initial.tensor.element) &&
                    onnx_import::dtype_of(initial.tensor.element, DType::f32) == initial.dtype;
  return same ? onnx_import::tensor_bytes(initial.tensor)
              : onnx_import::encode(onnx_import::decode(initial.tensor), initial.dtype);
}

}  // namespace weft
