// Cases of the optimizers besides adamw and sgd.
#include "tests/numerics/op_case.h"

namespace weft {
namespace {

void add_elementwise_updates(std::vector<OpCase>& cases) {
  const TensorType w = f64({6, 11});
  const TensorType s = f64({});
  const Attrs adam{{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-6}, {"weight_decay", 0.1}};
  const Attrs lion{{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}};
  const Attrs nesterov{{"momentum", 0.9}, {"weight_decay", 0.1}, {"nesterov", std::int64_t{1}}};
  cases.push_back({.op = "adam", .inputs = {w, w, w, w, s, s}, .attrs = adam});
  cases.push_back({.op = "adam", .inputs = {w, w, w, w, s, s, s}, .attrs = adam});
  cases.push_back({.op = "lion", .inputs = {w, w, w, s}, .attrs = lion});
  cases.push_back({.op = "lion", .inputs = {w, w, w, s, s}, .attrs = lion});
  cases.push_back({.op = "sgd", .inputs = {w, w, w, s}, .attrs = nesterov, .note = "nesterov"});
}

void add_adafactor(std::vector<OpCase>& cases) {
  const TensorType s = f64({});
  const TensorType matrix = f64({6, 10});
  const TensorType kernels = f64({4, 3, 6, 5});
  const TensorType vector = f64({12});
  const auto moment = [](std::int64_t over) {
    return Attrs{{"over", over}, {"epsilon", 0.01}, {"scale", 0.125}};
  };
  cases.push_back({.op = "adafactor_moment", .inputs = {matrix}, .attrs = moment(-1)});
  cases.push_back({.op = "adafactor_moment", .inputs = {matrix, s}, .attrs = moment(-2)});
  cases.push_back({.op = "adafactor_moment", .inputs = {kernels}, .attrs = moment(-2)});
  cases.push_back({.op = "adafactor_moment", .inputs = {kernels, s}, .attrs = moment(-1)});
  cases.push_back({.op = "adafactor_moment", .inputs = {vector, s}, .attrs = moment(0)});
  cases.push_back(
      {.op = "adafactor_average", .inputs = {vector, vector, s}, .attrs = {{"decay", 0.8}}});
  cases.push_back(
      {.op = "adafactor_row_mean", .inputs = {f64({4, 3, 6})}, .attrs = {{"scale", 0.25}}});
  cases.push_back({.op = "adafactor_row_mean", .inputs = {vector}, .attrs = {{"scale", 0.25}}});
  const Attrs norm{{"factored", std::int64_t{1}}, {"scale", 0.125}};
  const Attrs plain_norm{{"factored", std::int64_t{0}}, {"scale", 0.125}};
  const TensorTypes second{f64({6}), f64({10}), s};
  const TensorTypes seconds{f64({4, 3, 6}), f64({4, 3, 5}), f64({4, 3})};
  const auto with = [](TensorTypes list, const TensorTypes& more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
  };
  cases.push_back({.op = "adafactor_norm", .inputs = with({matrix}, second), .attrs = norm});
  cases.push_back(
      {.op = "adafactor_norm", .inputs = with(with({kernels}, seconds), {s}), .attrs = norm});
  cases.push_back({.op = "adafactor_norm", .inputs = {vector, vector, s}, .attrs = plain_norm});
  const Attrs update{{"factored", std::int64_t{1}}, {"threshold", 0.9}, {"weight_decay", 0.1}};
  const Attrs plain{{"factored", std::int64_t{0}}, {"threshold", 9.0}, {"weight_decay", 0.0}};
  cases.push_back(
      {.op = "adafactor", .inputs = with(with({matrix, matrix}, second), {s, s}), .attrs = update});
  cases.push_back({.op = "adafactor",
                   .inputs = with(with({kernels, kernels}, seconds), {s, s, s}),
                   .attrs = update});
  cases.push_back({.op = "adafactor", .inputs = {vector, vector, vector, s, s, s}, .attrs = plain});
}

}  // namespace

std::vector<OpCase> training_cases() {
  std::vector<OpCase> cases;
  add_elementwise_updates(cases);
  add_adafactor(cases);
  return cases;
}

}  // namespace weft
