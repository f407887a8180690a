// Collectives of weights in buckets of different sizes: the same tensors are moved, in fewer
// collectives, and no bucket is larger than it may be.

#include <gtest/gtest.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "weft/autodiff/differentiate.h"
#include "weft/frontend/model.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

// What is moved: phase, kind, axis, name of the value and where it goes.
using Moved = std::tuple<Phase, CollectiveKind, int, std::string, std::string>;

struct Collectives {
  std::multiset<Moved> moved;
  int count = 0;
  std::int64_t largest_bytes = 0;  // of those with several operands
};

Collectives collectives_of(const Program& program) {
  Collectives result;
  for (const StageProgram& stage : program.stages) {
    const Coordinates origin(stage.mesh.axes.size(), 0);
    for (const Segment& segment : stage.segments) {
      for (const Instruction& i : segment.instructions) {
        if (i.opcode != Opcode::collective) {
          continue;
        }
        ++result.count;
        std::int64_t bytes = 0;
        for (std::size_t o = 0; o < i.reads.size(); ++o) {
          const Slot& to = stage.slots[i.writes[o]];
          result.moved.insert(
              {segment.phase, i.collective, i.axis, to.name, format_placements(to.placements)});
          bytes += std::max(slot_type(stage, i.reads[o], origin, 1).bytes(),
                            slot_type(stage, i.writes[o], origin, 1).bytes());
        }
        result.largest_bytes = std::max(result.largest_bytes, i.reads.size() > 1 ? bytes : 0);
      }
    }
  }
  return result;
}

class Buckets : public testing::TestWithParam<const char*> {};

TEST_P(Buckets, MoveTheSameInFewerCollectives) {
  const OpTable ops = builtin_ops();
  const Model model = load_model("gpt:layers=3,hidden=32,heads=4,vocab=64,seq=8", {}, ops);
  Task task;
  task.model = {.description = model.description, .hash = {}};
  task.cluster = parse_cluster("1x4xA100-80GB");
  task.batch = 8;
  task.sequence = model.sequence;
  task.memory_budget_bytes.assign(4, std::int64_t{1} << 40);
  const Graph training = training_graph(model.forward, task.optimizer, ops);
  Plan plan = recipe_plan(parse_recipe(GetParam()), task, model.forward, ops).plan.value();
  int before = 0;
  std::multiset<Moved> moved;
  for (const std::int64_t bucket_bytes : {1, 3000, 1 << 20}) {
    plan.bucket_bytes = bucket_bytes;
    const Program program = lower(training, plan, ops);
    const std::vector<std::string> wrong = violations(program, training, ops);
    ASSERT_TRUE(wrong.empty()) << fmt::format("{}", fmt::join(wrong, "\n"));
    const Collectives found = collectives_of(program);
    EXPECT_LE(found.largest_bytes, bucket_bytes);
    if (before > 0) {
      EXPECT_LT(found.count, before);
      EXPECT_EQ(found.moved, moved);
    }
    before = found.count;
    moved = found.moved;
  }
  // At last there are no more than some for each layer and phase, where 40 parameters are moved.
  EXPECT_LT(before, 30);
}

INSTANTIATE_TEST_SUITE_P(Recipes, Buckets,
                         testing::Values("dp=4,micro-batches=2", "dp=4,zero=1,micro-batches=2",
                                         "dp=4,zero=2,micro-batches=2",
                                         "dp=4,zero=3,micro-batches=2",
                                         "dp=2,pp=2,zero=1,micro-batches=4"));

}  // namespace
}  // namespace weft
