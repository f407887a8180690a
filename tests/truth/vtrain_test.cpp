// Step times of GPT models on one host of 8 A100, 1440 of them, published with vTrain
// (github.com/VIA-Research/vTrain, validation of single-node training; vTrain: A Simulation
// Framework for Evaluating Cost-effective and Compute-optimal Large Language Model Training, MICRO
// 2024): Megatron-LM, vocabulary 51200, mixed precision, no recomputation, 1F1B.
//
// They are published as measured, but they are sums: exactly linear in the number of layers
// (VtrainData.IsASum). What was measured is a layer, the embedding and the head for each hidden
// size, tensor parallelism and micro-batch, each once and on one device.
//
// Every fifth row calibrates five constants; the others are predicted:
//
//   matmul efficiency and half size, issue time, and corrections of two calls: what a layer that
//   has them takes more or less than predicted
//
// A layer's attention is a call of its own for each hidden size, tensor parallelism and
// micro-batch, so a correction of it is one of what was measured of the layer. The fit takes the
// two that help most on its rows. Attention was not fused, and Megatron-LM's host waits for what it
// receives: bytes moved for each score and receive time have round values. Everything else is the
// catalogue's A100-80GB. WEFT_REFERENCE_DATA names the folder with
// throughput/vtrain_single_1440.csv. To see the table: truth_test --gtest_filter='Vtrain.*'

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>
#include <tuple>

#include "predict.h"

namespace weft::truth {
namespace {

struct Row {
  int gpus = 0;
  int batch = 0;
  int micro = 0;
  int hidden = 0;
  int heads = 0;
  int layers = 0;
  int sequence = 0;
  int tp = 0;
  int dp = 0;
  int pp = 0;
  double seconds = 0;
};

std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    std::replace(line.begin(), line.end(), ',', ' ');
    std::istringstream words(line);
    Row r;
    double ms = 0;
    if (words >> r.gpus >> r.batch >> r.micro >> r.hidden >> r.heads >> r.layers >> r.sequence >>
        r.tp >> r.dp >> r.pp >> ms) {
      r.seconds = ms / 1e3;
      rows.push_back(r);
    }
  }
  return rows;
}

Run run_of(const Row& r) {
  return {.model = fmt::format("gpt:layers={},hidden={},heads={},seq={},vocab=51200", r.layers,
                               r.hidden, r.heads, r.sequence),
          .recipe = fmt::format("dp={},tp={},pp={},micro-batches={}", r.dp, r.tp, r.pp,
                                r.batch / r.dp / r.micro),
          .batch = r.batch,
          .devices = r.gpus};
}

constexpr int kCorrections = 2;
// A round value, as if scores of two bytes went through memory ten times in a call. How it was
// chosen: docs/spec/cost.md.
constexpr double kScoreBytes = 20;
constexpr double kReceive_s = 200e-6;
const std::vector<double> kStart = {0.65, 8e9, 55e-6};

// Five numbers.
struct Constants {
  std::vector<double> smooth = kStart;  // matmul efficiency, half size, issue time
  std::map<std::string, double> corrections = {};
};

Cluster with_constants(const Constants& constants) {
  Cluster cluster = parse_cluster("1x8xA100-80GB");
  DeviceType& type = cluster.types[0];
  const double efficiency = std::min(constants.smooth[0], 1.0);
  type.efficiency = efficiency;
  type.ops["matmul"] = {.efficiency = efficiency, .half_size = constants.smooth[1]};
  type.ops["attention"].score_bytes = kScoreBytes;
  type.issue_s = constants.smooth[2];
  type.update_issue_s = 0;  // one kernel updates them all
  type.receive_s = kReceive_s;
  type.corrections = constants.corrections;
  type.origins.exceptions = {{"efficiency", Origin::fitted},
                             {"ops", Origin::fitted},
                             {"issue", Origin::fitted},
                             {"corrections", Origin::fitted}};
  return cluster;
}

double mean_error(Predictor& predictor, const std::vector<Row>& rows, const Constants& constants) {
  const Cluster cluster = with_constants(constants);
  double sum = 0;
  for (const Row& row : rows) {
    sum += std::abs(predictor.seconds(run_of(row), cluster) / row.seconds - 1);
  }
  return sum / static_cast<double>(rows.size());
}

void fit_smooth(Predictor& predictor, const std::vector<Row>& rows, int evaluations,
                Constants& constants) {
  Constants tried = constants;
  constants.smooth = fit(
      [&](const std::vector<double>& smooth) {
        tried.smooth = smooth;
        return mean_error(predictor, rows, tried);
      },
      constants.smooth, evaluations);
}

std::string attention_call(const Row& r) {
  const std::string type =
      fmt::format("bf16[{},{},{},{}]", r.micro, r.sequence, r.heads / r.tp, r.hidden / r.heads);
  return fmt::format("attention({0}, {0}, {0})", type);
}

// Layers in a row that a step waits for: those of a stage, for each micro-batch and while the
// pipeline fills.
double layers_in_a_row(const Row& r) {
  const double micro_batches = static_cast<double>(r.batch) / r.dp / r.micro;
  return (micro_batches + r.pp - 1) * r.layers / r.pp;
}

struct Predicted {
  const Row* row = nullptr;
  double seconds = 0;
};

struct Gain {
  double error = 0;         // less in all, over the rows that have the call
  double correction_s = 0;  // the median of what their layers take more than predicted
};

Gain gain_of(const std::vector<Predicted>& rows) {
  std::vector<double> more;
  for (const Predicted& p : rows) {
    more.push_back((p.row->seconds - p.seconds) / layers_in_a_row(*p.row));
  }
  std::ranges::nth_element(more, more.begin() + static_cast<std::ptrdiff_t>(more.size() / 2));
  Gain gain{.correction_s = more[more.size() / 2]};
  for (const Predicted& p : rows) {
    const double corrected_s = p.seconds + gain.correction_s * layers_in_a_row(*p.row);
    gain.error += std::abs(p.seconds / p.row->seconds - 1);
    gain.error -= std::abs(corrected_s / p.row->seconds - 1);
  }
  return gain;
}

// The calls whose corrections gain most. A row has only one of the calls, so they can be chosen at
// once.
std::map<std::string, double> best_corrections(Predictor& predictor, const std::vector<Row>& rows,
                                               const Constants& constants) {
  const Cluster cluster = with_constants(constants);
  std::map<std::string, std::vector<Predicted>> by_call;
  for (const Row& row : rows) {
    by_call[attention_call(row)].push_back({&row, predictor.seconds(run_of(row), cluster)});
  }
  std::vector<std::pair<std::string, Gain>> gains;
  for (const auto& [call, predicted] : by_call) {
    gains.emplace_back(call, gain_of(predicted));
  }
  std::ranges::stable_sort(
      gains, [](const auto& a, const auto& b) { return a.second.error > b.second.error; });
  std::map<std::string, double> best;
  for (int i = 0; i < kCorrections; ++i) {
    best[gains[i].first] = gains[i].second.correction_s;
  }
  return best;
}

// How much slower the plan that is predicted to be fastest is than the fastest, on average over
// groups of the same model, batch and devices.
double ranking_loss(const std::vector<Row>& rows, const std::vector<double>& predicted) {
  struct Best {
    double predicted = 0;
    double chosen = 0;
    double fastest = 0;
  };
  std::map<std::tuple<int, int, int, int, int, int>, Best> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    const auto [entry, fresh] =
        groups.try_emplace(std::tuple(r.gpus, r.batch, r.hidden, r.heads, r.layers, r.sequence));
    Best& best = entry->second;
    if (fresh || predicted[i] < best.predicted) {
      best.predicted = predicted[i];
      best.chosen = r.seconds;
    }
    best.fastest = fresh ? r.seconds : std::min(best.fastest, r.seconds);
  }
  double sum = 0;
  for (const auto& [key, best] : groups) {
    sum += best.chosen / best.fastest - 1;
  }
  return sum / static_cast<double>(groups.size());
}

void print_groups(const std::vector<Row>& rows, const std::vector<double>& predicted) {
  std::map<std::tuple<int, int, int>, std::pair<double, std::pair<double, int>>> by;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& [bias, error] = by[{rows[i].tp, rows[i].pp, rows[i].hidden}];
    const double relative = predicted[i] / rows[i].seconds - 1;
    bias += relative;
    error.first += std::abs(relative);
    ++error.second;
  }
  fmt::print("tp  pp  hidden  rows  mean error  mean bias\n");
  for (const auto& [key, sums] : by) {
    const double n = sums.second.second;
    fmt::print("{:2}  {:2}  {:6}  {:4}  {:8.1f} %  {:+7.1f} %\n", std::get<0>(key),
               std::get<1>(key), std::get<2>(key), n, 100 * sums.second.first / n,
               100 * sums.first / n);
  }
}

// With one replica, rows that differ in layers only lie on a line.
TEST(VtrainData, IsASum) {
  const std::string path = reference_file("throughput/vtrain_single_1440.csv");
  if (path.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no throughput/vtrain_single_1440.csv";
  }
  std::map<std::tuple<int, int, int, int, int>, std::map<int, double>> lines;
  for (const Row& r : read_rows(path)) {
    if (r.dp == 1) {
      lines[{r.batch, r.micro, r.hidden, r.tp, r.pp}][r.layers] = r.seconds;
    }
  }
  for (const auto& [key, at] : lines) {
    ASSERT_EQ(at.size(), 4U);
    EXPECT_NEAR((at.at(16) - at.at(12)) / (at.at(24) - at.at(20)), 1, 1e-9);
  }
}

TEST(Vtrain, PredictsAndRanks) {
  const std::string path = reference_file("throughput/vtrain_single_1440.csv");
  if (path.empty()) {
    GTEST_SKIP() << "WEFT_REFERENCE_DATA has no throughput/vtrain_single_1440.csv";
  }
  const std::vector<Row> rows = read_rows(path);
  ASSERT_EQ(rows.size(), 1440U);
  std::vector<Row> fitted_on;
  std::vector<Row> few;
  for (std::size_t i = 0; i < rows.size(); i += 5) {
    fitted_on.push_back(rows[i]);
    if (i % 30 == 0) {
      few.push_back(rows[i]);
    }
  }
  Predictor predictor;
  Constants constants;
  fit_smooth(predictor, few, 60, constants);
  constants.corrections = best_corrections(predictor, fitted_on, constants);
  fit_smooth(predictor, fitted_on, 10, constants);
  ASSERT_EQ(constants.smooth.size() + constants.corrections.size(), 5U);
  fmt::print(
      "fitted on {} rows: matmul efficiency {:.3f}, half size {:.3g} flop, issue {:.1f} us\n",
      fitted_on.size(), constants.smooth[0], constants.smooth[1], constants.smooth[2] * 1e6);
  for (const auto& [call, seconds] : constants.corrections) {
    fmt::print("  {} {:+.2f} ms\n", call, seconds * 1e3);
  }
  predictor.forget();
  const Cluster cluster = with_constants(constants);
  std::vector<double> predicted;
  double sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    predicted.push_back(predictor.seconds(run_of(rows[i]), cluster));
    predictor.forget();
    sum += i % 5 == 0 ? 0 : std::abs(predicted[i] / rows[i].seconds - 1);
  }
  const double error = sum / static_cast<double>(rows.size() - fitted_on.size());
  const double loss = ranking_loss(rows, predicted);
  print_groups(rows, predicted);
  fmt::print(
      "mean error on the {} other rows {:.1f} %; the plan ranked first is {:.1f} % slower "
      "than the fastest on average\n",
      rows.size() - fitted_on.size(), 100 * error, 100 * loss);
  EXPECT_LE(error, 0.10);
  EXPECT_LE(loss, 0.04);
}

}  // namespace
}  // namespace weft::truth
