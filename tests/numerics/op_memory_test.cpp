// Workspace and aliases of every case against an allocator that counts.
//
// A call may hold exactly outputs that are no aliases + workspace(call) bytes at its peak. The
// count is of bytes as asked for, so there is no rounding to allow for.
#include "tests/numerics/counting_allocator.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/numerics/harness.h"

namespace weft {
namespace {

bool shares_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

const Alias* alias_of(const OpDef& def, std::size_t output) {
  for (const Alias& alias : def.aliases) {
    if (alias.output == static_cast<int>(output)) {
      return &alias;
    }
  }
  return nullptr;
}

void check_aliases(const OpDef& def, const Tensors& inputs, const Tensors& before,
                   const Tensors& outputs) {
  std::vector<bool> overwritten(inputs.size(), false);
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const Alias* alias = alias_of(def, o);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool stated = alias != nullptr && alias->input == static_cast<int>(i);
      EXPECT_EQ(shares_storage(outputs[o], inputs[i]), stated) << "output " << o << ", input " << i;
      overwritten[i] = overwritten[i] || (stated && alias->in_place);
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(overwritten[i] || at::equal(inputs[i], before[i])) << "input " << i << " changed";
  }
}

void check_memory(const OpTable& ops, const OpCase& c) {
  CountingAllocator& allocator = CountingAllocator::install();
  const OpDef& def = find_op(ops, c.op);
  const OpCall call = call_of_case(ops, c);
  const Tensors inputs = clones(inputs_of_case(c));
  const Tensors before = clones(inputs);
  const PreparedKernel kernel = prepare(def, call);
  const KernelEnv env = test_env();

  const std::int64_t held = allocator.current();
  allocator.reset_peak();
  const Tensors outputs = run(kernel, env, inputs);
  const std::int64_t peak = allocator.peak() - held;
  const std::int64_t kept = allocator.current() - held;

  std::int64_t own = 0;  // bytes of outputs that are no aliases
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    own += alias_of(def, o) == nullptr ? call.outputs[o].bytes() : 0;
  }
  EXPECT_EQ(kept, own) << "bytes of outputs";
  EXPECT_EQ(peak - own, def.workspace == nullptr ? 0 : def.workspace(call)) << "workspace";
  check_aliases(def, inputs, before, outputs);
}

// With an output in the storage of an input: the same numbers, no bytes for it, other inputs as
// they were.
void check_overwrite(const OpTable& ops, const OpCase& c, const MayOverwrite& may) {
  CountingAllocator& allocator = CountingAllocator::install();
  const OpDef& def = find_op(ops, c.op);
  const OpCall call = call_of_case(ops, c);
  const Tensors before = inputs_of_case(c);
  const Tensors inputs = clones(before);
  const Tensors expected = run_case(ops, c, before);
  const PreparedKernel kernel = prepare(def, call);
  const KernelEnv env = test_env();
  const auto output = static_cast<std::size_t>(may.output);
  const auto input = static_cast<std::size_t>(may.input);
  Tensors out(call.outputs.size());
  out[output] = inputs[input];

  const std::int64_t held = allocator.current();
  allocator.reset_peak();
  const Tensors outputs = run(kernel, env, inputs, out);
  const std::int64_t peak = allocator.peak() - held;

  std::int64_t own = 0;
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    own += o == output ? 0 : call.outputs[o].bytes();
    EXPECT_TRUE(at::equal(outputs[o], expected[o])) << "output " << o;
  }
  EXPECT_EQ(peak - own, def.workspace == nullptr ? 0 : def.workspace(call)) << "workspace";
  EXPECT_TRUE(shares_storage(outputs[output], inputs[input]));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(i == input || at::equal(inputs[i], before[i])) << "input " << i << " changed";
  }
}

TEST(OpMemory, OutputsMayOverwriteTheInputsThatTheOpNames) {
  const OpTable ops = builtin_ops();
  std::set<std::tuple<std::string, int, int>> checked;
  for (const OpCase& c : all_cases()) {
    for (const OpCase& sized : {c, in_f32(c)}) {
      const OpCall call = call_of_case(ops, sized);
      for (const MayOverwrite& may : find_op(ops, c.op).may_overwrite) {
        const auto input = static_cast<std::size_t>(may.input);
        if (input >= call.inputs.size() ||
            call.inputs[input] != call.outputs[static_cast<std::size_t>(may.output)]) {
          continue;
        }
        SCOPED_TRACE(describe(sized));
        check_overwrite(ops, sized, may);
        checked.insert({c.op, may.output, may.input});
      }
    }
  }
  for (const auto& [name, def] : ops) {
    for (const MayOverwrite& may : def.may_overwrite) {
      EXPECT_TRUE(checked.contains({name, may.output, may.input})) << name << " was not checked";
    }
  }
}

TEST(OpMemory, WorkspaceAndAliasesAreExact) {
  const OpTable ops = builtin_ops();
  for (const OpCase& c : all_cases()) {
    const Threads one(1);
    for (const OpCase& sized : {c, in_f32(c)}) {
      SCOPED_TRACE(describe(sized));
      check_memory(ops, sized);
    }
    if (const std::optional<OpCase> low = in_bf16(ops, c)) {
      SCOPED_TRACE(describe(*low));
      check_memory(ops, *low);
    }
    SCOPED_TRACE(describe(c) + ", two threads");
    const Threads two(2);
    check_memory(ops, in_f32(c));
  }
}

// Sizes at which ATen would take threads.
TEST(OpMemory, LargeElementwiseCallsToo) {
  const OpTable ops = builtin_ops();
  const Threads two(2);
  const TensorType x{{64, 2048}, DType::f32};
  for (const std::int64_t keep : {0, 1}) {
    check_memory(ops, {.op = "sum_leading", .inputs = {x}, .attrs = {{"keep", keep}}});
  }
  for (const std::int64_t tanh : {0, 1}) {
    check_memory(ops, {.op = "gelu", .inputs = {x}, .attrs = {{"tanh", tanh}}});
    check_memory(ops, {.op = "gelu_backward", .inputs = {x, x}, .attrs = {{"tanh", tanh}}});
  }
  check_memory(ops, {.op = "add", .inputs = {x, {{2048}, DType::f32}}, .attrs = {}});
  check_memory(ops, {.op = "dropout", .inputs = {x}, .attrs = {{"p", 0.1}}});
  check_memory(ops, {.op = "sum_squares", .inputs = {x}, .attrs = {}});
  const TensorType low{{64, 2048}, DType::bf16};
  check_memory(
      ops, {.op = "accumulate", .inputs = {low, low}, .attrs = {{"dtype", std::string("f32")}}});
  check_memory(ops, {.op = "scale", .inputs = {low}, .attrs = {{"value", 0.5}}});
  check_memory(ops, {.op = "cast", .inputs = {low}, .attrs = {{"dtype", std::string("f32")}}});
}

}  // namespace
}  // namespace weft
