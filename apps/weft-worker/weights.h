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

/// Writes weights as Hugging Face names them into `folder`, from the parts that all ranks wrote
/// into `shards` (write_parts) under the parameters' names with `suffix` behind (".grad":
/// gradients). Tensors of which a part is not there (a frozen parameter's gradient) are left out.
void export_weights(const std::string& shards, int ranks, const Model& model,
                    const std::string& suffix, const std::string& folder);

/// Writes the rows of a batch that are here, a tensor for each input of the model.
void write_inputs(const std::string& folder, const Model& model, const SampleBatch& batch);

}  // namespace weft
