// Variable elimination. A node x whose memory is settled and whose neighbours are p and q goes, and
// its best answer to them becomes an edge:
//
//   w'(i, j) = w(i, j) + min over s of ( cost_x(s) + w_xp(s, i) + w_xq(s, j) )
//
// With one neighbour the minimum is added to the costs of p, with none to the constant. This is
// exact. Three neighbours would make a table that is no edge any more.

#include <algorithm>
#include <map>
#include <set>

#include "weft/solver/selection_pairs.h"

namespace weft::selection {
namespace {

constexpr std::size_t kMostCells = 1U << 16U;
constexpr double kMostWork = 2e7;

// Edges while nodes disappear; an edge that is gone has no costs.
struct Folding {
  Pairwise& problem;
  std::vector<std::map<int, int>> edge_to;  // by node: neighbour -> edge
};

// Costs of x and of its edge to p as [strategy of p][strategy of x].
std::vector<double> towards(const Folding& f, int x, int p) {
  const std::size_t rows = p < 0 ? 1 : f.problem.nodes[p].cost.size();
  const std::size_t columns = f.problem.nodes[x].cost.size();
  std::vector<double> table(rows * columns, 0);
  if (p < 0) {
    return table;
  }
  const PairEdge& edge = f.problem.edges[f.edge_to[x].at(p)];
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t s = 0; s < columns; ++s) {
      table[i * columns + s] = edge.a == p ? edge.cost[i * columns + s] : edge.cost[s * rows + i];
    }
  }
  return table;
}

// Adds the table [strategy of p][strategy of q] to what stands between the two.
void add_table(Folding& f, int p, int q, const std::vector<double>& table) {
  const auto [it, fresh] = f.edge_to[p].try_emplace(q, static_cast<int>(f.problem.edges.size()));
  if (fresh) {
    f.edge_to[q][p] = it->second;
    f.problem.edges.push_back({p, q, table});
    return;
  }
  PairEdge& edge = f.problem.edges[it->second];
  const std::size_t rows = f.problem.nodes[p].cost.size();
  const std::size_t columns = f.problem.nodes[q].cost.size();
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      double& sum = edge.cost[edge.a == p ? i * columns + j : j * rows + i];
      sum = std::min(sum + table[i * columns + j], f.problem.forbidden);
    }
  }
}

bool can_fold(const Folding& f, int x) {
  const PairNode& node = f.problem.nodes[x];
  if (node.first != node.last || f.edge_to[x].size() > 2) {
    return false;
  }
  std::size_t cells = 1;
  for (const auto& [p, edge] : f.edge_to[x]) {
    cells *= f.problem.nodes[p].cost.size();
  }
  return cells <= kMostCells &&
         static_cast<double>(cells) * static_cast<double>(node.cost.size()) <= kMostWork;
}

FoldedNode start(const Folding& f, int x) {
  FoldedNode folded{.node = x, .strategies = f.problem.nodes[x].strategy};
  for (const auto& [neighbour, edge] : f.edge_to[x]) {
    (folded.p < 0 ? folded.p : folded.q) = neighbour;
  }
  if (folded.p >= 0) {
    folded.p_strategies = f.problem.nodes[folded.p].strategy;
  }
  if (folded.q >= 0) {
    folded.q_strategies = f.problem.nodes[folded.q].strategy;
  }
  return folded;
}

// Detaches x and leaves a node that no longer says anything.
void remove_node(Folding& f, const FoldedNode& folded) {
  for (const int neighbour : {folded.p, folded.q}) {
    if (neighbour >= 0) {
      f.problem.edges[f.edge_to[folded.node].at(neighbour)].cost.clear();
      f.edge_to[neighbour].erase(folded.node);
    }
  }
  f.edge_to[folded.node].clear();
  f.problem.nodes[folded.node] = {.cost = {0}, .usage = {0}, .strategy = {-1}};
}

FoldedNode fold_node(Folding& f, int x) {
  FoldedNode folded = start(f, x);
  const int p = folded.p;
  const int q = folded.q;
  const std::vector<double> to_p = towards(f, x, p);
  const std::vector<double> to_q = towards(f, x, q);
  const std::vector<double> cost = f.problem.nodes[x].cost;
  const std::size_t rows = to_p.size() / cost.size();
  const std::size_t columns = to_q.size() / cost.size();
  std::vector<double> table(rows * columns);
  folded.best.resize(table.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) {
      const double* wp = &to_p[i * cost.size()];
      const double* wq = &to_q[j * cost.size()];
      std::size_t best = 0;
      for (std::size_t s = 1; s < cost.size(); ++s) {
        best = cost[s] + wp[s] + wq[s] < cost[best] + wp[best] + wq[best] ? s : best;
      }
      table[i * columns + j] = std::min(cost[best] + wp[best] + wq[best], f.problem.forbidden);
      folded.best[i * columns + j] = static_cast<std::uint16_t>(best);
    }
  }
  remove_node(f, folded);
  if (p < 0) {
    f.problem.constant += table[0];
  } else if (q < 0) {
    std::ranges::transform(f.problem.nodes[p].cost, table, f.problem.nodes[p].cost.begin(),
                           std::plus<>());
  } else {
    add_table(f, p, q, table);
  }
  return folded;
}

}  // namespace

bool fold(Pairwise& problem, std::vector<FoldedNode>& folded) {
  Folding f{problem, std::vector<std::map<int, int>>(problem.nodes.size())};
  for (std::size_t e = 0; e < problem.edges.size(); ++e) {
    const PairEdge& edge = problem.edges[e];
    f.edge_to[edge.a][edge.b] = static_cast<int>(e);
    f.edge_to[edge.b][edge.a] = static_cast<int>(e);
  }
  std::set<std::pair<std::size_t, int>> todo;  // few neighbours first
  std::vector<char> gone(problem.nodes.size(), 0);
  for (const FoldedNode& node : folded) {
    gone[node.node] = 1;
  }
  for (int i = 0; i < static_cast<int>(problem.nodes.size()); ++i) {
    todo.insert({f.edge_to[i].size(), i});
  }
  const std::size_t before = folded.size();
  while (!todo.empty() && todo.begin()->first <= 2) {
    const int x = todo.begin()->second;
    todo.erase(todo.begin());
    if (gone[x] != 0 || !can_fold(f, x)) {
      continue;
    }
    folded.push_back(fold_node(f, x));
    gone[x] = 1;
    for (const int neighbour : {folded.back().p, folded.back().q}) {
      if (neighbour >= 0) {
        todo.insert({f.edge_to[neighbour].size(), neighbour});
      }
    }
  }
  std::erase_if(problem.edges, [](const PairEdge& edge) { return edge.cost.empty(); });
  return folded.size() > before;
}

void unfold(const std::vector<FoldedNode>& folded, std::vector<int>& choice) {
  const auto place = [&](const std::vector<int>& strategies, int node) -> std::size_t {
    return node < 0 ? 0
                    : static_cast<std::size_t>(std::ranges::lower_bound(strategies, choice[node]) -
                                               strategies.begin());
  };
  for (auto it = folded.rbegin(); it != folded.rend(); ++it) {
    const std::size_t columns = it->q < 0 ? 1 : it->q_strategies.size();
    choice[it->node] = it->strategies[it->best[place(it->p_strategies, it->p) * columns +
                                               place(it->q_strategies, it->q)]];
  }
}

}  // namespace weft::selection
