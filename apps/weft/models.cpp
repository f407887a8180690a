#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "weft/base/units.h"
#include "weft/frontend/model.h"
#include "weft/report/table.h"

namespace weft {
namespace {

int list_models(bool json) {
  const OpTable ops = builtin_ops();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  Table table{.header = {"name", "parameters", "description"}, .right = {1}};
  for (const BuiltinModel& builtin : builtin_models()) {
    const Model model = load_model(std::string(builtin.name), {}, ops);
    const std::int64_t parameters = parameter_count(model.forward);
    list.push_back(
        {{"name", builtin.name}, {"parameters", parameters}, {"description", model.description}});
    table.rows.push_back({std::string(builtin.name), format_count(static_cast<double>(parameters)),
                          std::string(builtin.description)});
  }
  if (json) {
    fmt::print("{}\n", list.dump(2));
    return kDone;
  }
  fmt::print("{}\nA family with its sizes (keys left out take these defaults):\n",
             format_table(table));
  for (const std::string& family : family_help()) {
    fmt::print("  {}\n", family);
  }
  fmt::print("Or a Hugging Face folder or config.json (GPT-2).\n");
  return kDone;
}

}  // namespace

void add_models(CLI::App& app, Command& run) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("models", "the built-in models");
  command->add_flag("--json", *json, "as JSON");
  command->callback([&run, json] { run = [json] { return list_models(*json); }; });
}

}  // namespace weft
