#include "tests/numerics/op_case.h"

namespace weft {
namespace {

void add_maps(std::vector<OpCase>& cases) {
  const Shape shape{4, 3, 5};
  for (const std::int64_t tanh : {0, 1}) {
    const Attrs attrs{{"tanh", tanh}};
    const std::string note = tanh == 1 ? "tanh form" : "exact form";
    cases.push_back({.op = "gelu", .inputs = {f64(shape)}, .attrs = attrs, .note = note});
    cases.push_back({.op = "gelu", .inputs = {f64({129})}, .attrs = attrs, .note = note});
    cases.push_back(
        {.op = "gelu_backward", .inputs = {f64(shape), f64(shape)}, .attrs = attrs, .note = note});
  }
  cases.push_back({.op = "relu", .inputs = {f64(shape)}, .attrs = {}});
  cases.push_back({.op = "relu", .inputs = {f64({6})}, .attrs = {}});
  cases.push_back({.op = "relu_backward", .inputs = {f64(shape), f64(shape)}, .attrs = {}});
  cases.push_back({.op = "scale", .inputs = {f64(shape)}, .attrs = {{"value", -2.5}}});
  for (const double p : {0.0, 0.3}) {
    const Attrs attrs{{"p", p}};
    cases.push_back({.op = "dropout", .inputs = {f64(shape)}, .attrs = attrs});
    cases.push_back({.op = "dropout", .inputs = {f64({3, 2, 5, 3})}, .attrs = attrs});
    cases.push_back({.op = "dropout_backward", .inputs = {f64(shape)}, .attrs = attrs});
  }
  for (const char* dtype : {"f64", "f32"}) {
    cases.push_back(
        {.op = "cast", .inputs = {f64(shape)}, .attrs = {{"dtype", std::string(dtype)}}});
  }
  cases.push_back({.op = "cast",
                   .inputs = {{{4, 3}, DType::i64}},
                   .attrs = {{"dtype", std::string("f64")}},
                   .int_limit = 9});
}

void add_pairs(std::vector<OpCase>& cases) {
  for (const char* op : {"add", "mul"}) {
    for (const Shape& suffix : {Shape{4, 3, 5}, Shape{3, 5}, Shape{5}, Shape{}}) {
      cases.push_back({.op = op, .inputs = {f64({4, 3, 5}), f64(suffix)}, .attrs = {}});
    }
  }
  for (const std::int64_t keep : {0, 1, 2}) {
    cases.push_back({.op = "sum_leading", .inputs = {f64({4, 3, 5})}, .attrs = {{"keep", keep}}});
  }
}

void add_shapes(std::vector<OpCase>& cases) {
  const auto reshape = [&](Shape from, const char* to) {
    cases.push_back(
        {.op = "reshape", .inputs = {f64(std::move(from))}, .attrs = {{"shape", std::string(to)}}});
  };
  reshape({4, 3, 8}, "4,3,2,4");
  reshape({4, 3, 2, 4}, "4,3,8");
  reshape({4, 6}, "2,12");
  reshape({4, 6}, "6,4");
  reshape({4, 1, 6}, "4,6,1,1");
  reshape({4, 3, 5}, "60");
  for (const Ints& perm : {Ints{0, 2, 1, 3}, Ints{3, 0, 1, 2}, Ints{0, 1, 2, 3}}) {
    cases.push_back({.op = "transpose", .inputs = {f64({4, 3, 2, 5})}, .attrs = {{"perm", perm}}});
  }
  for (const std::int64_t dim : {0, 2, -1}) {
    cases.push_back({.op = "split",
                     .inputs = {f64({6, 3, 6})},
                     .attrs = {{"dim", dim}, {"sizes", Ints{1, 3, 2}}}});
  }
  cases.push_back(
      {.op = "concat", .inputs = {f64({4, 3, 5})}, .attrs = {{"dim", std::int64_t{1}}}});
  cases.push_back({.op = "concat",
                   .inputs = {f64({4, 3, 5}), f64({4, 1, 5}), f64({4, 2, 5})},
                   .attrs = {{"dim", std::int64_t{1}}}});
  cases.push_back(
      {.op = "constant", .inputs = {}, .attrs = {{"value", 2.5}, {"dtype", std::string("f64")}}});
}

void add_updates(std::vector<OpCase>& cases) {
  const TensorType w = f64({5, 7});
  for (const std::size_t terms : {1, 3}) {
    cases.push_back({.op = "accumulate",
                     .inputs = TensorTypes(terms, w),
                     .attrs = {{"dtype", std::string("f64")}}});
    cases.push_back({.op = "accumulate",
                     .inputs = TensorTypes(terms, {{5, 7}, DType::f32}),
                     .attrs = {{"dtype", std::string("f64")}},
                     .note = "widened"});
  }
  cases.push_back(
      {.op = "sum_squares", .inputs = {f64({5, 7}), f64({40000}), f64({})}, .attrs = {}});
  cases.push_back({.op = "clip_scale", .inputs = {f64({})}, .attrs = {{"max_norm", 0.5}}});
  cases.push_back({.op = "clip_scale", .inputs = {f64({})}, .attrs = {{"max_norm", 100.0}}});
  const Attrs adamw{{"beta1", 0.9}, {"beta2", 0.95}, {"epsilon", 1e-6}, {"weight_decay", 0.1}};
  const Attrs sgd{{"momentum", 0.9}, {"weight_decay", 0.1}};
  const TensorType s = f64({});
  cases.push_back({.op = "adamw", .inputs = {w, w, w, w, s, s}, .attrs = adamw});
  cases.push_back({.op = "adamw", .inputs = {w, w, w, w, s, s, s}, .attrs = adamw});
  cases.push_back({.op = "sgd", .inputs = {w, w, w, s}, .attrs = sgd});
  cases.push_back({.op = "sgd", .inputs = {w, w, w, s, s}, .attrs = sgd});
}

}  // namespace

std::vector<OpCase> elementwise_cases() {
  std::vector<OpCase> cases;
  add_maps(cases);
  add_pairs(cases);
  add_shapes(cases);
  add_updates(cases);
  return cases;
}

}  // namespace weft
