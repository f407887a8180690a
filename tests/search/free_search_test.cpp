// A search that is told part of the plan is never better than the one that is free.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "search_problem.h"
#include "weft/search/search.h"

namespace weft {
namespace {

struct FreeCase {
  const char* model;
  const char* cluster;
  std::int64_t batch;
  std::int64_t memory_gib;
};

void PrintTo(const FreeCase& c, std::ostream* out) {
  *out << c.model << " on " << c.cluster;
}

double step_seconds(const SearchProblem& p, const std::string& fixed) {
  PlanLimits limits;
  if (!fixed.empty()) {
    fix_limits(fixed, limits);
  }
  const SearchResult result = search_all(p.task, p.training, p.ops, limits, {});
  return result.best ? result.best->step_s : std::numeric_limits<double>::infinity();
}

class FreeSearch : public testing::TestWithParam<FreeCase> {};

TEST_P(FreeSearch, IsNeverSlowerThanOneWithLimits) {
  const FreeCase& c = GetParam();
  const SearchProblem p = search_problem(c.model, c.cluster, c.batch, c.memory_gib << 30);
  const double free_s = step_seconds(p, "");
  for (const char* fixed : {"pp=2", "pp=4", "tp=2", "dp=2", "schedule=zb-v"}) {
    EXPECT_LE(free_s, 1.001 * step_seconds(p, fixed)) << fixed;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tasks, FreeSearch,
    testing::Values(
        FreeCase{"gpt2-medium", "2x2xT4", 16, 15},
        FreeCase{"gpt:layers=6,hidden=1024,heads=16,vocab=8192,seq=512", "2x2xV100-16GB", 16, 15},
        FreeCase{"gpt:layers=8,hidden=768,heads=12,vocab=50304,seq=512", "4x1xT4", 8, 15},
        FreeCase{"bert-large", "2x2xT4", 16, 15},
        FreeCase{"llama:layers=6,hidden=1024,heads=16,ffn=2816,vocab=32000,seq=1024", "1x4xRTX4090",
                 8, 4},
        FreeCase{"gpt:layers=4,hidden=512,heads=8,vocab=2048,seq=256,experts=8,capacity=2",
                 "2x2xT4", 32, 15}));

}  // namespace
}  // namespace weft
