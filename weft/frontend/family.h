#pragma once

#include <string_view>
#include <vector>

#include "weft/frontend/model.h"
#include "weft/frontend/settings.h"

namespace weft {

/// Models that differ in sizes only.
struct Family {
  std::string_view name;
  std::vector<Key> keys;
  Model (*build)(const Settings&, const ModelOptions&, const OpTable&) = nullptr;
};

[[nodiscard]] Family gpt_family();
[[nodiscard]] Family mlp_family();
[[nodiscard]] std::vector<Family> families();

/// The dtype of sums over a model's numbers: losses, counts.
[[nodiscard]] DType loss_dtype(DType dtype);

}  // namespace weft
