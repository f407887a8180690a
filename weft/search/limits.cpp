#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "weft/base/error.h"
#include "weft/search/configurations.h"
#include "weft/search/pinned.h"
#include "weft/search/search.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 9> kForbiddable = {
    "dp", "tp", "pp", "zero1", "zero2", "zero3", "recompute", "gradients", "unequal"};

std::vector<std::string> parts(const std::string& text) {
  std::vector<std::string> result;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    result.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  return result;
}

}  // namespace

void fix_limits(const std::string& text, PlanLimits& limits) {
  const Recipe fixed = parse_recipe(text);
  for (const std::string& part : parts(text)) {
    const std::string key = part.substr(0, part.find('='));
    if (key == "dp") {
      limits.dp = fixed.dp;
    } else if (key == "tp") {
      limits.tp = fixed.tp;
    } else if (key == "pp") {
      limits.pp = fixed.pp;
    } else if (key == "zero") {
      limits.zero = fixed.zero;
    } else if (key == "recompute") {
      require(fixed.recompute != "ops", "--fix recompute=ops: only none and block can be fixed");
      limits.recompute = fixed.recompute;
    } else if (key == "micro-batches") {
      limits.micro_batches = fixed.micro_batches;
    } else if (key == "schedule") {
      limits.schedule = fixed.schedule;
    } else {
      throw Error(Blame::input,
                  fmt::format("--fix {}: only dp, tp, pp, zero, recompute, micro-batches and "
                              "schedule can be fixed; --recipe builds exactly one plan",
                              part));
    }
  }
}

void forbid_limits(const std::string& text, PlanLimits& limits) {
  for (const std::string& part : parts(text)) {
    const bool known = std::ranges::find(kForbiddable, part) != kForbiddable.end() ||
                       std::ranges::find(schedule_names(), part) != schedule_names().end();
    require(known, "--forbid {}: there is {}, and the schedules {}", part,
            fmt::join(kForbiddable, ", "), fmt::join(schedule_names(), ", "));
    limits.forbidden.push_back(part);
  }
}

void check_pins(const PlanLimits& limits, const Graph& training, const OpTable& ops) {
  std::vector<std::string> wrong = violations(limits.pins, training, ops);
  for (const LayerPin& pin : limits.pins) {
    for (const Axis& axis : pin.axes) {
      const int wanted = axis.name == "dp" ? limits.dp : axis.name == "tp" ? limits.tp : 0;
      if ((wanted > 0 && wanted != axis.size) ||
          (axis.size > 1 && is_forbidden(limits, axis.name))) {
        wrong.push_back(fmt::format("axis {}={} is pinned, but --fix or --forbid wants another",
                                    axis.name, axis.size));
      }
    }
    for (const WeightRule& rule : pin.weights.value_or(std::vector<WeightRule>())) {
      for (const auto& [axis, mode] : rule.modes) {
        if (is_forbidden(limits, weight_mode_name(mode)) ||
            (limits.zero >= 0 && static_cast<int>(mode) != limits.zero)) {
          wrong.push_back(
              fmt::format("{} is pinned for parameters '{}', but --fix or --forbid wants another",
                          weight_mode_name(mode), rule.parameters));
        }
      }
    }
    if (pin.recompute && !pin.recompute->empty() &&
        (limits.recompute == "none" || is_forbidden(limits, "recompute"))) {
      wrong.push_back(
          fmt::format("'{}' is pinned to be computed again, which --fix or --forbid "
                      "rules out",
                      pin.recompute->front()));
    }
  }
  require(wrong.empty(), "--pin: {}", fmt::join(wrong, "\n--pin: "));
}

bool is_allowed(const Recipe& recipe, const PlanLimits& limits) {
  const auto fits = [](int wanted, int degree) { return wanted == 0 || wanted == degree; };
  if (!fits(limits.dp, recipe.dp) || !fits(limits.tp, recipe.tp) || !fits(limits.pp, recipe.pp) ||
      !fits(limits.micro_batches, recipe.micro_batches) ||
      (limits.most_micro_batches > 0 && recipe.micro_batches > limits.most_micro_batches) ||
      (limits.zero >= 0 && recipe.zero != limits.zero) ||
      (!limits.recompute.empty() && recipe.recompute != limits.recompute) ||
      (!limits.schedule.empty() && recipe.pp > 1 && recipe.schedule != limits.schedule)) {
    return false;
  }
  const bool zero = recipe.zero > 0 && is_forbidden(limits, fmt::format("zero{}", recipe.zero));
  return !zero && !(recipe.dp > 1 && is_forbidden(limits, "dp")) &&
         !(recipe.tp > 1 && is_forbidden(limits, "tp")) &&
         !(recipe.pp > 1 && is_forbidden(limits, "pp")) &&
         !(recipe.recompute != "none" && is_forbidden(limits, "recompute")) &&
         !(recipe.pp > 1 && is_forbidden(limits, recipe.schedule));
}

}  // namespace weft
