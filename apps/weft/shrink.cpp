#include "shrink.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include "setup.h"
#include "weft/api/workers.h"
#include "weft/base/error.h"
#include "weft/base/hash.h"
#include "weft/base/units.h"
#include "weft/frontend/model_file.h"
#include "weft/graph/text.h"

namespace weft {
namespace {

constexpr std::size_t kMostProcesses = 64;
constexpr double kMostFlops = 2e11;  // of a step on one device: some ten seconds here

double machine_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// "gpt:layers=2,hidden=64" with other values for some keys.
std::string with_values(const std::string& description,
                        const std::map<std::string, std::string>& values) {
  const std::size_t colon = description.find(':');
  std::vector<std::string> pairs;
  std::istringstream words(description.substr(colon + 1));
  for (std::string pair; std::getline(words, pair, ',');) {
    const std::string key = pair.substr(0, pair.find('='));
    const auto it = values.find(key);
    pairs.push_back(it == values.end() ? pair : key + "=" + it->second);
  }
  std::string text = description.substr(0, colon);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    text += (i == 0 ? ":" : ",") + pairs[i];
  }
  return text;
}

std::int64_t value_of(const std::string& description, const std::string& key) {
  const std::size_t at = description.find(key + "=");
  require(at != std::string::npos, "verify: the model '{}' has no {} to make smaller", description,
          key);
  return std::stoll(description.substr(at + key.size() + 1));
}

bool too_large(const Plan& plan, const Setup& setup) {
  double peak = 0;
  const Choice choice = evaluate_plan(setup, plan);
  for (const std::int64_t bytes : choice.candidate.peak_memory_bytes) {
    peak += static_cast<double>(bytes);
  }
  double flops = 0;
  for (const Node& node : setup.training.nodes) {
    OpCall call = call_of(setup.training, node);
    for (TensorTypes* types : {&call.inputs, &call.outputs}) {
      for (TensorType& type : *types) {
        type = bind(type, plan.batch);
      }
    }
    flops += find_op(setup.ops, node.op).cost(call).flops;
  }
  return peak > 0.6 * machine_bytes() || flops > kMostFlops;
}

void use_model(Plan& plan, const std::string& description, std::int64_t sequence) {
  const OpTable ops = builtin_ops();
  const Model model = load_model(description,
                                 {.sequence = sequence,
                                  .dtype = plan.dtype,
                                  .freeze = plan.model.freeze,
                                  .label_smoothing = plan.model.label_smoothing},
                                 ops);
  plan.model.description = model.description;
  plan.model.hash = hash_hex(hash_text(format_graph(model.forward)));
  plan.sequence = model.sequence;
}

// Every micro-batch keeps one sample for each device that splits the batch.
void cut_batch(Plan& plan) {
  int widest = 1;
  for (const StagePlan& stage : plan.stages) {
    for (const Axis& axis : stage.mesh.axes) {
      widest = std::max(widest, axis.size);
    }
  }
  plan.batch = 0;
  if (plan.schedule != "listed") {
    plan.micro_batches.resize(
        std::min<std::size_t>(plan.micro_batches.size(), 2 * plan.stages.size()));
  }
  for (std::int64_t& samples : plan.micro_batches) {
    samples = std::min<std::int64_t>(samples, widest);
    plan.batch += samples;
  }
}

}  // namespace

Shrunk shrink_to_machine(const Plan& given) {
  Shrunk result{.plan = given, .note = {}};
  Plan& plan = result.plan;
  const std::size_t processes = used_devices(plan).size();
  require(processes <= kMostProcesses,
          "verify: the plan uses {} devices, this machine can play at most {}; plan for fewer",
          processes, kMostProcesses);
  if (plan.dtype == DType::bf16) {
    plan.dtype = DType::f32;
    result.note = "computed in f32 instead of bf16. ";
    use_model(plan, plan.model.description, plan.sequence);
  }
  const auto share = static_cast<std::int64_t>(machine_bytes() / static_cast<double>(processes));
  if (plan.cluster.emulation == Emulation::none) {
    plan.memory_budget_bytes.assign(plan.cluster.devices.size(), share);
  }
  if (!too_large(plan, setup_of(plan))) {
    return result;
  }
  const std::string& model = plan.model.description;
  require(!names_model_file(model),
          "verify: {} is too large for this machine, and a model file cannot be made smaller",
          model);
  std::map<std::string, std::string> smaller;
  if (model.starts_with("gpt:")) {
    const std::int64_t hidden = value_of(model, "heads") * 4;
    smaller = {{"hidden", fmt::format("{}", hidden)},
               {"ffn", fmt::format("{}", 4 * hidden)},
               {"vocab", "256"},
               {"seq", "32"}};
  } else {
    smaller = {{"hidden", "64"}};
  }
  use_model(plan, with_values(model, smaller), 0);
  cut_batch(plan);
  result.note += fmt::format("the model was made smaller to run here: {}, batch {}. ",
                             plan.model.description, plan.batch);
  return result;
}

}  // namespace weft
