// Pins: what is read is judged against a model, and pins without mistakes say something of every
// layer or nothing.
#include "weft/plan/pins.h"

#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/autodiff/differentiate.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/model.h"
#include "weft/search/pinned.h"

namespace weft::fuzz {

void pins(std::string_view bytes) {
  static const OpTable ops = builtin_ops();
  static const Graph training = training_graph(
      load_model("gpt:layers=2,hidden=8,heads=2,vocab=16,seq=4", {}, ops).forward, {}, ops);
  const Pins read = pins_from_json(parse_json(bytes, "pins.json"), "pins.json");
  if (!violations(read, training, ops).empty()) {
    return;
  }
  static_cast<void>(pinned_layers(read, training));
  const Mesh mesh{.devices = {0, 1, 2, 3}, .axes = {{"dp", 2}, {"tp", 2}}};
  static_cast<void>(why_not_on(mesh, read, training, ops));
}

}  // namespace weft::fuzz
