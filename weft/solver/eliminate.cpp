// Bucket elimination on classes of strategies, with conditioning.
//
// Eliminating x replaces the factors that contain it by one over its neighbours N(x):
//
//   m(classes of N(x)) = min over s of ( cost_x(s) + sum over factors f of f(s, classes of N(x)) )
//
// The lightest variable goes first (cells of m times strategies of x). If m were larger than the
// limit, the variable with the most neighbours is fixed to its present strategy instead, which cuts
// its factors down. The choice found is the best of all that agree on the fixed variables, so it is
// never worse than the present one if that is allowed. Weights are shaken a little, so that
// other variables are fixed each time.
//
// A neighbour's strategies count as one class if all factors of x agree on them: m has a dimension
// of that many classes, often far fewer than strategies.

#include "weft/solver/eliminate.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace weft::selection {
namespace {

constexpr double kHopeless = 1e18;  // no table is that large: hubs need not be counted further

// The classes that are left when only some strategies are; numbered anew.
int restricted(const std::vector<std::uint16_t>& classes, const std::vector<int>& allowed,
               std::vector<std::uint16_t>& result, std::vector<int>& old) {
  std::vector<int> fresh(static_cast<std::size_t>(std::ranges::max(classes)) + 1, -1);
  for (const int s : allowed) {
    int& number = fresh[classes[s]];
    if (number < 0) {
      number = static_cast<int>(old.size());
      old.push_back(classes[s]);
    }
    result.push_back(static_cast<std::uint16_t>(number));
  }
  return static_cast<int>(old.size());
}

}  // namespace

// Factors that name one variable only are costs of it.
void Eliminator::add_factor(Factor factor) {
  for (std::size_t d = factor.variables.size(); d-- > 0;) {
    if (factor.counts[d] == 1) {
      factor.variables.erase(factor.variables.begin() + static_cast<std::ptrdiff_t>(d));
      factor.classes.erase(factor.classes.begin() + static_cast<std::ptrdiff_t>(d));
      factor.counts.erase(factor.counts.begin() + static_cast<std::ptrdiff_t>(d));
    }
  }
  if (factor.variables.size() == 1) {
    std::vector<double>& cost = variables_[factor.variables[0]].cost;
    for (std::size_t s = 0; s < cost.size(); ++s) {
      cost[s] += factor.table[factor.classes[0][s]];
    }
  } else if (factor.variables.size() > 1) {
    for (const int v : factor.variables) {
      variables_[v].factors.push_back(static_cast<int>(factors_.size()));
    }
    factors_.push_back(std::move(factor));
  }
}

void Eliminator::add_edge(const Block& block, const CoreEdge& edge) {
  Factor factor{.variables = {local_[edge.a], local_[edge.b]}, .classes = std::vector<Classes>(2)};
  std::vector<int> rows;
  std::vector<int> columns;
  factor.counts = {
      restricted(edge.class_a, block.allowed[local_[edge.a]], factor.classes[0], rows),
      restricted(edge.class_b, block.allowed[local_[edge.b]], factor.classes[1], columns)};
  factor.table.reserve(rows.size() * columns.size());
  for (const int r : rows) {
    for (const int c : columns) {
      factor.table.push_back(edge.cost[static_cast<std::size_t>(r) * edge.count_b + c]);
    }
  }
  add_factor(std::move(factor));
}

void Eliminator::build(const Block& block, const std::vector<double>& price,
                       const std::vector<int>& choice) {
  variables_.assign(block.nodes.size(), {});
  factors_.clear();
  answers_.clear();
  queue_.clear();
  for (std::size_t v = 0; v < block.nodes.size(); ++v) {
    local_[block.nodes[v]] = static_cast<int>(v);
    const CoreNode& node = core_.nodes[block.nodes[v]];
    const double p = price.empty() || !node.bound() ? 0 : price[block.nodes[v]];
    for (const int s : block.allowed[v]) {
      variables_[v].cost.push_back(node.cost[s] + p * static_cast<double>(node.usage[s]));
    }
  }
  for (std::size_t v = 0; v < block.nodes.size(); ++v) {
    const int node = block.nodes[v];
    for (const int e : core_.incident[node]) {
      const CoreEdge& edge = core_.edges[e];
      const int other = edge.a == node ? edge.b : edge.a;
      if (local_[other] < 0) {
        for (std::size_t s = 0; s < block.allowed[v].size(); ++s) {
          const int mine = block.allowed[v][s];
          variables_[v].cost[s] +=
              edge.a == node ? edge.at(mine, choice[other]) : edge.at(choice[other], mine);
        }
      } else if (edge.a == node) {
        add_edge(block, edge);
      }
    }
  }
}

void Eliminator::weigh(int x, Random& random) {
  Variable& variable = variables_[x];
  queue_.erase({variable.weight, x});
  double weight = static_cast<double>(variable.cost.size()) * (1 + 0.5 * unit(random));
  std::map<int, double> classes;  // by neighbour
  for (std::size_t n = 0; n < variable.factors.size() && weight < kHopeless; ++n) {
    const Factor& factor = factors_[variable.factors[n]];
    for (std::size_t d = 0; d < factor.variables.size(); ++d) {
      const int v = factor.variables[d];
      if (v != x) {
        const auto most = static_cast<double>(variables_[v].cost.size());
        double& count = classes.try_emplace(v, 1).first->second;
        weight /= std::min(count, most);
        count *= factor.counts[d];
        weight *= std::min(count, most);
      }
    }
  }
  variable.weight = weight;
  queue_.insert({weight, x});
}

// Takes x and its factors out of the lists of its neighbours.
void Eliminator::drop(int x, std::vector<int>& neighbours) {
  queue_.erase({variables_[x].weight, x});
  for (const int f : variables_[x].factors) {
    for (const int v : factors_[f].variables) {
      if (v != x) {
        std::erase(variables_[v].factors, f);
        neighbours.push_back(v);
      }
    }
  }
  std::ranges::sort(neighbours);
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
}

void Eliminator::condition(int x, int strategy, Random& random) {
  std::vector<int> neighbours;
  drop(x, neighbours);
  for (const int f : variables_[x].factors) {
    const Factor factor = std::move(factors_[f]);
    const int d = index_of(factor.variables, x);
    Factor slice{.variables = factor.variables, .classes = factor.classes, .counts = factor.counts};
    std::size_t inner = 1;
    for (std::size_t z = static_cast<std::size_t>(d) + 1; z < factor.counts.size(); ++z) {
      inner *= static_cast<std::size_t>(factor.counts[z]);
    }
    const std::size_t count = static_cast<std::size_t>(factor.counts[d]);
    for (std::size_t at = factor.classes[d][strategy] * inner; at < factor.table.size();
         at += count * inner) {
      slice.table.insert(slice.table.end(), factor.table.begin() + static_cast<std::ptrdiff_t>(at),
                         factor.table.begin() + static_cast<std::ptrdiff_t>(at + inner));
    }
    slice.variables.erase(slice.variables.begin() + d);
    slice.classes.erase(slice.classes.begin() + d);
    slice.counts.erase(slice.counts.begin() + d);
    add_factor(std::move(slice));
  }
  for (const int v : neighbours) {
    weigh(v, random);
  }
  Answer answer{.variable = x};
  answer.best = {static_cast<std::uint16_t>(strategy)};
  answers_.push_back(std::move(answer));
}

void Eliminator::eliminate(int x, Random& random) {
  std::vector<const Factor*> mine;
  for (const int f : variables_[x].factors) {
    mine.push_back(&factors_[f]);
  }
  std::vector<double> table;
  Answer answer = answer_of(x, variables_[x].cost, mine, table);
  std::vector<int> neighbours;
  drop(x, neighbours);
  for (const int f : variables_[x].factors) {
    factors_[f] = {};
  }
  add_factor({answer.neighbours, answer.classes, answer.counts, std::move(table)});
  for (const int v : neighbours) {
    weigh(v, random);
  }
  answers_.push_back(std::move(answer));
}

// The variable that stands in the way of most others, roughly.
int Eliminator::most_tangled(Random& random) const {
  int best = -1;
  double most = -1;
  for (const auto& [weight, x] : queue_) {
    double cells = 0;
    for (const int f : variables_[x].factors) {
      cells += static_cast<double>(factors_[f].variables.size() - 1);
    }
    cells *= std::exp(shake_ * (unit(random) - 0.5));
    if (cells > most) {
      most = cells;
      best = x;
    }
  }
  return best;
}

void Eliminator::operator()(const Block& block, const std::vector<double>& price, double most_cells,
                            Random& random, std::vector<int>& choice) {
  build(block, price, choice);
  shake_ = 4 * unit(random);
  for (int x = 0; x < static_cast<int>(variables_.size()); ++x) {
    weigh(x, random);
  }
  while (!queue_.empty()) {
    const auto [weight, x] = *queue_.begin();
    if (weight <= most_cells) {
      eliminate(x, random);
      continue;
    }
    const int fixed = most_tangled(random);
    const std::vector<int>& allowed = block.allowed[fixed];
    int place = index_of(allowed, choice[block.nodes[fixed]]);
    if (place == static_cast<int>(allowed.size())) {
      const std::vector<double>& cost = variables_[fixed].cost;
      place = static_cast<int>(std::ranges::min_element(cost) - cost.begin());
    }
    condition(fixed, place, random);
  }
  std::vector<int> found(variables_.size(), 0);
  for (auto answer = answers_.rbegin(); answer != answers_.rend(); ++answer) {
    std::size_t cell = 0;
    for (std::size_t d = 0; d < answer->neighbours.size(); ++d) {
      cell = cell * static_cast<std::size_t>(answer->counts[d]) +
             answer->classes[d][found[answer->neighbours[d]]];
    }
    found[answer->variable] = answer->best[cell];
  }
  for (std::size_t v = 0; v < block.nodes.size(); ++v) {
    choice[block.nodes[v]] = block.allowed[v][found[v]];
    local_[block.nodes[v]] = -1;
  }
}

}  // namespace weft::selection
