#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "weft/base/error.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

constexpr std::string_view kKeys =
    "dp, tp, pp, ep, cp, sp, attention, zero, recompute, micro-batches, schedule, chunks";

// Keys with a number, and the range of it.
struct NumberKey {
  std::string_view key;
  int Recipe::*field;
  int least = 1;
  int most = 1 << 24;
};
constexpr NumberKey kNumbers[] = {
    {"dp", &Recipe::dp},           {"tp", &Recipe::tp},
    {"pp", &Recipe::pp},           {"ep", &Recipe::ep},
    {"cp", &Recipe::cp},           {"sp", &Recipe::sp, 0, 1},
    {"zero", &Recipe::zero, 0, 3}, {"micro-batches", &Recipe::micro_batches},
    {"chunks", &Recipe::chunks},
};

// Keys with a word.
struct WordKey {
  std::string_view key;
  std::string Recipe::*field;
  std::vector<std::string_view> words;
};

const std::vector<WordKey>& word_keys() {
  static const std::vector<WordKey> keys = {
      {"attention", &Recipe::attention, {"gather", "ring", "ulysses"}},
      {"recompute", &Recipe::recompute, {"none", "ops", "block"}},
      {"schedule", &Recipe::schedule, {"gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved", "zb-v"}}};
  return keys;
}

void set(Recipe& recipe, std::string_view key, std::string_view value) {
  const auto* const number = std::ranges::find(kNumbers, key, &NumberKey::key);
  if (number != std::end(kNumbers)) {
    int& field = recipe.*number->field;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), field);
    require(error == std::errc() && end == value.data() + value.size() && field >= number->least &&
                field <= number->most,
            "recipe: {}={} is not a number from {} to {}", key, value, number->least, number->most);
    return;
  }
  const auto word = std::ranges::find(word_keys(), key, &WordKey::key);
  require(word != word_keys().end(), "recipe: unknown key '{}'; the keys are {}", key, kKeys);
  require(std::ranges::find(word->words, value) != word->words.end(),
          "recipe: {}={} is unknown; use {}", key, value, fmt::join(word->words, ", "));
  recipe.*word->field = value;
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
      const bool chosen = seen.find(",schedule,") != std::string::npos;
      if (recipe.chunks > 1 && !chosen) {
        recipe.schedule = "interleaved";
      }
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
  for (const NumberKey& number : kNumbers) {
    if (number.key != "micro-batches" && number.key != "chunks") {
      const int value = recipe.*number.field;
      add(value != Recipe{}.*number.field, number.key, std::to_string(value));
    }
  }
  add(recipe.attention != "gather", "attention", recipe.attention);
  add(recipe.recompute != "none", "recompute", recipe.recompute);
  add(recipe.micro_batches > 1, "micro-batches", std::to_string(recipe.micro_batches));
  add(recipe.pp > 1 || recipe.schedule != "1f1b", "schedule", recipe.schedule);
  add(recipe.chunks > 1, "chunks", std::to_string(recipe.chunks));
  return text.empty() ? "dp=1" : text;
}

std::string recipe_name(const Recipe& recipe) {
  const bool dp = recipe.dp > 1;
  const bool cp = recipe.cp > 1;
  const bool tp = recipe.tp > 1;
  const bool pp = recipe.pp > 1;
  if (dp && !tp && !pp && !cp && recipe.ep == 1) {
    return recipe.zero == 0 ? "DP" : fmt::format("ZeRO-{}", recipe.zero);
  }
  if (pp && !dp && !tp && !cp) {
    static const std::map<std::string, std::string> names = {
        {"gpipe", "GPipe"}, {"1f1b", "1F1B"},   {"interleaved", "interleaved 1F1B"},
        {"zb-h1", "ZB-H1"}, {"zb-h2", "ZB-H2"}, {"zb-v", "ZB-V"}};
    return names.at(recipe.schedule);
  }
  std::string name;
  const std::string context = recipe.attention == "ulysses" ? "Ulysses"
                              : recipe.attention == "ring"  ? "Ring"
                                                            : "CP";
  const std::string tensor = recipe.sp != 0 ? "TP-SP" : "TP";
  for (const auto& [used, part] : {std::pair<bool, std::string>(dp, "DP"),
                                   {recipe.ep > 1, "EP"},
                                   {cp, context},
                                   {tp, tensor},
                                   {pp, "PP"}}) {
    if (used) {
      name += name.empty() ? part : fmt::format("+{}", part);
    }
  }
  return name.empty() ? "single" : name;
}

}  // namespace weft
