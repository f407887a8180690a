#include <fmt/format.h>

#include <charconv>

#include "weft/base/error.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

constexpr std::string_view kKeys = "dp, tp, pp, zero, recompute, micro-batches, schedule";

int parse_degree(std::string_view key, std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  require(
      error == std::errc() && end == text.data() + text.size() && number >= (key == "zero" ? 0 : 1),
      "recipe: {}={} is not a number of 1 or more", key, text);
  return number;
}

void set(Recipe& recipe, std::string_view key, std::string_view value) {
  if (key == "dp" || key == "tp" || key == "pp" || key == "micro-batches") {
    int& field = key == "dp"   ? recipe.dp
                 : key == "tp" ? recipe.tp
                 : key == "pp" ? recipe.pp
                               : recipe.micro_batches;
    field = parse_degree(key, value);
  } else if (key == "zero") {
    recipe.zero = parse_degree(key, value);
    require(recipe.zero != 2, "recipe: zero=2 comes later; use zero=1 or zero=3");
    require(recipe.zero <= 3, "recipe: zero={} is unknown; use 0, 1 or 3", value);
  } else if (key == "recompute") {
    require(value == "block" || value == "none",
            "recipe: recompute={} is unknown; use block or none", value);
    recipe.recompute = value == "block";
  } else if (key == "schedule") {
    require(value == "gpipe" || value == "1f1b",
            "recipe: schedule={} is unknown; use gpipe or 1f1b", value);
    recipe.schedule = value;
  } else {
    require(false, "recipe: unknown key '{}'; the keys are {}", key, kKeys);
  }
}

}  // namespace

Recipe parse_recipe(const std::string& text) {
  Recipe recipe;
  std::string seen = ",";
  std::string_view rest = text;
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t equals = part.find('=');
    require(equals != std::string_view::npos,
            "recipe: '{}' is not of the form key=value; the keys are {}", part, kKeys);
    const std::string key(part.substr(0, equals));
    require(seen.find("," + key + ",") == std::string::npos, "recipe: '{}' is given twice", key);
    seen += key + ",";
    set(recipe, key, part.substr(equals + 1));
    if (comma == std::string_view::npos) {
      return recipe;
    }
    rest.remove_prefix(comma + 1);
  }
}

// Only what differs from one device, in the order of the fields; the schedule wherever there is
// one.
std::string format_recipe(const Recipe& recipe) {
  std::string text;
  const auto add = [&](bool shown, std::string_view key, const std::string& value) {
    if (shown) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
    }
  };
  add(recipe.dp > 1, "dp", std::to_string(recipe.dp));
  add(recipe.tp > 1, "tp", std::to_string(recipe.tp));
  add(recipe.pp > 1, "pp", std::to_string(recipe.pp));
  add(recipe.zero > 0, "zero", std::to_string(recipe.zero));
  add(recipe.recompute, "recompute", "block");
  add(recipe.micro_batches > 1, "micro-batches", std::to_string(recipe.micro_batches));
  add(recipe.pp > 1 || recipe.schedule != "1f1b", "schedule", recipe.schedule);
  return text.empty() ? "dp=1" : text;
}

std::string recipe_name(const Recipe& recipe) {
  const bool dp = recipe.dp > 1;
  const bool tp = recipe.tp > 1;
  const bool pp = recipe.pp > 1;
  if (dp && !tp && !pp) {
    return recipe.zero == 0 ? "DP" : fmt::format("ZeRO-{}", recipe.zero);
  }
  if (pp && !dp && !tp) {
    return recipe.schedule == "gpipe" ? "GPipe" : "1F1B";
  }
  std::string name;
  for (const auto& [used, part] : {std::pair(dp, "DP"), {tp, "TP"}, {pp, "PP"}}) {
    if (used) {
      name += name.empty() ? part : fmt::format("+{}", part);
    }
  }
  return name.empty() ? "single" : name;
}

}  // namespace weft
