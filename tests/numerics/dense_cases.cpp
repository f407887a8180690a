#include "tests/numerics/op_case.h"

namespace weft {
namespace {

Shape join(Shape leading, const Shape& last) {
  leading.insert(leading.end(), last.begin(), last.end());
  return leading;
}

const std::vector<Shape>& leading_shapes() {
  static const std::vector<Shape> kShapes = {{4}, {kBatch, 3}, {2, 3, 2}};
  return kShapes;
}

void add_linear(std::vector<OpCase>& cases) {
  for (const Shape& leading : leading_shapes()) {
    const TensorType x = f64(join(leading, {6}));
    const TensorType dy = f64(join(leading, {5}));
    const TensorType w = f64({5, 6});
    cases.push_back({.op = "linear", .inputs = {x, w}, .attrs = {}, .note = "no bias"});
    cases.push_back({.op = "linear",
                     .inputs = {x, w, f64({5})},
                     .attrs = {{"parallel", std::string("column")}},
                     .note = "bias"});
    cases.push_back({.op = "linear_input_grad", .inputs = {dy, w}, .attrs = {}});
    cases.push_back({.op = "linear_weight_grad", .inputs = {dy, x}, .attrs = {}});
  }
}

// The second size is beyond ATen's limit for batched products in plain loops.
void add_matmul(std::vector<OpCase>& cases) {
  for (const std::int64_t ta : {0, 1}) {
    for (const std::int64_t tb : {0, 1}) {
      const Attrs attrs{{"transpose_a", ta}, {"transpose_b", tb}};
      const auto add = [&](const Shape& leading, std::int64_t m, std::int64_t k, std::int64_t n) {
        const Shape a = ta == 1 ? Shape{k, m} : Shape{m, k};
        const Shape b = tb == 1 ? Shape{n, k} : Shape{k, n};
        cases.push_back({.op = "matmul",
                         .inputs = {f64(join(leading, a)), f64(join(leading, b))},
                         .attrs = attrs,
                         .note = ta + tb == 0 ? "plain" : "transposed"});
      };
      add({}, 4, 3, 5);
      add({kBatch}, 4, 3, 5);
      add({2, 3}, 4, 3, 2);
      add({2}, 10, 9, 8);
    }
  }
}

void add_embedding(std::vector<OpCase>& cases) {
  for (const Shape& leading : leading_shapes()) {
    cases.push_back(
        {.op = "embedding", .inputs = {f64({7, 4}), ids(leading)}, .attrs = {}, .int_limit = 7});
    cases.push_back({.op = "embedding_weight_grad",
                     .inputs = {f64(join(leading, {5})), ids(leading)},
                     .attrs = {{"rows", std::int64_t{6}}},
                     .int_limit = 4,
                     .note = "rows that nobody asks for"});
  }
}

// 11 features are a pack of f32 and a rest; 40 rows are more than the runs of the backward kernel.
void add_norms(std::vector<OpCase>& cases) {
  for (const Shape& leading : {Shape{4}, Shape{kBatch, 3}, Shape{2, 3, 2}, Shape{40}}) {
    const TensorType x = f64(join(leading, {11}));
    const TensorType row = f64(leading);
    const TensorType h = f64({11});
    cases.push_back({.op = "layer_norm", .inputs = {x, h, h}, .attrs = {{"eps", 1e-5}}});
    cases.push_back({.op = "layer_norm_backward", .inputs = {x, x, row, row, h}, .attrs = {}});
    cases.push_back({.op = "softmax", .inputs = {x}, .attrs = {}});
    cases.push_back({.op = "softmax_backward", .inputs = {x, x}, .attrs = {}});
  }
}

Attrs attention_attrs(std::int64_t causal, double dropout) {
  return {{"causal", causal}, {"scale", 0.4}, {"dropout", dropout}};
}

// 70 queries are more than one block; 9 keys are a pack of f32 and a rest.
void add_attention(std::vector<OpCase>& cases) {
  for (const double dropout : {0.0, 0.2}) {
    const auto add = [&](std::int64_t s, std::int64_t t, std::int64_t causal) {
      const TensorType q = f64({2, s, 3, 2});
      const TensorType k = f64({2, t, 3, 2});
      const Attrs attrs = attention_attrs(causal, dropout);
      const std::string note =
          std::string(causal == 1 ? "causal" : "full") + (dropout > 0 ? ", dropout" : "");
      cases.push_back({.op = "attention", .inputs = {q, k, k}, .attrs = attrs, .note = note});
      cases.push_back({.op = "attention_backward",
                       .inputs = {q, q, k, k, q, f64({2, 3, s})},
                       .attrs = attrs,
                       .note = note});
    };
    add(5, 9, 0);
    add(9, 9, 1);
  }
  const TensorType q = f64({1, 70, 1, 1});
  for (const std::int64_t causal : {0, 1}) {
    cases.push_back({.op = "attention",
                     .inputs = {q, q, q},
                     .attrs = attention_attrs(causal, 0.2),
                     .note = "two blocks of queries"});
  }
}

void add_cross_entropy(std::vector<OpCase>& cases) {
  for (const Shape& leading : leading_shapes()) {
    const TensorType logits = f64(join(leading, {11}));
    for (const std::int64_t ignore : {-100, 2}) {
      const Attrs attrs{{"ignore", ignore}};
      const std::string note = ignore == 2 ? "some labels are ignored" : "";
      const auto add = [&](const char* op, const TensorTypes& inputs) {
        cases.push_back({.op = op, .inputs = inputs, .attrs = attrs, .int_limit = 4, .note = note});
      };
      const TensorType row = f64(leading);
      add("label_scores", {logits, ids(leading)});
      add("label_scores_backward", {row, row, logits, ids(leading), row});
      add("nll", {row, row, ids(leading), f64({})});
      add("nll_backward", {f64({}), ids(leading), f64({})});
    }
  }
  cases.push_back({.op = "label_scores",
                   .inputs = {f64({2, 1100}), ids({2})},
                   .attrs = {{"ignore", std::int64_t{-100}}},
                   .int_limit = 1100,
                   .note = "several runs of classes"});
}

}  // namespace

std::vector<OpCase> dense_cases() {
  std::vector<OpCase> cases;
  add_linear(cases);
  add_matmul(cases);
  add_embedding(cases);
  add_norms(cases);
  add_attention(cases);
  add_cross_entropy(cases);
  return cases;
}

}  // namespace weft
