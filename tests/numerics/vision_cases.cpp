#include "tests/numerics/op_case.h"

namespace weft {
namespace {

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs[name] = std::move(value);
  return attrs;
}

struct Conv {
  Shape x;
  Shape w;
  Shape y;
  Attrs attrs;
  Ints sizes;  // spatial, of x
  Ints kernel;
  std::string note;
};

std::vector<Conv> convs() {
  const auto attrs = [](Ints stride, Ints padding, Ints dilation, std::int64_t groups) {
    return Attrs{{"stride", std::move(stride)},
                 {"padding", std::move(padding)},
                 {"dilation", std::move(dilation)},
                 {"groups", groups}};
  };
  return {
      {{2, 5, 4, 4},
       {3, 4, 3, 3},
       {2, 5, 4, 3},
       attrs({1, 1}, {1, 1, 1, 1}, {1, 1}, 1),
       {5, 4},
       {3, 3},
       "same size"},
      {{2, 5, 6, 4},
       {4, 4, 3, 2},
       {2, 3, 3, 4},
       attrs({2, 2}, {1, 1, 0, 1}, {1, 1}, 1),
       {5, 6},
       {3, 2},
       "stride, unequal padding"},
      {{2, 7, 6, 2},
       {4, 2, 3, 3},
       {2, 3, 2, 4},
       attrs({1, 1}, {0, 0, 0, 0}, {2, 2}, 1),
       {7, 6},
       {3, 3},
       "dilation"},
      {{1, 2, 2, 4},
       {6, 4, 3, 3},
       {1, 2, 2, 6},
       attrs({1, 1}, {1, 1, 1, 1}, {1, 1}, 1),
       {2, 2},
       {3, 3},
       "more filters than pixels"},
      {{2, 3, 3, 5},
       {4, 5, 1, 1},
       {2, 3, 3, 4},
       attrs({1, 1}, {0, 0, 0, 0}, {1, 1}, 1),
       {3, 3},
       {1, 1},
       "pointwise"},
      {{2, 5, 4, 5},
       {4, 5, 1, 1},
       {2, 3, 2, 4},
       attrs({2, 2}, {0, 0, 0, 0}, {1, 1}, 1),
       {5, 4},
       {1, 1},
       "pointwise with a stride"},
      {{2, 4, 4, 4},
       {6, 2, 3, 3},
       {2, 2, 2, 6},
       attrs({2, 2}, {1, 1, 1, 1}, {1, 1}, 2),
       {4, 4},
       {3, 3},
       "groups"},
      {{2, 4, 5, 4},
       {4, 1, 3, 3},
       {2, 2, 3, 4},
       attrs({2, 2}, {1, 1, 1, 1}, {1, 1}, 4),
       {4, 5},
       {3, 3},
       "depthwise"},
      {{2, 6, 4}, {3, 4, 3}, {2, 6, 3}, attrs({1}, {2, 0}, {1}, 1), {6}, {3}, "one dim"},
      {{1, 3, 3, 4, 2},
       {3, 2, 2, 2, 3},
       {1, 2, 2, 2, 3},
       attrs({1, 1, 2}, {0, 0, 0, 0, 1, 1}, {1, 1, 1}, 1),
       {3, 3, 4},
       {2, 2, 3},
       "three dims"},
  };
}

void add_convs(std::vector<OpCase>& cases) {
  for (const Conv& c : convs()) {
    const TensorType x = f64(c.x);
    const TensorType w = f64(c.w);
    const TensorType y = f64(c.y);
    cases.push_back({.op = "conv", .inputs = {x, w}, .attrs = c.attrs, .note = c.note});
    cases.push_back({.op = "conv",
                     .inputs = {x, w, f64({c.w[0]})},
                     .attrs = c.attrs,
                     .note = c.note + ", bias"});
    cases.push_back({.op = "conv_input_grad",
                     .inputs = {y, w},
                     .attrs = with(c.attrs, "sizes", c.sizes),
                     .note = c.note});
    cases.push_back({.op = "conv_weight_grad",
                     .inputs = {y, x},
                     .attrs = with(c.attrs, "kernel", c.kernel),
                     .note = c.note});
    cases.push_back({.op = "conv_transpose", .inputs = {y, w}, .attrs = c.attrs, .note = c.note});
  }
}

void add_transposed(std::vector<OpCase>& cases) {
  const Attrs attrs{{"stride", Ints{2, 2}},
                    {"padding", Ints{1, 1, 1, 1}},
                    {"output_padding", Ints{1, 0}},
                    {"dilation", Ints{1, 1}},
                    {"groups", std::int64_t{1}}};
  cases.push_back({.op = "conv_transpose",
                   .inputs = {f64({2, 3, 3, 4}), f64({4, 3, 3, 3}), f64({3})},
                   .attrs = attrs,
                   .note = "output padding, bias"});
  cases.push_back({.op = "conv_transpose",
                   .inputs = {f64({2, 3, 3, 4}), f64({4, 3, 3, 3}), f64({6})},
                   .attrs = with(attrs, "groups", std::int64_t{2}),
                   .note = "groups, bias"});
  cases.push_back({.op = "conv_transpose",
                   .inputs = {f64({2, 3, 3, 4}), f64({4, 1, 3, 3}), f64({4})},
                   .attrs = with(attrs, "groups", std::int64_t{4}),
                   .note = "depthwise, bias"});
}

// 11 channels are a pack of f32 and a rest; 40 rows are more than the runs of a sum.
void add_batch_norm(std::vector<OpCase>& cases) {
  const TensorType c = f64({11});
  for (const Shape& shape : {Shape{2, 3, 2, 11}, Shape{40, 11}, Shape{kBatch, 3, 11}}) {
    const TensorType x = f64(shape);
    const Attrs eps{{"eps", 1e-3}};
    cases.push_back({.op = "batch_norm_sums", .inputs = {x}, .attrs = {}});
    cases.push_back(
        {.op = "batch_norm", .inputs = {x, c, c, c, c, c}, .attrs = {}, .f64_inputs = {3}});
    cases.push_back({.op = "batch_norm_grad_sums", .inputs = {x, x, c, c}, .attrs = {}});
    cases.push_back({.op = "batch_norm_input_grad",
                     .inputs = {x, x, c, c, c, c, c, c},
                     .attrs = {},
                     .f64_inputs = {7}});
    cases.push_back({.op = "batch_norm_inference", .inputs = {x, c, c, c, c}, .attrs = eps});
    cases.push_back(
        {.op = "batch_norm_inference_backward", .inputs = {x, x, c, c, c}, .attrs = eps});
  }
  cases.push_back({.op = "batch_norm_moments",
                   .inputs = {c, c, c},
                   .attrs = {{"eps", 1e-3}, {"dtype", std::string("f64")}},
                   .f64_inputs = {0, 1, 2}});
  cases.push_back({.op = "ema", .inputs = {c, c}, .attrs = {{"momentum", 0.1}}});
}

void add_group_norm(std::vector<OpCase>& cases) {
  const TensorType x = f64({3, 2, 3, 12});
  const TensorType c = f64({12});
  for (const std::int64_t groups : {1, 4, 12}) {
    const TensorType row = f64({3, groups});
    cases.push_back({.op = "group_norm",
                     .inputs = {x, c, c},
                     .attrs = {{"groups", groups}, {"eps", 1e-3}},
                     .note = std::to_string(groups) + " groups"});
    cases.push_back({.op = "group_norm_backward",
                     .inputs = {x, x, row, row, c},
                     .attrs = {},
                     .note = std::to_string(groups) + " groups"});
  }
}

struct Pool {
  Shape x;
  Shape y;
  Attrs attrs;
  Ints sizes;
};

std::vector<Pool> pools() {
  const auto attrs = [](Ints kernel, Ints stride, Ints padding, std::int64_t ceil) {
    return Attrs{{"kernel", std::move(kernel)},
                 {"stride", std::move(stride)},
                 {"padding", std::move(padding)},
                 {"ceil", ceil}};
  };
  return {{{2, 4, 6, 11}, {2, 2, 3, 11}, attrs({2, 2}, {2, 2}, {0, 0, 0, 0}, 0), {4, 6}},
          {{2, 5, 5, 3}, {2, 3, 3, 3}, attrs({3, 3}, {2, 2}, {1, 1, 1, 1}, 0), {5, 5}},
          {{2, 6, 5, 3}, {2, 3, 3, 3}, attrs({3, 2}, {2, 2}, {0, 1, 0, 0}, 1), {6, 5}},
          {{2, 6, 5}, {2, 6, 5}, attrs({3}, {1}, {1, 1}, 0), {6}},
          {{1, 3, 4, 3, 2},
           {1, 2, 2, 2, 2},
           attrs({2, 2, 2}, {1, 2, 1}, {0, 0, 0, 0, 0, 0}, 0),
           {3, 4, 3}}};
}

void add_pools(std::vector<OpCase>& cases) {
  for (const Pool& p : pools()) {
    const TensorType x = f64(p.x);
    const TensorType y = f64(p.y);
    cases.push_back({.op = "max_pool", .inputs = {x}, .attrs = p.attrs});
    cases.push_back({.op = "max_pool_backward", .inputs = {y, x, y}, .attrs = p.attrs});
    for (const std::int64_t with_padding : {0, 1}) {
      const Attrs attrs = with(p.attrs, "count_include_pad", with_padding);
      cases.push_back({.op = "avg_pool",
                       .inputs = {x},
                       .attrs = attrs,
                       .note = with_padding == 1 ? "padding counts" : ""});
      cases.push_back(
          {.op = "avg_pool_backward", .inputs = {y}, .attrs = with(attrs, "sizes", p.sizes)});
    }
  }
  cases.push_back({.op = "max_pool",
                   .inputs = {f64({2, 7, 6, 3})},
                   .attrs = {{"kernel", Ints{3, 2}},
                             {"stride", Ints{1, 1}},
                             {"padding", Ints{1, 1, 0, 0}},
                             {"dilation", Ints{2, 3}}},
                   .note = "dilation"});
}

void add_upsample(std::vector<OpCase>& cases) {
  const Attrs attrs{{"scale", Ints{2, 3}}};
  cases.push_back({.op = "upsample", .inputs = {f64({2, 3, 2, 11})}, .attrs = attrs});
  cases.push_back({.op = "upsample_backward", .inputs = {f64({2, 6, 6, 11})}, .attrs = attrs});
  cases.push_back({.op = "upsample", .inputs = {f64({2, 3, 4})}, .attrs = {{"scale", Ints{2}}}});
}

}  // namespace

std::vector<OpCase> vision_cases() {
  std::vector<OpCase> cases;
  add_convs(cases);
  add_transposed(cases);
  add_batch_norm(cases);
  add_group_norm(cases);
  add_pools(cases);
  add_upsample(cases);
  return cases;
}

}  // namespace weft
