// Plans: what is read is written as text that reads the same, and is judged against a model.
#include <nlohmann/json.hpp>

#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/frontend/model.h"
#include "weft/plan/plan.h"

namespace weft::fuzz {

void plan(std::string_view bytes) {
  static const Model model =
      load_model("gpt:layers=2,hidden=8,heads=2,vocab=16,seq=4", {}, builtin_ops());
  const Plan read = plan_from_json(parse_json(bytes, "plan.json"), "plan.json");
  WEFT_CHECK(plan_from_json(parse_json(format_plan(read), "written"), "written") == read);
  if (!violations(read, model.forward).empty()) {
    return;
  }
  for (const StagePlan& stage : read.stages) {
    for (const Node& node : model.forward.nodes) {
      if (const NodeRule* rule = rule_for(stage, node.name)) {
        static_cast<void>(splits_for(*rule, stage.mesh));
      }
    }
  }
}

}  // namespace weft::fuzz
