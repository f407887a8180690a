#include "weft/solver/submesh_stages.h"

#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

// Every cut and every assignment of sizes, stage by stage.
void try_all(const SubmeshProblem& problem, int total_stages, int place, int devices,
             std::vector<double>& stages, double& least) {
  if (static_cast<int>(stages.size()) == total_stages) {
    if (place == problem.places && devices == 0) {
      double sum = 0;
      double most = 0;
      for (const double t : stages) {
        sum += t;
        most = std::max(most, t);
      }
      least = std::min(least, sum + (problem.micro_batches - 1) * most);
    }
    return;
  }
  const int behind = total_stages - static_cast<int>(stages.size());
  for (std::size_t size = 0; size < problem.sizes.size(); ++size) {
    for (int end = place + 1; end <= problem.places && problem.sizes[size] <= devices; ++end) {
      stages.push_back(problem.seconds(static_cast<int>(size), place, end,
                                       std::min(problem.micro_batches, behind)));
      try_all(problem, total_stages, end, devices - problem.sizes[size], stages, least);
      stages.pop_back();
    }
  }
}

TEST(SubmeshStages, AreTheBestOfAllCuts) {
  std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same cases in every run
  int fits = 0;
  for (int i = 0; i < 400; ++i) {
    SCOPED_TRACE(i);
    SubmeshProblem problem;
    problem.places = 1 + static_cast<int>(random() % 5);
    problem.devices = 1 + static_cast<int>(random() % 6);
    problem.sizes = {1, 2, 4};
    problem.micro_batches = 1 + static_cast<int>(random() % 8);
    problem.most_stages = 1 + static_cast<int>(random() % 5);
    std::vector<double> work;
    std::vector<double> memory;
    for (int l = 0; l < problem.places; ++l) {
      work.push_back(1 + static_cast<double>(random() % 100));
      memory.push_back(static_cast<double>(random() % 10));
    }
    const double room = 5 + static_cast<double>(random() % 40);
    const double efficiency = 0.5 + static_cast<double>(random() % 50) / 100;
    problem.seconds = [&](int size, int begin, int end, int in_flight) {
      const int n = problem.sizes[size];
      double sum = 0;
      double held = 0;
      for (int l = begin; l < end; ++l) {
        sum += work[l];
        held += memory[l] * in_flight / n;
      }
      return held > room ? std::numeric_limits<double>::infinity()
                         : sum / (1 + efficiency * (n - 1)) + n;
    };
    double least = std::numeric_limits<double>::infinity();
    for (int stages = 1; stages <= problem.most_stages; ++stages) {
      std::vector<double> seconds;
      try_all(problem, stages, 0, problem.devices, seconds, least);
    }
    const SubmeshAnswer answer = best_submeshes(problem);
    if (least == std::numeric_limits<double>::infinity()) {
      EXPECT_TRUE(answer.stages.empty());
      continue;
    }
    ++fits;
    ASSERT_NEAR(answer.seconds, least, 1e-9);
  }
  EXPECT_GT(fits, 100);
}

}  // namespace
}  // namespace weft
