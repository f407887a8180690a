// Layer profiles; small ones are also planned, and their bound must hold.
#include <cmath>
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/search/plan_layer_profile.h"

namespace weft::fuzz {

void layer_profile(std::string_view bytes) {
  constexpr std::size_t few_layers = 6;
  const nlohmann::json file = parse_json(bytes, "profile.json");
  static_cast<void>(is_layer_profile(file));
  ChainTask task{.profile = layer_profile_from_json(file, "profile.json"),
                 .cluster = parse_cluster("1x2xV100-16GB+1x1xT4"),
                 .batch = 5,
                 .memory_budget_bytes = {1'000'000'000, 1'000'000'000, 500'000'000}};
  if (task.profile.layers.size() > few_layers) {
    return;
  }
  const ProfileSearch found = plan_layer_profile(task);
  WEFT_CHECK(found.best || found.leanest);
  if (found.best) {
    WEFT_CHECK(std::isfinite(found.best->step_s) && found.best->step_s > 0);
    WEFT_CHECK(found.bound_s > 0 && found.bound_s <= found.best->step_s);
  }
}

}  // namespace weft::fuzz
