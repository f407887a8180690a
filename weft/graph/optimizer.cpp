// Defaults: adamw and adam as in PyTorch, but for the learning rate; sgd with the momentum that
// everybody gives it; lion from its paper; adafactor as transformers with a given learning rate.
#include "weft/graph/optimizer.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Known {
  OptimizerSpec spec;
  double learning_rate = 0;
};

const std::vector<Known>& table() {
  static const std::vector<Known> kTable = {
      {.spec = {.name = "adamw"}, .learning_rate = 3e-4},
      {.spec = {.name = "adam", .weight_decay = 0}, .learning_rate = 3e-4},
      {.spec = {.name = "sgd", .weight_decay = 0}, .learning_rate = 0.1},
      {.spec = {.name = "lion", .weight_decay = 0, .beta2 = 0.99}, .learning_rate = 1e-4},
      {.spec = {.name = "adafactor", .weight_decay = 0, .epsilon = 1e-30}, .learning_rate = 1e-3},
  };
  return kTable;
}

const Known& find(std::string_view name) {
  for (const Known& known : table()) {
    if (known.spec.name == name) {
      return known;
    }
  }
  throw Error(Blame::input, fmt::format("optimizer '{}' is unknown; known are {}", name,
                                        fmt::join(optimizer_names(), ", ")));
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Known& known : table()) {
    names.push_back(known.spec.name);
  }
  return names;
}

OptimizerSpec default_optimizer(std::string_view name) {
  return find(name).spec;
}

double default_learning_rate(std::string_view name) {
  return find(name).learning_rate;
}

std::vector<std::string> violations(const OptimizerSpec& spec) {
  std::vector<std::string> found;
  const auto expect = [&](bool ok, std::string message) {
    if (!ok) {
      found.push_back(std::move(message));
    }
  };
  try {
    static_cast<void>(find(spec.name));
  } catch (const Error& error) {
    found.emplace_back(error.what());
  }
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  expect(fraction(spec.beta1) && fraction(spec.beta2) && fraction(spec.momentum),
         fmt::format("optimizer {}: beta1, beta2 and momentum must be at least 0 and below 1",
                     spec.name));
  const auto size = [](double x) { return std::isfinite(x) && x >= 0; };
  expect(size(spec.epsilon) && size(spec.weight_decay) && size(spec.clip),
         fmt::format("optimizer {}: epsilon, weight decay and clip must be numbers from 0",
                     spec.name));
  expect(!spec.nesterov || (spec.name == "sgd" && spec.momentum > 0),
         fmt::format("optimizer {}: nesterov needs sgd with a momentum", spec.name));
  expect(spec.name != "adafactor" || spec.epsilon > 0,
         "optimizer adafactor: epsilon must be positive, it keeps second moments from being 0");
  return found;
}

}  // namespace weft
