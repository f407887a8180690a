// Splitting any factor of any case in two, and running on partial sums wherever the rule says the
// op is linear, gives the numbers of the whole.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/numerics/harness.h"
#include "weft/ops/rules.h"
#include "weft/sharding/propagate.h"

namespace weft {
namespace {

const Mesh kMesh{.devices = {0, 1}, .axes = {{"x", 2}}};

at::Tensor part(const at::Tensor& whole, const Region& region) {
  at::Tensor view = whole;
  for (std::size_t d = 0; d < region.size(); ++d) {
    view = view.narrow(static_cast<std::int64_t>(d), region[d].begin, region[d].size());
  }
  return view.clone(at::MemoryFormat::Contiguous);
}

bool is_partial(const Placements& placements) {
  return placements[0].kind == Placement::Kind::partial;
}

// What one device gets: types, tensors and regions.
struct Local {
  OpCall call;
  Tensors inputs;
  KernelEnv env;
};

Local local_of(const OpCall& whole, const Tensors& inputs, const NodePlacement& placed,
               int device) {
  Local local{
      .call = {.inputs = {}, .outputs = {}, .attrs = whole.attrs}, .inputs = {}, .env = test_env()};
  const Coordinates at{device};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Region where = region(whole.inputs[i].shape, placed.inputs[i], kMesh, at);
    local.call.inputs.push_back(local_type(whole.inputs[i], placed.inputs[i], kMesh, at));
    // A partial sum: device 0 has noise, device 1 what is missing to the whole.
    const at::Tensor noise =
        is_partial(placed.inputs[i]) ? random_tensor(whole.inputs[i], 500 + i) : at::Tensor();
    const at::Tensor source = !noise.defined() ? inputs[i]
                              : device == 0    ? noise
                                               : inputs[i] - noise;
    local.inputs.push_back(part(source, where));
    local.env.inputs.push_back(where);
    local.env.whole_inputs.push_back(whole.inputs[i].shape);
    local.env.counted.push_back(device == 0 ||
                                placed.inputs[i][0].kind != Placement::Kind::replicate);
  }
  for (std::size_t i = 0; i < whole.outputs.size(); ++i) {
    local.call.outputs.push_back(local_type(whole.outputs[i], placed.outputs[i], kMesh, at));
    local.env.outputs.push_back(region(whole.outputs[i].shape, placed.outputs[i], kMesh, at));
    local.env.whole_outputs.push_back(whole.outputs[i].shape);
  }
  return local;
}

// Runs both devices and puts their outputs together; outputs that are replicated must be equal
// already.
Tensors run_split(const OpDef& def, const OpCall& whole, const Tensors& inputs,
                  const NodePlacement& placed) {
  Tensors joined;
  for (const TensorType& type : whole.outputs) {
    joined.push_back(at::zeros_like(random_tensor(type, 0)));
  }
  for (int device = 0; device < 2; ++device) {
    const Local local = local_of(whole, inputs, placed, device);
    const Tensors outputs = run_op(def, local.call, local.env, local.inputs);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      at::Tensor target = joined[i];
      const Region& where = local.env.outputs[i];
      for (std::size_t d = 0; d < where.size(); ++d) {
        target = target.narrow(static_cast<std::int64_t>(d), where[d].begin, where[d].size());
      }
      if (placed.outputs[i][0].kind == Placement::Kind::replicate && device == 1) {
        EXPECT_LE(relative_error(outputs[i], joined[i]), 1e-12) << "replicas differ, output " << i;
      } else if (placed.outputs[i][0].reduction == Reduction::log_sum_exp && device == 1) {
        target.copy_(at::logaddexp(target, outputs[i]));
      } else {
        target.add_(outputs[i]);
      }
    }
  }
  return joined;
}

void expect_same(const OpDef& def, const OpCall& call, const Tensors& inputs,
                 const NodePlacement& placed) {
  const Tensors expected = run_op(def, call, test_env(), clones(inputs));
  const Tensors actual = run_split(def, call, inputs, placed);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(relative_error(actual[i], expected[i]), 1e-9) << "output " << i;
  }
}

// Weights 2 : 1 for the parts of every operand. Only a factor that is a dim by itself may be split
// so.
bool make_uneven(const Factors& factors, int factor, NodePlacement& placed) {
  if (factors.factors[static_cast<std::size_t>(factor)].size.size < 3) {
    return false;
  }
  for (const auto* side : {&factors.inputs, &factors.outputs}) {
    for (const auto& operand : *side) {
      for (const Factors::DimFactors& dim : operand) {
        if (dim.size() > 1 && std::find(dim.begin(), dim.end(), factor) != dim.end()) {
          return false;
        }
      }
    }
  }
  for (auto* side : {&placed.inputs, &placed.outputs}) {
    for (Placements& placements : *side) {
      if (placements[0].kind == Placement::Kind::shard) {
        placements[0].ratios = {2, 1};
      }
    }
  }
  return true;
}

TEST(OpSplit, SplittingAFactorGivesTheWhole) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  std::map<std::string, int> splits;
  for (const OpCase& c : all_cases()) {
    const OpDef& def = find_op(ops, c.op);
    const OpCall call = call_of_case(ops, c);
    const Tensors inputs = inputs_of_case(c);
    const Factors factors = lay_out(def.factors(call), call.inputs, call.outputs);
    for (int f = 0; f < static_cast<int>(factors.factors.size()); ++f) {
      if (!can_split(factors, f, 2)) {
        continue;
      }
      const char letter = factors.factors[static_cast<std::size_t>(f)].letter;
      SCOPED_TRACE(describe(c) + ", factor " + letter);
      NodePlacement placed = place_node(factors, kMesh, {split_factor(letter)}, c.op);
      expect_same(def, call, inputs, placed);
      ++splits[c.op];
      if (make_uneven(factors, f, placed)) {
        SCOPED_TRACE("2 : 1");
        expect_same(def, call, inputs, placed);
      }
    }
  }
  for (const auto& [name, def] : ops) {
    const bool whole = name == "constant" || name == "clip_scale" || name == "moe_route";
    EXPECT_EQ(splits.contains(name), !whole) << name;
  }
}

TEST(OpSplit, LinearOpsRunOnPartialSums) {
  const Threads one(1);
  const OpTable ops = builtin_ops();
  int sets = 0;
  for (const OpCase& c : all_cases()) {
    const OpDef& def = find_op(ops, c.op);
    const OpCall call = call_of_case(ops, c);
    const Factors factors = lay_out(def.factors(call), call.inputs, call.outputs);
    for (int set = 0; set < static_cast<int>(factors.linear.size()); ++set) {
      SCOPED_TRACE(describe(c) + ", linear set " + std::to_string(set));
      const Split split{.kind = Split::Kind::linear, .linear_set = set};
      const NodePlacement placed = place_node(factors, kMesh, {split}, c.op);
      const bool narrow = call.outputs[0].dtype == DType::f32 || call.inputs[0].dtype == DType::f32;
      if (!narrow) {  // rounding of the parts is not linear
        expect_same(def, call, inputs_of_case(c), placed);
        ++sets;
      }
    }
  }
  EXPECT_GT(sets, 30);
}

}  // namespace
}  // namespace weft
