// Throughput of GPT models published by Narayanan et al., Efficient Large-Scale Language Model
// Training on GPU Clusters Using Megatron-LM, SC 2021, table 1: hosts of 8 A100-80GB, sequences of
// 2048, vocabulary 51200, all blocks recomputed, half precision. TFLOP/s a device count the
// recomputation: a step has 96 B s l h^2 (1 + s / 6h + V / 16lh) flops.
//
// Predicted from the catalogue with three fitted constants: the efficiencies of matmul, of
// attention (which was not fused: its scores went through memory) and of streaming kernels. To see
// the table: truth_test --gtest_filter='Megatron.*'

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "predict.h"
#include "weft/base/error.h"

namespace weft::truth {
namespace {

struct Row {
  const char* name = "";
  int devices = 0;
  int tp = 1;
  int pp = 1;
  int micro = 1;
  int batch = 1;
  int layers = 0;
  int hidden = 0;
  int heads = 0;
  int chunks = 1;  // of interleaved 1F1B
  double tflops = 0;
};

constexpr Row kRows[] = {
    {"1.7B", 32, 1, 1, 16, 512, 24, 2304, 24, 1, 137},
    {"3.6B", 64, 2, 1, 16, 512, 30, 3072, 32, 1, 138},
    {"7.5B", 128, 4, 1, 16, 512, 36, 4096, 32, 1, 142},
    {"18B", 256, 8, 1, 8, 1024, 40, 6144, 48, 1, 135},
    {"39B", 512, 8, 2, 4, 1536, 48, 8192, 64, 1, 138},
    {"76B", 1024, 8, 4, 2, 1792, 60, 10240, 80, 3, 140},
    {"145B", 1536, 8, 8, 2, 2304, 80, 12288, 96, 2, 148},
    {"310B", 1920, 8, 16, 1, 2160, 96, 16384, 128, 2, 155},
    {"530B", 2520, 8, 35, 1, 2520, 105, 20480, 128, 3, 163},
    {"1T", 3072, 8, 64, 1, 3072, 128, 25600, 160, 1, 163},
};

const std::vector<double> kFitted = {0.72, 0.10, 0.6};  // matmul, attention, stream

Cluster with_constants(int devices, const std::vector<double>& constants) {
  Cluster cluster = parse_cluster(fmt::format("{}x8xA100-80GB", devices / 8));
  DeviceType& type = cluster.types[0];
  type.ops["matmul"].efficiency = std::min(constants[0], 1.0);
  type.ops["attention"].efficiency = std::min(constants[1], 1.0);
  type.memory_efficiency = std::min(constants[2], 1.0);
  return cluster;
}

double step_flops(const Row& r) {
  const double s = 2048;
  const double v = 51200;
  const double h = r.hidden;
  const double l = r.layers;
  return 96.0 * r.batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

Run run_of(const Row& r) {
  const int dp = r.devices / r.tp / r.pp;
  std::string recipe = fmt::format("dp={},tp={},pp={},recompute=block,micro-batches={}", dp, r.tp,
                                   r.pp, r.batch / dp / r.micro);
  if (r.chunks > 1) {
    recipe += fmt::format(",schedule=interleaved,chunks={}", r.chunks);
  }
  return {.model = fmt::format("gpt:layers={},hidden={},heads={},seq=2048,vocab=51200", r.layers,
                               r.hidden, r.heads),
          .recipe = recipe,
          .batch = r.batch,
          .devices = r.devices};
}

bool is_known(const Row& row) {
  try {
    (void)parse_recipe(run_of(row).recipe);
    return true;
  } catch (const Error&) {
    return false;
  }
}

double predicted_tflops(Predictor& predictor, const Row& row, const std::vector<double>& c) {
  const double seconds = predictor.seconds(run_of(row), with_constants(row.devices, c));
  return step_flops(row) / seconds / row.devices / 1e12;
}

double mean_error(Predictor& predictor, const std::vector<double>& constants, bool print) {
  double sum = 0;
  int count = 0;
  for (const Row& row : kRows) {
    if (!is_known(row)) {
      fmt::print("{:>5}  skipped: recipes have no chunks={}\n", row.name, row.chunks);
      continue;
    }
    const double tflops = predicted_tflops(predictor, row, constants);
    sum += std::abs(tflops / row.tflops - 1);
    ++count;
    if (print) {
      fmt::print(
          "{:>5}  {:4} devices  tp {} pp {:2} chunks {}  published {:.0f}  predicted {:.0f} "
          "TFLOP/s  {:+.1f} %\n",
          row.name, row.devices, row.tp, row.pp, row.chunks, row.tflops, tflops,
          100 * (tflops / row.tflops - 1));
      std::fflush(stdout);
      predictor.forget();
    }
  }
  return sum / count;
}

TEST(Megatron, PredictsItsTable) {
  Predictor predictor;
  std::vector<double> constants = kFitted;
  if (std::getenv("WEFT_FIT") != nullptr) {  // how the constants above were found
    constants = fit([&](const std::vector<double>& c) { return mean_error(predictor, c, false); },
                    constants, 30);
    fmt::print("fitted: {}\n", fmt::join(constants, ", "));
  }
  const double error = mean_error(predictor, constants, true);
  fmt::print("mean error {:.1f} %\n", 100 * error);
  EXPECT_LE(error, 0.10);
}

}  // namespace
}  // namespace weft::truth
