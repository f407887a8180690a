// The static checks notice what is broken: a sound program loses one instruction, or two change
// places, and the checks must complain.

#include <gtest/gtest.h>

#include <random>

#include "weft/autodiff/differentiate.h"
#include "weft/base/hash.h"
#include "weft/frontend/model.h"
#include "weft/graph/text.h"
#include "weft/program/check.h"
#include "weft/program/lower.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

struct Sound {
  OpTable ops = builtin_ops();
  Graph training;
  Program program;
};

Sound lowered(const std::string& recipe, int devices) {
  Sound s;
  const Model model = load_model("gpt:layers=2,hidden=16,heads=2,vocab=32,seq=8", {}, s.ops);
  Task task;
  task.model = {.description = model.description,
                .hash = hash_hex(hash_text(format_graph(model.forward)))};
  task.cluster = parse_cluster("1x" + std::to_string(devices) + "xT4");
  task.batch = 8;
  task.sequence = model.sequence;
  task.optimizer.clip = 1;
  task.memory_budget_bytes.assign(devices, std::int64_t{1} << 40);
  s.training = training_graph(model.forward, task.optimizer, s.ops);
  const RecipePlan made = recipe_plan(parse_recipe(recipe), task, model.forward, s.ops);
  s.program = lower(s.training, made.plan.value(), s.ops);
  return s;
}

struct Place {
  int stage = 0;
  int segment = 0;
  int instruction = 0;
};

std::vector<Place> places(const Program& program, Opcode opcode) {
  std::vector<Place> result;
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    for (std::size_t g = 0; g < program.stages[s].segments.size(); ++g) {
      const auto& list = program.stages[s].segments[g].instructions;
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (list[i].opcode == opcode) {
          result.push_back({static_cast<int>(s), static_cast<int>(g), static_cast<int>(i)});
        }
      }
    }
  }
  return result;
}

std::vector<Instruction>& list_at(Program& program, const Place& p) {
  return program.stages[p.stage].segments[p.segment].instructions;
}

class Broken : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(Broken, LosingAnyInstructionIsNoticed) {
  const Sound sound = lowered(GetParam().first, GetParam().second);
  ASSERT_TRUE(violations(sound.program, sound.training, sound.ops).empty());
  for (const Opcode opcode : {Opcode::input, Opcode::compute, Opcode::collective, Opcode::wait,
                              Opcode::send, Opcode::recv, Opcode::free}) {
    const std::vector<Place> all = places(sound.program, opcode);
    for (std::size_t k = 0; k < all.size(); k += 1 + all.size() / 12) {
      Program broken = sound.program;
      auto& list = list_at(broken, all[k]);
      const Instruction lost = list[all[k].instruction];
      // An update in place writes nothing new: without it the data flow is still sound.
      const bool in_place =
          opcode == Opcode::compute && sound.training.nodes[lost.node].role == Role::update;
      const bool gathers_in_place =
          opcode == Opcode::collective &&
          sound.program.stages[all[k].stage].slots[lost.writes[0]].view_of >= 0;
      // A wait at the end of a segment closes what nothing uses.
      if (in_place || gathers_in_place || opcode == Opcode::wait) {
        continue;
      }
      list.erase(list.begin() + all[k].instruction);
      EXPECT_FALSE(violations(broken, sound.training, sound.ops).empty())
          << opcode_name(opcode) << " " << all[k].instruction << " of stage " << all[k].stage
          << " segment " << all[k].segment;
    }
  }
}

TEST_P(Broken, AReceiveThatIsNotWaitedForIsNoticed) {
  const Sound sound = lowered(GetParam().first, GetParam().second);
  for (const Place& p : places(sound.program, Opcode::wait)) {
    Program broken = sound.program;
    auto& list = list_at(broken, p);
    const Phase phase = broken.stages[p.stage].segments[p.segment].phase;
    if (phase != Phase::forward) {
      continue;
    }
    list.erase(list.begin() + p.instruction);
    EXPECT_FALSE(violations(broken, sound.training, sound.ops).empty()) << p.instruction;
  }
}

INSTANTIATE_TEST_SUITE_P(Recipes, Broken,
                         testing::Values(std::pair{"dp=2,zero=3", 2}, std::pair{"tp=2", 2},
                                         std::pair{"pp=2,micro-batches=4", 2}));

// Every output that lowering put into the storage of an input: a read of that input behind it is
// noticed.
TEST(Overwritten, ReadingWhatIsGoneIsNoticed) {
  const Sound sound = lowered("micro-batches=2", 1);
  int found = 0;
  for (const Place& p : places(sound.program, Opcode::compute)) {
    const StageProgram& stage = sound.program.stages[p.stage];
    const Instruction& i = stage.segments[p.segment].instructions[p.instruction];
    const Node& node = sound.training.nodes[i.node];
    const SlotId input = stage.slots[i.writes[0]].view_of;
    if (input < 0 || node.role == Role::update || !find_op(sound.ops, node.op).aliases.empty()) {
      continue;
    }
    ++found;
    Program broken = sound.program;
    Instruction late{.opcode = Opcode::copy};
    late.reads = {input};
    auto& list = list_at(broken, p);
    list.insert(list.begin() + p.instruction + 1, late);
    EXPECT_FALSE(violations(broken, sound.training, sound.ops).empty()) << node.name;
  }
  EXPECT_GT(found, 10);  // residual sums, gradients of norms and activations, the logits
}

TEST(Deadlock, StagesThatWaitForEachOtherAreNamed) {
  Sound s = lowered("pp=2,micro-batches=2", 2);
  // The last stage wants to go backward before it has seen the first micro-batch.
  std::swap(s.program.stages[1].schedule[0], s.program.stages[1].schedule[1]);
  const std::vector<std::string> found = violations(s.program, s.training, s.ops);
  EXPECT_FALSE(found.empty());
}

TEST(Memory, RecomputationNeedsLessAndMoreMicroBatchesInFlightNeedMore) {
  const Sound kept = lowered("micro-batches=1", 1);
  const Sound again = lowered("micro-batches=1,recompute=block", 1);
  const auto peak = [](const Sound& s, int devices) {
    return peak_memory(s.program, devices, s.training, s.ops).front();
  };
  EXPECT_LT(peak(again, 1), peak(kept, 1));
  const Sound flushed = lowered("pp=2,micro-batches=8,schedule=gpipe", 2);
  const Sound steady = lowered("pp=2,micro-batches=8,schedule=1f1b", 2);
  EXPECT_LT(peak(steady, 2), peak(flushed, 2));
}

}  // namespace
}  // namespace weft
