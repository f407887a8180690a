#pragma once

// For tests: choices as integer programs, solved by CBC (Debian's coinor-cbc):
//
//   min sum of weighted costs,  x_(v,a) and y_(p,ab) binary,  sum over a of x_(v,a) = 1,
//   sum over b of y_(p,ab) = x_(u,a),  sum over a of y_(p,ab) = x_(v,b),  memory <= cap.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "weft/solver/choice_problem.h"

namespace weft {

struct CbcQuestion {
  const ChoiceProblem& problem;
  std::vector<double> weights;
  std::vector<double> limit;
  double cap = 0;
};

inline double cell_cost(const std::vector<std::vector<float>>& cost,
                        const std::vector<double>& weights, std::size_t cell) {
  double sum = 0;
  for (std::size_t k = 0; k < cost.size(); ++k) {
    const bool counts = !cost[k].empty() && !std::isinf(cost[k][cell]);
    sum += !counts ? 0.0 : weights[k] * static_cast<double>(cost[k][cell]);
  }
  return sum;
}

inline bool is_forbidden(const std::vector<std::vector<float>>& cost, std::size_t cell) {
  return std::ranges::any_of(
      cost, [&](const auto& kind) { return !kind.empty() && std::isinf(kind[cell]); });
}

// weights·cost as a sum of terms, one in each line.
inline std::string cost_terms(const ChoiceProblem& problem, const std::vector<double>& weights) {
  std::string text;
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    for (int a = 0; a < problem.values[v]; ++a) {
      text += fmt::format(" + {:.12g} x_{}_{}\n", cell_cost(problem.cost[v], weights, a), v, a);
    }
  }
  for (std::size_t p = 0; p < problem.pairs.size(); ++p) {
    const ChoicePair& pair = problem.pairs[p];
    const int cells = problem.values[pair.first] * problem.values[pair.second];
    for (int cell = 0; cell < cells; ++cell) {
      text += fmt::format(" + {:.12g} y_{}_{}\n", cell_cost(pair.cost, weights, cell), p, cell);
    }
  }
  return text;
}

inline std::string one_value_each(const ChoiceProblem& problem) {
  std::string text;
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    for (int a = 0; a < problem.values[v]; ++a) {
      text += fmt::format(" + x_{}_{}", v, a);
    }
    text += " = 1\n";
  }
  for (std::size_t p = 0; p < problem.pairs.size(); ++p) {
    const int u = problem.pairs[p].first;
    const int v = problem.pairs[p].second;
    const int columns = problem.values[v];
    for (int a = 0; a < problem.values[u]; ++a) {
      for (int b = 0; b < columns; ++b) {
        text += fmt::format(" + y_{}_{}", p, a * columns + b);
      }
      text += fmt::format(" - x_{}_{} = 0\n", u, a);
    }
    for (int b = 0; b < columns; ++b) {
      for (int a = 0; a < problem.values[u]; ++a) {
        text += fmt::format(" + y_{}_{}", p, a * columns + b);
      }
      text += fmt::format(" - x_{}_{} = 0\n", v, b);
    }
  }
  return text;
}

// What infinite costs forbid.
inline std::string forbidden_cells(const ChoiceProblem& problem) {
  std::string text;
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    for (int a = 0; a < problem.values[v]; ++a) {
      text += is_forbidden(problem.cost[v], a) ? fmt::format(" x_{}_{} = 0\n", v, a) : "";
    }
  }
  for (std::size_t p = 0; p < problem.pairs.size(); ++p) {
    const ChoicePair& pair = problem.pairs[p];
    const int cells = problem.values[pair.first] * problem.values[pair.second];
    for (int cell = 0; cell < cells; ++cell) {
      text += is_forbidden(pair.cost, cell) ? fmt::format(" y_{}_{} = 0\n", p, cell) : "";
    }
  }
  return text;
}

inline void write_program(const CbcQuestion& question, const std::filesystem::path& path) {
  const ChoiceProblem& problem = question.problem;
  std::ofstream file(path);
  file << "Minimize\n obj:" << cost_terms(problem, question.weights) << "Subject To\n"
       << one_value_each(problem) << forbidden_cells(problem) << cost_terms(problem, question.limit)
       << fmt::format(" <= {:.12g}\nBinary\n", question.cap);
  for (std::size_t v = 0; v < problem.values.size(); ++v) {
    for (int a = 0; a < problem.values[v]; ++a) {
      file << fmt::format(" x_{}_{}\n", v, a);
    }
  }
  file << "End\n";
}

// What CBC says the optimum is; NaN if it says nothing of the kind.
inline double optimum_by_cbc(const std::filesystem::path& folder) {
  const std::string command =
      fmt::format("cbc '{0}/p.lp' ratio 0 sec 60 solve solution '{0}/s.txt' > '{0}/log.txt' 2>&1",
                  folder.string());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the test has one thread
  if (std::system(command.c_str()) != 0) {
    return std::nan("");
  }
  std::ifstream file(folder / "s.txt");
  std::string line;
  std::getline(file, line);
  const std::string start = "Optimal - objective value ";
  return line.starts_with(start) ? std::stod(line.substr(start.size())) : std::nan("");
}

[[nodiscard]] inline bool has_cbc() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): the tests have one thread
  return std::system("command -v cbc > /dev/null 2>&1") == 0;
}

/// The optimum; NaN if CBC does not prove one.
[[nodiscard]] inline double cbc_optimum(const CbcQuestion& question) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("weft_cbc_{}", std::random_device()());
  std::filesystem::create_directory(folder);
  write_program(question, folder / "p.lp");
  const double optimum = optimum_by_cbc(folder);
  std::filesystem::remove_all(folder);
  return optimum;
}

}  // namespace weft
