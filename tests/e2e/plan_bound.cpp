// plan_bound PLAN: the simulated step of a plan and the bound that holds for every plan of its
// model on its cluster, in seconds. Tests of plans written by hand ask that the second is not the
// greater.

#include <fmt/format.h>

#include "weft/api/task.h"
#include "weft/search/bound.h"
#include "weft/search/evaluate.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "plan_bound PLAN\n");
    return 2;
  }
  const weft::Plan plan = weft::read_plan(argv[1]);
  const weft::Setup setup = weft::setup_of(plan);
  const weft::CostModel cost(plan.cluster);
  fmt::print("{} {}\n", weft::evaluate_unchecked(plan, setup.training, setup.ops, cost).step_s,
             weft::step_bound_seconds(setup.training, setup.task.batch, setup.ops, cost));
  return 0;
}
