#include "weft/report/figures.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/units.h"
#include "weft/plan/ranges.h"
#include "weft/report/table.h"

namespace weft {
namespace {

double tokens_in_step(const Plan& plan) {
  return static_cast<double>(plan.batch) *
         static_cast<double>(std::max<std::int64_t>(plan.sequence, 1));
}

std::string layers_text(const std::vector<std::string>& layers) {
  return layers.size() == 1
             ? layers[0]
             : fmt::format("{} … {} ({})", layers.front(), layers.back(), layers.size());
}

// The fullest device of a stage: what it needs and may use.
std::pair<std::int64_t, std::int64_t> fullest(const Candidate& c, const StagePlan& stage) {
  std::pair<std::int64_t, std::int64_t> result{0, 1};
  for (const DeviceId d : stage.mesh.devices) {
    const std::int64_t budget = c.plan.memory_budget_bytes[d];
    const std::int64_t need = c.peak_memory_bytes[d];
    if (static_cast<double>(need) * static_cast<double>(result.second) >=
        static_cast<double>(result.first) * static_cast<double>(budget)) {
      result = {need, budget};
    }
  }
  return result;
}

// The device that lacks most.
DeviceId scarcest(const Candidate& c) {
  DeviceId worst = 0;
  for (std::size_t d = 1; d < c.peak_memory_bytes.size(); ++d) {
    const auto lack = [&](std::size_t i) {
      return c.peak_memory_bytes[i] - c.plan.memory_budget_bytes[i];
    };
    if (lack(d) > lack(static_cast<std::size_t>(worst))) {
      worst = static_cast<DeviceId>(d);
    }
  }
  return worst;
}

// What the devices of an axis share, as people call it. Recipes name their axes so; of a searched
// plan it is what the nodes split there: features or heads (TP), also with the sequence elsewhere
// (SP), the sequence alone (CP), experts (EP), the batch (DP).
std::string axis_strategy(const StagePlan& stage, const Axis& axis) {
  std::string name = axis.name;
  if (name == "tp" || name == "tp2") {
    std::set<char> letters;
    bool whole = false;  // some node computes the same everywhere
    for (const NodeRule& rule : stage.nodes) {
      const auto split = rule.split.find(axis.name);
      whole |= split == rule.split.end();
      if (split != rule.split.end()) {
        letters.insert(split->second.front());
      }
    }
    const bool features = letters.contains('n') || letters.contains('k') || letters.contains('o');
    const bool tokens = letters.contains('s');
    name = features                          ? (tokens ? "tp+sp" : "tp")
           : tokens                          ? "cp"
           : letters.contains('e')           ? "ep"
           : letters.contains('b') && !whole ? "dp"
                                             : "tp";
  }
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::toupper(c); });
  return fmt::format("{} {}", name, axis.size);
}

// Shares of the bound, as the gap is one.
nlohmann::ordered_json split_json(const GapParts& parts, double bound_s) {
  return {{"memory", parts.memory_s / bound_s},
          {"communication", parts.communication_s / bound_s},
          {"bubble", parts.bubble_s / bound_s},
          {"integrality", parts.integrality_s / bound_s}};
}

nlohmann::ordered_json bounds_json(const std::vector<ClassBound>& bounds) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ClassBound& bound : bounds) {
    list.push_back({{"class", bound.plans}, {"seconds", bound.seconds}});
  }
  return list;
}

std::string gap_text(const Figures& figures) {
  const GapParts& parts = figures.gap->parts;
  const double percent = 100 / figures.bound_s;
  std::string text = fmt::format(
      ": {:.1f} % memory, {:.1f} % communication, {:.1f} % bubble, {:.1f} % integrality\n",
      percent * parts.memory_s, percent * parts.communication_s, percent * parts.bubble_s,
      percent * parts.integrality_s);
  std::vector<std::string> narrower;
  for (const ClassBound& bound : figures.gap->bounds) {
    narrower.push_back(fmt::format("{} of {}", format_seconds(bound.seconds), bound.plans));
  }
  return text +
         (narrower.empty() ? "" : fmt::format("narrower bounds: {}\n", fmt::join(narrower, "; ")));
}

std::string label(const Candidate& c) {
  return c.recipe.empty() ? c.name : c.recipe;
}

std::string lack_text(const Candidate& c) {
  const DeviceId d = scarcest(c);
  const std::int64_t need = c.peak_memory_bytes[d];
  const std::int64_t budget = c.plan.memory_budget_bytes[d];
  return fmt::format(
      "needs {} on device {}, its budget is {} ({} short). Give more memory (--memory), more "
      "devices (--cluster), a smaller --batch or --seq",
      format_bytes(static_cast<double>(need)), c.plan.cluster.devices[d].name,
      format_bytes(static_cast<double>(budget)), format_bytes(static_cast<double>(need - budget)));
}

}  // namespace

std::string strategy_name(const StagePlan& stage) {
  std::vector<std::string> degrees;
  for (const Axis& axis : stage.mesh.axes) {
    degrees.push_back(axis_strategy(stage, axis));
  }
  std::string text = degrees.empty() ? "one device" : fmt::format("{}", fmt::join(degrees, " x "));
  for (const auto& [mode, name] :
       {std::pair{WeightMode::zero1, "ZeRO-1"}, std::pair{WeightMode::zero2, "ZeRO-2"},
        std::pair{WeightMode::zero3, "ZeRO-3"}}) {
    const bool used = std::ranges::any_of(stage.weights, [mode = mode](const WeightRule& rule) {
      return std::ranges::any_of(rule.modes, [mode](const auto& m) { return m.second == mode; });
    });
    text += used ? fmt::format(", {}", name) : "";
  }
  text += stage.gradients.empty() ? "" : ", own gradients";
  if (stage.recompute.empty()) {
    return text;
  }
  const auto layers = std::ranges::count_if(stage.recompute, [&](const std::string& name) {
    return std::ranges::find(stage.layers, name) != stage.layers.end();
  });
  return layers > 0 && layers < std::ssize(stage.layers)
             ? fmt::format("{}, recompute {} layers", text, layers)
             : text + ", recompute";
}

nlohmann::ordered_json figures_json(const Candidate& c, const Figures& figures) {
  const Gap gap = figures.gap.value_or(Gap{});
  nlohmann::ordered_json stages = nlohmann::ordered_json::array();
  for (std::size_t s = 0; s < c.plan.stages.size(); ++s) {
    const StagePlan& stage = c.plan.stages[s];
    stages.push_back({{"devices", stage.mesh.devices},
                      {"nodes", stage.layers},
                      {"strategy", strategy_name(stage)},
                      {"step_share", s < c.stage_share.size() ? c.stage_share[s] : 0.0}});
  }
  return {{"name", c.name},
          {"recipe", c.recipe},
          {"fits", c.fits},
          {"step_seconds", c.step_s},
          {"samples_per_second", static_cast<double>(c.plan.batch) / c.step_s},
          {"tokens_per_second", tokens_in_step(c.plan) / c.step_s},
          {"bound_seconds", figures.bound_s},
          {"gap", c.step_s / figures.bound_s - 1},
          {"gap_split", figures.gap ? split_json(gap.parts, figures.bound_s) : nullptr},
          {"bounds", bounds_json(gap.bounds)},
          {"exact", figures.exact},
          {"search_seconds", figures.search_s},
          {"peak_memory_bytes", c.peak_memory_bytes},
          {"memory_budget_bytes", c.plan.memory_budget_bytes},
          {"micro_batches", c.plan.micro_batches.size()},
          {"schedule", c.plan.schedule},
          {"parameters", figures.parameters},
          {"stages", stages}};
}

std::string plan_text(const Candidate& c, const Figures& figures) {
  Table table{.header = {"stage", "devices", "layers", "strategy", "busy", "memory", "budget"},
              .right = {0, 4, 5, 6}};
  for (std::size_t s = 0; s < c.plan.stages.size(); ++s) {
    const StagePlan& stage = c.plan.stages[s];
    const auto [need, budget] = fullest(c, stage);
    table.rows.push_back(
        {fmt::format("{}", s), format_devices(stage.mesh.devices), layers_text(stage.layers),
         strategy_name(stage), fmt::format("{:.0f} %", 100 * c.stage_share[s]),
         format_bytes(static_cast<double>(need)), format_bytes(static_cast<double>(budget))});
  }
  const auto& sizes = c.plan.micro_batches;
  const auto [least, most] = std::ranges::minmax(sizes);
  std::string text = fmt::format(
      "{} ({} parameters, {}) on {} of {} devices, batch {} = {} micro-batch{} of {}{}\n\n{}\n",
      c.name, format_count(static_cast<double>(figures.parameters)), dtype_name(c.plan.dtype),
      std::ranges::count_if(c.peak_memory_bytes, [](std::int64_t b) { return b > 0; }),
      c.plan.cluster.devices.size(), c.plan.batch, sizes.size(), sizes.size() == 1 ? "" : "es",
      least == most ? fmt::format("{}", most) : fmt::format("{} or {}", most, least),
      sizes.size() > 1 && c.plan.stages.size() > 1 ? fmt::format(", {}", c.plan.schedule) : "",
      format_table(table));
  text += fmt::format("step {}, {:.4g} samples/s", format_seconds(c.step_s),
                      static_cast<double>(c.plan.batch) / c.step_s);
  if (c.plan.sequence > 0) {
    text += fmt::format(", {:.4g} tokens/s", tokens_in_step(c.plan) / c.step_s);
  }
  const double gap = c.step_s / figures.bound_s - 1;
  text += fmt::format("; bound {}{}, gap {:.1f} %", format_seconds(figures.bound_s),
                      figures.search_s > 0 ? "" : " (work / peak)", 100 * gap);
  text += figures.exact ? ": proved best\n" : figures.gap ? gap_text(figures) : "\n";
  if (figures.search_s > 0) {
    text += fmt::format("found in {}: {}\n", format_seconds(figures.search_s), c.recipe);
  }
  return text;
}

std::string compare_text(const std::vector<Candidate>& candidates, const Figures& figures) {
  Table table{.header = {"recipe", "step", "samples/s", "memory", "budget", "fits", "settings"},
              .right = {1, 2, 3, 4}};
  std::vector<const Candidate*> rows;
  for (const Candidate& c : candidates) {
    rows.push_back(&c);
  }
  std::ranges::stable_sort(rows, [](const Candidate* a, const Candidate* b) {
    return a->fits != b->fits ? a->fits : a->step_s < b->step_s;
  });
  for (const Candidate* c : rows) {
    const DeviceId d = scarcest(*c);
    table.rows.push_back({c->name, format_seconds(c->step_s),
                          fmt::format("{:.4g}", static_cast<double>(c->plan.batch) / c->step_s),
                          format_bytes(static_cast<double>(c->peak_memory_bytes[d])),
                          format_bytes(static_cast<double>(c->plan.memory_budget_bytes[d])),
                          c->fits ? "yes" : "no", c->recipe});
  }
  return format_table(table) +
         fmt::format("\nbound {}: no plan is faster\n", format_seconds(figures.bound_s));
}

std::string nothing_fits_text(const Candidate& leanest) {
  return fmt::format("no plan fits: the leanest one ({}) {}", label(leanest), lack_text(leanest));
}

std::string does_not_fit_text(const Candidate& candidate) {
  return fmt::format("the plan ({}) does not fit: it {}; or let weft search a plan",
                     label(candidate), lack_text(candidate));
}

}  // namespace weft
