#include "weft/frontend/training_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "weft/base/error.h"
#include "weft/base/pattern.h"

namespace weft {
namespace {

/// Letters to insert, delete or change to make one text of the other (Levenshtein's distance).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> nearest(const Graph& graph, std::string_view pattern) {
  constexpr std::size_t kShown = 5;
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const Value& value : graph.values) {
    if (value.kind == ValueKind::parameter) {
      found.emplace_back(distance(pattern, value.name), value.name);
    }
  }
  std::ranges::sort(found);
  found.resize(std::min(found.size(), kShown));
  std::vector<std::string> names;
  for (auto& [far, name] : found) {
    names.push_back(std::move(name));
  }
  return names;
}

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (Value& value : graph.values) {
      if (value.kind == ValueKind::parameter && matches(pattern, value.name)) {
        value.trained = false;
        found = true;
      }
    }
    require(found, "--freeze {}: no parameter has such a name; near are {}", pattern,
            fmt::join(nearest(graph, pattern), ", "));
  }
  const bool any = std::ranges::any_of(graph.values, [](const Value& value) {
    return value.kind == ValueKind::parameter && value.trained;
  });
  require(any || patterns.empty(),
          "--freeze {}: every parameter is frozen, nothing is left to train",
          fmt::join(patterns, " --freeze "));
}

void smooth_labels(Graph& graph, double smoothing) {
  require(smoothing >= 0 && smoothing < 1, "--label-smoothing {}: a share from 0, below 1",
          smoothing);
  if (smoothing == 0) {
    return;
  }
  bool found = false;
  for (Node& node : graph.nodes) {
    if (node.op == "label_scores") {
      node.attrs["smoothing"] = smoothing;
      found = true;
    }
  }
  require(found, "--label-smoothing {}: the model's loss is no cross entropy", smoothing);
}

}  // namespace

void apply_training_options(Graph& forward, const ModelOptions& options) {
  freeze(forward, options.freeze);
  smooth_labels(forward, options.label_smoothing);
}

}  // namespace weft
