// Cases of the general tensor ops, those that imported models are made of.
#include "tests/numerics/op_case.h"
#include "weft/ops/unary.h"

namespace weft {
namespace {

Attrs function(const std::string& name) {
  return {{"function", name}};
}

/// Where a function is defined, or well enough conditioned for differences; 0, 0: everywhere.
std::pair<double, double> domain_of(const std::string& f) {
  if (f == "asin" || f == "acos" || f == "atanh" || f == "tan") {
    return {-0.8, 0.8};
  }
  if (f == "acosh") {
    return {1.2, 3.0};
  }
  if (f == "log" || f == "sqrt" || f == "rsqrt" || f == "reciprocal" || f == "log1p") {
    return {0.3, 3.0};
  }
  return {0, 0};
}

bool is_flat(const std::string& f) {
  for (const char* step : {"ceil", "floor", "round", "sign", "isinf", "isnan", "not"}) {
    if (f == step) {
      return true;
    }
  }
  return false;
}

void add_unary(std::vector<OpCase>& cases) {
  for (const std::string& f : ops::unary_functions()) {
    const auto [low, high] = domain_of(f);
    Attrs attrs = function(f);
    attrs["alpha"] = f == "clip" ? -0.4 : 0.3;
    attrs["beta"] = f == "clip" ? 0.7 : 0.6;
    const TensorType x{{4, 3, 5}, f == "not" ? DType::u8 : DType::f64};
    cases.push_back({.op = "unary",
                     .inputs = {x},
                     .attrs = attrs,
                     .int_limit = 2,
                     .note = f,
                     .low = low,
                     .high = high,
                     .flat = is_flat(f)});
  }
  for (const char* f : {"abs", "clip", "neg", "sign", "square"}) {
    for (const DType dtype : {DType::i64, DType::i32}) {
      Attrs attrs = function(f);
      attrs["alpha"] = 2.0;
      attrs["beta"] = 4.0;
      cases.push_back(
          {.op = "unary", .inputs = {{{7}, dtype}}, .attrs = attrs, .int_limit = 9, .note = f});
    }
  }
  for (const char* f : {"tanh", "silu"}) {
    cases.push_back(
        {.op = "unary_backward", .inputs = {f64({4, 5}), f64({4, 5})}, .attrs = function(f)});
  }
}

void add_binary(std::vector<OpCase>& cases) {
  for (const std::string& f : ops::binary_functions()) {
    const bool whole =
        f == "and" || f == "or" || f == "xor" || f == "shift_left" || f == "shift_right";
    const bool flag = f == "eq" || f == "lt" || f == "gt" || f == "le" || f == "ge";
    const bool positive = f == "pow" || f == "div" || f == "mod" || f == "fmod";
    for (const Shape& suffix : {Shape{4, 3, 5}, Shape{5}, Shape{}}) {
      const DType dtype = whole ? DType::u8 : DType::f64;
      cases.push_back({.op = "binary",
                       .inputs = {{{4, 3, 5}, dtype}, {suffix, dtype}},
                       .attrs = function(f),
                       .int_limit = 6,
                       .note = f,
                       .low = positive ? 0.5 : 0,
                       .high = positive ? 2.5 : 0,
                       .flat = flag});
    }
  }
  for (const char* f : {"sub", "max", "min", "eq", "and", "shift_left", "pow", "prelu"}) {
    for (const DType dtype : {DType::i64, DType::i32}) {
      cases.push_back({.op = "binary",
                       .inputs = {{{4, 3}, dtype}, {{3}, dtype}},
                       .attrs = function(f),
                       .int_limit = 6,
                       .note = f});
    }
  }
  for (const char* op : {"add", "mul"}) {
    for (const DType dtype : {DType::i64, DType::i32}) {
      cases.push_back(
          {.op = op, .inputs = {{{4, 3}, dtype}, {{3}, dtype}}, .attrs = {}, .int_limit = 6});
    }
  }
  Attrs attrs = function("pow");
  attrs["wrt"] = std::int64_t{1};
  cases.push_back({.op = "binary_backward",
                   .inputs = {f64({4, 5}), f64({4, 5}), f64({5})},
                   .attrs = attrs,
                   .low = 0.5,
                   .high = 2.0});
}

void add_choices(std::vector<OpCase>& cases) {
  const TensorType cond{{4, 3, 5}, DType::u8};
  cases.push_back({.op = "where",
                   .inputs = {cond, f64({4, 3, 5}), f64({4, 3, 5})},
                   .attrs = {},
                   .int_limit = 2});
  for (const Shape& suffix : {Shape{4, 3, 5}, Shape{3, 5}}) {
    for (const std::int64_t keep : {0, 1}) {
      cases.push_back({.op = "mask",
                       .inputs = {f64({4, 3, 5}), {suffix, DType::u8}},
                       .attrs = {{"keep", keep}, {"value", keep == 1 ? -7.0 : 0.0}},
                       .int_limit = 2});
    }
  }
  for (const char* dtype : {"i32", "u8", "f64"}) {
    cases.push_back({.op = "cast",
                     .inputs = {ids({4, 3})},
                     .attrs = {{"dtype", std::string(dtype)}},
                     .int_limit = 9});
  }
}

void add_reduce(std::vector<OpCase>& cases) {
  for (const char* f : {"sum", "mean", "max", "min", "prod"}) {
    for (const Ints& dims : {Ints{1}, Ints{0, 2}, Ints{-1}, Ints{0, 1, 2}, Ints{}}) {
      for (const std::int64_t keep : {0, 1}) {
        Attrs attrs = function(f);
        attrs["dims"] = dims;
        attrs["keep"] = keep;
        cases.push_back({.op = "reduce", .inputs = {f64({4, 3, 5})}, .attrs = attrs, .note = f});
      }
    }
    if (std::string(f) != "mean") {
      Attrs attrs = function(f);
      attrs["dims"] = Ints{0, 1};
      attrs["keep"] = std::int64_t{0};
      cases.push_back(
          {.op = "reduce", .inputs = {ids({4, 3})}, .attrs = attrs, .int_limit = 6, .note = f});
    }
  }
  Attrs attrs = function("max");
  attrs["dims"] = Ints{1};
  attrs["keep"] = std::int64_t{1};
  cases.push_back(
      {.op = "reduce_backward", .inputs = {f64({4, 1}), f64({4, 5}), f64({4, 1})}, .attrs = attrs});
  for (const char* shape : {"4,3,5", "2,4,3,5", "4,3,1,5"}) {
    const Shape from = std::string(shape) == "4,3,1,5" ? Shape{3, 1, 1} : Shape{4, 1, 5};
    cases.push_back(
        {.op = "expand", .inputs = {f64(from)}, .attrs = {{"shape", std::string(shape)}}});
  }
  cases.push_back({.op = "expand", .inputs = {f64({})}, .attrs = {{"shape", std::string("4,3")}}});
}

void add_slices(std::vector<OpCase>& cases) {
  const auto slice = [&](Ints starts, Ints sizes, Ints steps, const char* note) {
    cases.push_back({.op = "slice",
                     .inputs = {f64({4, 6, 5})},
                     .attrs = {{"starts", std::move(starts)},
                               {"sizes", std::move(sizes)},
                               {"steps", std::move(steps)}},
                     .note = note});
  };
  slice({0, 1, 0}, {-1, 3, 0}, {1, 2, 1}, "one dim, every second");
  slice({0, -1, 4}, {0, 6, 3}, {1, -1, -2}, "backwards");
  cases.push_back({.op = "slice_backward",
                   .inputs = {f64({4, 2})},
                   .attrs = {{"starts", Ints{0, 1}},
                             {"sizes", Ints{0, 2}},
                             {"steps", Ints{1, 2}},
                             {"lengths", Ints{0, 6}}}});
  for (const char* mode : {"constant", "reflect", "edge"}) {
    const Attrs attrs{{"before", Ints{0, 2, -1}},
                      {"after", Ints{0, 1, 3}},
                      {"mode", std::string(mode)},
                      {"value", 1.5}};
    cases.push_back({.op = "pad", .inputs = {f64({4, 3, 5})}, .attrs = attrs, .note = mode});
    if (std::string(mode) != "constant") {
      cases.push_back(
          {.op = "pad_backward", .inputs = {f64({4, 6, 7})}, .attrs = attrs, .note = mode});
    }
  }
  cases.push_back({.op = "roll",
                   .inputs = {f64({4, 3, 5})},
                   .attrs = {{"dims", Ints{1, -1}}, {"shifts", Ints{-1, 7}}}});
}

void add_gathers(std::vector<OpCase>& cases) {
  for (const std::int64_t dim : {0, 1, -1}) {
    for (const Shape& shape : {Shape{2, 3}, Shape{6}, Shape{}}) {
      cases.push_back({.op = "gather",
                       .inputs = {f64({4, 4, 5}), ids(shape)},
                       .attrs = {{"dim", dim}},
                       .int_limit = 4});
    }
  }
  cases.push_back({.op = "gather_backward",
                   .inputs = {f64({4, 2, 3, 5}), ids({2, 3})},
                   .attrs = {{"dim", std::int64_t{1}}, {"length", std::int64_t{4}}},
                   .int_limit = 3});
  for (const std::int64_t dim : {0, 1}) {
    const Shape places = dim == 0 ? Shape{3, 5} : Shape{4, 3};
    cases.push_back({.op = "gather_elements",
                     .inputs = {f64({4, 5}), ids(places)},
                     .attrs = {{"dim", dim}},
                     .int_limit = 4});
    cases.push_back({.op = "gather_elements_backward",
                     .inputs = {f64(places), ids(places)},
                     .attrs = {{"dim", dim}, {"length", std::int64_t{4}}},
                     .int_limit = 4});
    for (const char* reduction : {"add", "mul"}) {
      cases.push_back({.op = "scatter_elements",
                       .inputs = {f64({4, 5}), ids(places), f64(places)},
                       .attrs = {{"dim", dim}, {"reduction", std::string(reduction)}},
                       .int_limit = 4,
                       .note = reduction,
                       .differentiable = std::string(reduction) != "mul"});
    }
  }
  cases.push_back({.op = "scatter_elements",
                   .inputs = {f64({4, 5}), ids({4, 1}), f64({4, 1})},
                   .attrs = {{"dim", std::int64_t{1}}, {"reduction", std::string("none")}},
                   .int_limit = 5,
                   .note = "none"});
}

void add_places(std::vector<OpCase>& cases) {
  const auto gather = [&](Shape x, Shape places, std::int64_t shared) {
    cases.push_back({.op = "gather_nd",
                     .inputs = {f64(std::move(x)), ids(std::move(places))},
                     .attrs = {{"batch_dims", shared}},
                     .int_limit = 3});
  };
  gather({3, 4, 5}, {6, 2}, 0);
  gather({3, 4, 5}, {2, 2, 1}, 0);
  gather({4, 3, 5}, {4, 2, 1}, 1);
  gather({4, 3, 5}, {4, 2}, 1);
  cases.push_back({.op = "gather_nd_backward",
                   .inputs = {f64({4, 6, 5}), ids({4, 6, 1})},
                   .attrs = {{"batch_dims", std::int64_t{1}}, {"lengths", Ints{3}}},
                   .int_limit = 3});
  for (const char* reduction : {"add", "mul"}) {
    cases.push_back({.op = "scatter_nd",
                     .inputs = {f64({3, 4, 5}), ids({6, 1}), f64({6, 4, 5})},
                     .attrs = {{"reduction", std::string(reduction)}},
                     .int_limit = 3,
                     .note = reduction,
                     .differentiable = std::string(reduction) != "mul"});
  }
  cases.push_back({.op = "scatter_nd",
                   .inputs = {f64({3, 4, 5}), ids({1, 2}), f64({1, 5})},
                   .attrs = {{"reduction", std::string("none")}},
                   .int_limit = 3,
                   .note = "none"});
}

void add_orders(std::vector<OpCase>& cases) {
  for (const std::int64_t dim : {0, 1, -1}) {
    for (const std::int64_t flag : {0, 1}) {
      cases.push_back({.op = "arg_max",
                       .inputs = {f64({4, 3, 5})},
                       .attrs = {{"dim", dim},
                                 {"keep", flag},
                                 {"last", flag},
                                 {"function", std::string(flag == 1 ? "max" : "min")}}});
      cases.push_back({.op = "top_k",
                       .inputs = {f64({4, 3, 5})},
                       .attrs = {{"dim", dim},
                                 {"k", std::int64_t{2}},
                                 {"largest", flag},
                                 {"sorted", std::int64_t{1}}}});
      for (const std::int64_t reverse : {0, 1}) {
        cases.push_back({.op = "cumsum",
                         .inputs = {f64({4, 3, 5})},
                         .attrs = {{"dim", dim}, {"exclusive", flag}, {"reverse", reverse}}});
      }
    }
  }
  cases.push_back({.op = "arg_max",
                   .inputs = {ids({4, 8})},
                   .attrs = {{"dim", std::int64_t{1}},
                             {"keep", std::int64_t{0}},
                             {"last", std::int64_t{0}},
                             {"function", std::string("max")}},
                   .int_limit = 3,
                   .note = "ties"});
  cases.push_back({.op = "one_hot",
                   .inputs = {ids({4, 3})},
                   .attrs = {{"depth", std::int64_t{5}},
                             {"dtype", std::string("f64")},
                             {"on", 2.5},
                             {"off", -1.0}},
                   .int_limit = 7,
                   .note = "some are outside"});
  for (const std::int64_t upper : {0, 1}) {
    cases.push_back({.op = "trilu",
                     .inputs = {f64({4, 3, 5})},
                     .attrs = {{"upper", upper}, {"k", std::int64_t{1}}}});
  }
  cases.push_back({.op = "iota",
                   .inputs = {},
                   .attrs = {{"shape", std::string("4,3,5")}, {"dim", std::int64_t{1}}}});
  for (const Shape& shape : {Shape{4, 11}, Shape{2, 3, 2, 11}, Shape{40, 11}}) {
    cases.push_back({.op = "log_softmax", .inputs = {f64(shape)}, .attrs = {}});
    cases.push_back(
        {.op = "log_softmax_backward", .inputs = {f64(shape), f64(shape)}, .attrs = {}});
  }
}

}  // namespace

std::vector<OpCase> generic_cases() {
  std::vector<OpCase> cases;
  add_unary(cases);
  add_binary(cases);
  add_choices(cases);
  add_reduce(cases);
  add_slices(cases);
  add_gathers(cases);
  add_places(cases);
  add_orders(cases);
  return cases;
}

}  // namespace weft
