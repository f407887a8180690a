// One step of bucket elimination:
//
//   m(classes of N(x)) = min over s of ( cost_x(s) + sum over factors f of f(s, classes of N(x)) )
//
// Strategies of a neighbour are one class if all factors of x agree on them. Every factor is laid
// out with the strategies of x last, so that the sum over factors adds rows of numbers that stand
// side by side.

#include "weft/solver/bucket.h"

#include <algorithm>

namespace weft::selection {
namespace {

// Splits classes so that each lies within one class of `by` too. Returns their number.
int refine(std::vector<std::uint16_t>& classes, int count, const std::vector<std::uint16_t>& by,
           int by_count) {
  std::vector<int> fresh(static_cast<std::size_t>(count) * by_count, -1);
  int result = 0;
  for (std::size_t s = 0; s < classes.size(); ++s) {
    int& number = fresh[static_cast<std::size_t>(classes[s]) * by_count + by[s]];
    number = number < 0 ? result++ : number;
    classes[s] = static_cast<std::uint16_t>(number);
  }
  return result;
}

Answer empty_answer(int x, const std::vector<const Factor*>& factors) {
  Answer answer{.variable = x};
  for (const Factor* f : factors) {
    const Factor& factor = *f;
    for (std::size_t d = 0; d < factor.variables.size(); ++d) {
      const int v = factor.variables[d];
      if (v == x) {
        continue;
      }
      const int at = index_of(answer.neighbours, v);
      if (at == static_cast<int>(answer.neighbours.size())) {
        answer.neighbours.push_back(v);
        answer.classes.push_back(factor.classes[d]);
        answer.counts.push_back(factor.counts[d]);
      } else {
        answer.counts[at] =
            refine(answer.classes[at], answer.counts[at], factor.classes[d], factor.counts[d]);
      }
    }
  }
  return answer;
}

// A factor of x laid out as [classes of its other variables][strategy of x], and how far a class of
// each neighbour leads into it.
struct Rows {
  std::vector<double> table;
  std::vector<std::vector<std::size_t>> offset;  // [neighbour][class]; empty: not in the factor
};

Rows to_rows(const Factor& factor, int x, std::size_t strategies, const Answer& answer) {
  const int mine = index_of(factor.variables, x);
  const auto count = static_cast<std::size_t>(factor.counts[mine]);
  const std::size_t cells = factor.table.size() / count;
  Rows rows{.table = std::vector<double>(cells * strategies), .offset = {}};
  rows.offset.resize(answer.neighbours.size());
  std::size_t inner = 1;  // cells of the variables behind x in the factor
  std::size_t stride = strategies;
  for (int d = static_cast<int>(factor.variables.size()) - 1; d >= 0; --d) {
    if (d == mine) {
      continue;
    }
    inner *= d > mine ? static_cast<std::size_t>(factor.counts[d]) : 1;
    const int at = index_of(answer.neighbours, factor.variables[d]);
    std::vector<std::size_t>& offset = rows.offset[at];
    offset.resize(static_cast<std::size_t>(answer.counts[at]));
    for (std::size_t s = 0; s < factor.classes[d].size(); ++s) {
      offset[answer.classes[at][s]] = factor.classes[d][s] * stride;
    }
    stride *= static_cast<std::size_t>(factor.counts[d]);
  }
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const double* from = &factor.table[cell / inner * inner * count + cell % inner];
    for (std::size_t s = 0; s < strategies; ++s) {
      rows.table[cell * strategies + s] = from[factor.classes[mine][s] * inner];
    }
  }
  return rows;
}

// Walks over all cells of a table like the wheels of a counter and keeps the offsets of all rows.
class Walk {
 public:
  Walk(const std::vector<int>& counts, const std::vector<Rows>& rows)
      : counts_(counts),
        rows_(rows),
        at_(counts.size(), 0),
        sums_((counts.size() + 1) * rows.size(), 0) {
    update(0);
  }
  [[nodiscard]] const double* row(std::size_t f) const {
    return rows_[f].table.data() + sums_[counts_.size() * rows_.size() + f];
  }
  void next() {
    std::size_t d = counts_.size();
    while (d-- > 0) {
      if (++at_[d] < counts_[d]) {
        update(d);
        return;
      }
      at_[d] = 0;
    }
  }

 private:
  void update(std::size_t from) {
    const std::size_t n = rows_.size();
    for (std::size_t d = from; d < counts_.size(); ++d) {
      for (std::size_t f = 0; f < n; ++f) {
        const std::vector<std::size_t>& offset = rows_[f].offset[d];
        sums_[(d + 1) * n + f] = sums_[d * n + f] + (offset.empty() ? 0 : offset[at_[d]]);
      }
    }
  }

  const std::vector<int>& counts_;
  const std::vector<Rows>& rows_;
  std::vector<int> at_;
  std::vector<std::size_t> sums_;  // [dimensions before][factor]
};

void add_row(std::vector<double>& sum, const double* row) {
  for (std::size_t s = 0; s < sum.size(); ++s) {
    sum[s] += row[s];
  }
}

}  // namespace

int index_of(const std::vector<int>& list, int value) {
  return static_cast<int>(std::ranges::find(list, value) - list.begin());
}

Answer answer_of(int variable, const std::vector<double>& cost,
                 const std::vector<const Factor*>& factors, std::vector<double>& table) {
  Answer answer = empty_answer(variable, factors);
  std::vector<Rows> rows;
  for (const Factor* factor : factors) {
    rows.push_back(to_rows(*factor, variable, cost.size(), answer));
  }
  std::size_t cells = 1;
  for (const int count : answer.counts) {
    cells *= static_cast<std::size_t>(count);
  }
  table.resize(cells);
  answer.best.resize(cells);
  std::vector<double> sum(cost.size());
  Walk walk(answer.counts, rows);
  for (std::size_t cell = 0; cell < cells; ++cell, walk.next()) {
    sum = cost;
    for (std::size_t f = 0; f < rows.size(); ++f) {
      add_row(sum, walk.row(f));
    }
    const auto least = std::ranges::min_element(sum);
    table[cell] = *least;
    answer.best[cell] = static_cast<std::uint16_t>(least - sum.begin());
  }
  return answer;
}

}  // namespace weft::selection
