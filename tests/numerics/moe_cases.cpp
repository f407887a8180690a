#include "weft/kernels/torch_headers.h"

#include "tests/numerics/moe_cases.h"

namespace weft {
namespace {

const std::int64_t kOne = 1;

TensorType real(Shape shape) {
  return {std::move(shape), DType::f64};
}

TensorType ints(Shape shape) {
  return {std::move(shape), DType::i64};
}

std::vector<OpCase> routing_cases() {
  const TensorType probs = real({kBatch, 3, 6});
  const TensorType chosen = real({kBatch, 3, 2});
  const Attrs grouped{{"k", std::int64_t{3}},
                      {"capacity", std::int64_t{2}},
                      {"normalise", kOne},
                      {"groups", std::int64_t{3}},
                      {"top_groups", std::int64_t{2}},
                      {"group_best", std::int64_t{2}}};
  std::vector<OpCase> cases = {
      {"moe_route",
       {probs},
       {{"k", std::int64_t{2}}, {"capacity", kOne}, {"normalise", std::int64_t{0}}},
       1,
       "drops"},
      {"moe_route",
       {probs},
       {{"k", std::int64_t{2}}, {"capacity", std::int64_t{3}}, {"normalise", kOne}},
       1,
       "dropless"},
      {"moe_route", {real({kBatch, 6})}, {{"k", kOne}, {"capacity", kOne}}, 1, "no sequence"},
      {"moe_route", {probs, real({6})}, grouped, 1, "groups and bias"},
  };
  for (const std::int64_t normalise : {0, 1}) {
    cases.push_back({"moe_route_backward",
                     {chosen, probs, ints({kBatch, 3, 2})},
                     {{"normalise", normalise}},
                     5});
  }
  return cases;
}

std::vector<OpCase> slot_cases() {
  const TensorType x = real({kBatch, 3, 5});
  const TensorType chosen = ints({kBatch, 3, 2});
  const TensorType gates = real({kBatch, 3, 2});
  const TensorType y = real({4, Dim(2, true), 5});
  const Attrs size{{"experts", std::int64_t{4}}, {"capacity", std::int64_t{2}}};
  const TensorType row_chosen = ints({kBatch, 2});
  return {
      {"moe_dispatch", {x, chosen, chosen}, size, 4},
      {"moe_dispatch", {real({kBatch, 9}), row_chosen, row_chosen}, size, 4, "no sequence"},
      {"moe_dispatch_backward", {y, chosen, chosen}, {}, 4},
      {"moe_combine", {y, chosen, chosen, gates}, {}, 4},
      {"moe_combine", {y, row_chosen, row_chosen, real({kBatch, 2})}, {}, 4, "no sequence"},
      {"moe_combine_backward", {x, y, chosen, chosen, gates}, {}, 4},
  };
}

std::vector<OpCase> loss_cases() {
  const Attrs attrs{{"weight", 0.5}, {"k", std::int64_t{2}}};
  const TensorType probs = real({kBatch, 3, 6});
  return {
      {"balance_loss", {probs, real({6}), real({})}, attrs},
      {"balance_loss", {real({kBatch, 4}), real({4}), real({})}, attrs, 1, "no sequence"},
      {"balance_loss_backward", {real({}), probs, real({6}), real({})}, attrs},
  };
}

std::vector<OpCase> table_cases() {
  std::vector<OpCase> cases;
  for (const std::int64_t both : {0, 1}) {
    cases.push_back({"relative_buckets",
                     {},
                     {{"queries", std::int64_t{300}},
                      {"keys", std::int64_t{290}},
                      {"buckets", std::int64_t{32}},
                      {"max_distance", std::int64_t{128}},
                      {"bidirectional", both}}});
    cases.push_back({"relative_buckets",
                     {},
                     {{"queries", std::int64_t{7}},
                      {"keys", std::int64_t{40}},
                      {"buckets", std::int64_t{8}},
                      {"max_distance", std::int64_t{20}},
                      {"bidirectional", both}}});
  }
  cases.push_back({"window_index", {}, {{"size", std::int64_t{3}}}});
  const Attrs mask{{"height", std::int64_t{12}},
                   {"width", std::int64_t{8}},
                   {"window", std::int64_t{4}},
                   {"shift", std::int64_t{1}},
                   {"dtype", std::string("f64")}};
  cases.push_back({"window_mask", {}, mask});
  Attrs heads = mask;
  heads["heads"] = std::int64_t{2};
  cases.push_back({"window_mask", {}, heads});
  return cases;
}

// Choices that moe_route could have made: those of a token differ, and no slot is given twice. Some
// are dropped.
void set_choices(at::Tensor& expert, at::Tensor* position, std::int64_t experts,
                 std::int64_t slots) {
  const std::int64_t k = expert.size(-1);
  std::vector<std::int64_t> taken(static_cast<std::size_t>(experts), 0);
  auto* const e = expert.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < expert.numel(); ++i) {
    e[i] = (i % k == 0 ? e[i] : e[i - 1] + 1) % experts;
    const std::int64_t place = taken[static_cast<std::size_t>(e[i])]++;
    if (position != nullptr) {
      position->data_ptr<std::int64_t>()[i] = place < slots && i % 7 != 6 ? place : -1;
    }
  }
}

}  // namespace

void set_moe_inputs(const OpCase& c, Tensors& inputs) {
  if (c.op == "moe_route") {
    inputs[0] = at::softmax(inputs[0], -1);
  } else if (c.op == "moe_route_backward") {
    inputs[1] = at::softmax(inputs[1], -1);
    set_choices(inputs[2], nullptr, inputs[1].size(-1), 0);
  } else if (c.op == "moe_dispatch") {
    const std::int64_t capacity = attr_int(c.attrs, "capacity");
    set_choices(inputs[1], &inputs[2], attr_int(c.attrs, "experts"), capacity * inputs[0].size(0));
  } else if (c.op == "moe_dispatch_backward" || c.op == "moe_combine") {
    set_choices(inputs[1], &inputs[2], inputs[0].size(0), inputs[0].size(1));
  } else if (c.op == "moe_combine_backward") {
    set_choices(inputs[2], &inputs[3], inputs[1].size(0), inputs[1].size(1));
  } else if (c.op.starts_with("balance_loss")) {
    inputs[c.op == "balance_loss" ? 1 : 2].abs_();
  }
}

std::vector<OpCase> moe_cases() {
  std::vector<OpCase> cases;
  for (const auto& list : {routing_cases(), slot_cases(), loss_cases(), table_cases()}) {
    cases.insert(cases.end(), list.begin(), list.end());
  }
  return cases;
}

}  // namespace weft
