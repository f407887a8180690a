#pragma once

#include <cstdint>
#include <vector>

namespace weft::selection {

using Classes = std::vector<std::uint16_t>;  // by place among the allowed strategies

/// A table over classes of the strategies of some variables.
struct Factor {
  std::vector<int> variables = {};
  std::vector<Classes> classes = {};
  std::vector<int> counts = {};
  std::vector<double> table = {};
};

/// What an eliminated variable answers to its neighbours.
struct Answer {
  int variable = 0;
  std::vector<int> neighbours = {};
  std::vector<Classes> classes = {};
  std::vector<int> counts = {};
  std::vector<std::uint16_t> best = {};  // by classes of the neighbours
};

/// Place in the list; its size if the value is not there.
[[nodiscard]] int index_of(const std::vector<int>& list, int value);

/// What a variable answers: its neighbours in the factors, their classes as far as these factors
/// tell them apart, and its best strategy for each. `table` becomes the cost of that answer.
[[nodiscard]] Answer answer_of(int variable, const std::vector<double>& cost,
                               const std::vector<const Factor*>& factors,
                               std::vector<double>& table);

}  // namespace weft::selection
