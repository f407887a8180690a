// All-reduces of 1 MB to 1 GB on one host of 8 A100, measured with NCCL's tests and published with
// vTrain (github.com/VIA-Research/vTrain), against the catalogue's A100-80GB: nothing is fitted.
// WEFT_REFERENCE_DATA names the folder with throughput/vtrain_a100_allreduce8.csv.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "predict.h"
#include "weft/cost/cost.h"

namespace weft::truth {
namespace {

TEST(AllReduce, OnEightA100) {
  const std::string path = reference_file("throughput/vtrain_a100_allreduce8.csv");
  if (path.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no throughput/vtrain_a100_allreduce8.csv";
  }
  const Cluster cluster = parse_cluster("1x8xA100-80GB");
  const CostModel cost(cluster);
  std::vector<DeviceId> all(8);
  std::iota(all.begin(), all.end(), 0);
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  double sum = 0;
  double largest = 0;
  int rows = 0;
  while (std::getline(in, line)) {
    double bytes = 0;
    double nanoseconds = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%lf,%*[^,],%*[^,],%lf", &bytes, &nanoseconds), 2) << line;
    const double predicted = cost.collective_seconds(CollectiveKind::all_reduce, {all}, bytes);
    const double error = std::abs(predicted / (nanoseconds * 1e-9) - 1);
    sum += error;
    largest = std::max(largest, error);
    ++rows;
  }
  ASSERT_GT(rows, 1000);
  fmt::print("{} all-reduces: mean error {:.1f} %, the largest {:.1f} %\n", rows, 100 * sum / rows,
             100 * largest);
  EXPECT_LE(sum / rows, 0.03);
}

}  // namespace
}  // namespace weft::truth
