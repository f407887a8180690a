#pragma once

#include <string>
#include <vector>

#include "weft/frontend/model.h"
#include "weft/runtime/executor.h"

namespace weft {

/// Fills parameters, and states that begin as copies of them, from files of weights; reads only
/// what these parts hold. Throws Error{input} that names every tensor which does not fit.
void load_weights(const std::string& path, const Model& model, const Graph& graph,
                  const std::vector<LocalTensor>& parts);

/// What all ranks wrote (write_parts).
struct WrittenParts {
  std::string folder = {};
  int ranks = 1;
  std::string suffix = {};  // behind the parameters' names; ".grad": gradients
  std::int64_t steps = 0;   // that made them
};

/// Writes weights as Hugging Face names them into `folder`. Tensors of which a part is not there (a
/// frozen parameter's gradient) are left out. Beside weights, not gradients, lie the model's
/// counts.
void export_weights(const WrittenParts& from, const Model& model, const std::string& folder);

/// Writes the rows of a batch that are here, a tensor for each input of the model.
void write_inputs(const std::string& folder, const Model& model, const SampleBatch& batch);

}  // namespace weft
