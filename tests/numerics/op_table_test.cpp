// The table of ops is complete: every op has all its parts, a case, and a line in the spec.
#include "weft/kernels/torch_headers.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/numerics/harness.h"
#include "weft/base/file.h"

namespace weft {
namespace {

TEST(OpTableIsComplete, EveryOpHasItsParts) {
  for (const auto& [name, def] : builtin_ops()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(def.name, name);
    EXPECT_NE(def.infer, nullptr);
    EXPECT_NE(def.factors, nullptr);
    EXPECT_NE(def.cost, nullptr);
    EXPECT_NE(def.gradient == nullptr, def.no_gradient.empty())
        << "a gradient, or why there is none";
    EXPECT_NE(def.kernel == nullptr, !coded_kernels().contains(name)) << "one kernel, data or code";
  }
  for (const auto& [name, kernel] : coded_kernels()) {
    EXPECT_TRUE(builtin_ops().contains(name)) << name;
  }
}

TEST(OpTableIsComplete, EveryOpHasACase) {
  std::set<std::string> with_case;
  for (const OpCase& c : all_cases()) {
    with_case.insert(c.op);
  }
  for (const auto& [name, def] : builtin_ops()) {
    EXPECT_TRUE(with_case.contains(name)) << name;
  }
}

TEST(OpTableIsComplete, EveryOpHasALineInTheSpec) {
  const std::string spec = read_file(WEFT_SOURCE_DIR "/docs/spec/ops.md");
  for (const auto& [name, def] : builtin_ops()) {
    EXPECT_NE(spec.find("| `" + name + "` |"), std::string::npos) << name;
  }
}

// Operators that ATen lacks, and rules that do not fit the types, throw.
TEST(OpTableIsComplete, KernelsResolveAndRulesFit) {
  const OpTable ops = builtin_ops();
  for (const OpCase& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    const OpDef& def = find_op(ops, c.op);
    const OpCall call = call_of_case(ops, c);
    EXPECT_NO_THROW((void)prepare(def, call));
    EXPECT_NO_THROW((void)lay_out(def.factors(call), call.inputs, call.outputs));
    const Cost cost = def.cost(call);
    EXPECT_GE(cost.flops, 0);
    EXPECT_EQ(cost.bytes_moved > 0, c.op != "reshape");
  }
}

}  // namespace
}  // namespace weft
