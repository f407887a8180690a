#include "tests/numerics/op_case.h"

namespace weft {
namespace {

// Sizes of q[b,s,h,d], k[b,t,g,d], v[b,t,g,e], bias[n,h,s,t]; n = 0 is none.
struct Sizes {
  std::int64_t b = 2;
  std::int64_t s = 5;
  std::int64_t t = 5;
  std::int64_t h = 4;
  std::int64_t g = 2;
  std::int64_t d = 2;
  std::int64_t e = 2;
  std::int64_t n = 0;
};

Attrs attention_attrs(std::int64_t causal, std::int64_t window, double dropout) {
  return {{"causal", causal}, {"scale", 0.4}, {"dropout", dropout}, {"window", window}};
}

void add_attention(std::vector<OpCase>& cases, const Sizes& z, Attrs attrs,
                   const std::string& note) {
  const TensorType q = f64({z.b, z.s, z.h, z.d});
  const TensorType k = f64({z.b, z.t, z.g, z.d});
  const TensorType v = f64({z.b, z.t, z.g, z.e});
  const TensorType out = f64({z.b, z.s, z.h, z.e});
  OpCase forward{.op = "attention", .inputs = {q, k, v}, .attrs = attrs, .note = note};
  OpCase backward{.op = "attention_backward",
                  .inputs = {out, q, k, v, out, f64({z.b, z.h, z.s})},
                  .attrs = attrs,
                  .note = note};
  if (z.n > 0) {
    const TensorType bias = f64({z.n, z.h, z.s, z.t});
    forward.inputs.push_back(bias);
    backward.inputs.push_back(bias);
    backward.attrs["bias_gradient"] = std::int64_t{1};
  }
  cases.push_back(forward);
  cases.push_back(backward);
}

void add_attention_forms(std::vector<OpCase>& cases) {
  const Attrs full = attention_attrs(0, 0, 0);
  add_attention(cases, {.s = 3, .t = 9, .e = 3}, full, "groups, other width of values");
  add_attention(cases, {.h = 3, .g = 1}, attention_attrs(1, 0, 0.2), "one group, causal, dropout");
  add_attention(cases, {.s = 9, .t = 9}, attention_attrs(1, 3, 0), "causal window");
  add_attention(cases, {.s = 9, .t = 9}, attention_attrs(0, 2, 0.2), "window on both sides");
  add_attention(cases, {.b = 4, .n = 2}, full, "bias of every second sample");
  add_attention(cases, {.s = 4, .t = 3, .g = 4, .n = 1}, full, "bias of all samples");
  add_attention(cases, {.n = 1}, attention_attrs(1, 0, 0.2), "causal, bias, dropout");
  OpCase fixed = cases.back();
  fixed.attrs["bias_gradient"] = std::int64_t{0};
  fixed.note = "bias without a gradient";
  cases.push_back(fixed);
}

// 300 keys are two tiles, 70 queries two blocks; windows begin in the middle of a tile.
void add_attention_tiles(std::vector<OpCase>& cases) {
  Sizes tiles{.b = 1, .s = 2, .t = 300, .h = 1, .g = 1, .d = 1, .e = 1};
  add_attention(cases, tiles, attention_attrs(0, 0, 0.2), "two tiles of keys");
  const auto forward = [&](std::int64_t s, std::int64_t causal, std::int64_t window) {
    const TensorType q{{1, s, 1, 2}, DType::f64};
    cases.push_back({.op = "attention_backward",
                     .inputs = {q, q, q, q, q, f64({1, 1, s})},
                     .attrs = attention_attrs(causal, window, 0),
                     .note = "tiles and blocks"});
  };
  forward(70, 1, 0);
  forward(330, 1, 0);
  forward(330, 1, 40);
  forward(330, 0, 270);
}

void add_rms_norm(std::vector<OpCase>& cases) {
  for (const Shape& leading : {Shape{4}, Shape{kBatch, 3}, Shape{2, 3, 2}, Shape{40}}) {
    Shape shape = leading;
    shape.push_back(19);
    const Attrs attrs{{"eps", 1e-5}, {"offset", std::int64_t{leading.size() == 2 ? 1 : 0}}};
    cases.push_back({.op = "rms_norm", .inputs = {f64(shape), f64({19})}, .attrs = attrs});
    cases.push_back({.op = "rms_norm_backward",
                     .inputs = {f64(shape), f64(shape), f64(leading), f64({19})},
                     .attrs = attrs});
  }
}

// 22 rotated features are a pack of f32 pairs and a rest; 40 positions are more than a short list
// of the table.
void add_rotary(std::vector<OpCase>& cases) {
  const auto add = [&](const Shape& shape, std::int64_t dims, std::int64_t interleaved,
                       const Attrs& scaling) {
    Attrs attrs = scaling;
    attrs["base"] = 100.0;
    attrs["dims"] = dims;
    attrs["interleaved"] = interleaved;
    attrs["inverse"] = std::int64_t{0};
    cases.push_back({.op = "rotary", .inputs = {f64(shape)}, .attrs = attrs});
  };
  const Attrs llama3{{"scaling", std::string("llama3")},
                     {"factor", 8.0},
                     {"low", 1.0},
                     {"high", 4.0},
                     {"original", 64.0}};
  for (const std::int64_t interleaved : {0, 1}) {
    add({kBatch, 5, 2, 22}, 22, interleaved, {});
    add({2, 4, 2, 7}, 4, interleaved, {{"scaling", std::string("none")}});
    add({1, 3, 1, 6}, 6, interleaved, {{"scaling", std::string("linear")}, {"factor", 4.0}});
    add({1, 3, 2, 12}, 12, interleaved, llama3);
  }
  add({1, 40, 1, 2}, 2, 0, {});
}

void add_gated(std::vector<OpCase>& cases) {
  const auto add = [&](const Shape& shape, const char* function) {
    const Attrs attrs{{"function", std::string(function)}};
    const TensorType x = f64(shape);
    cases.push_back({.op = "gated", .inputs = {x, x}, .attrs = attrs, .note = function});
    cases.push_back(
        {.op = "gated_backward", .inputs = {x, x, x}, .attrs = attrs, .note = function});
  };
  for (const char* function : {"silu", "gelu", "gelu_tanh", "relu", "sigmoid", "identity"}) {
    add({3, 11}, function);
  }
  add({kBatch, 2, 5}, "silu");
}

void add_smoothing(std::vector<OpCase>& cases) {
  const TensorType labels{{3, 4}, DType::i64};
  const TensorType logits = f64({3, 4, 11});
  const Attrs attrs{{"ignore", std::int64_t{2}}, {"smoothing", 0.1}};
  cases.push_back({.op = "label_scores",
                   .inputs = {logits, labels},
                   .attrs = attrs,
                   .int_limit = 4,
                   .note = "smoothing"});
  cases.push_back({.op = "label_scores_backward",
                   .inputs = {f64({3, 4}), f64({3, 4}), logits, labels, f64({3, 4})},
                   .attrs = attrs,
                   .int_limit = 4,
                   .note = "smoothing"});
}

}  // namespace

std::vector<OpCase> attention_cases() {
  std::vector<OpCase> cases;
  add_attention_forms(cases);
  add_attention_tiles(cases);
  add_rms_norm(cases);
  add_rotary(cases);
  add_gated(cases);
  add_smoothing(cases);
  return cases;
}

}  // namespace weft
