#include "weft/search/polish_gradients.h"

#include <algorithm>
#include <map>
#include <optional>

#include "weft/graph/blocks.h"
#include "weft/search/gradient_problem.h"
#include "weft/search/pinned.h"
#include "weft/search/stage_plan.h"
#include "weft/solver/choice_solver.h"

// The forward nodes of a plan stay. Layers of a class that are placed alike, in stages of one
// shape, are one problem (gradient_problem.h) and change alike.

namespace weft {
namespace {

class Polish {
 public:
  Polish(const Plan& plan, const Graph& graph, const OpTable& ops, const CostModel& cost)
      : plan_(plan),
        graph_(graph),
        cost_(cost),
        facts_(graph, ops),
        l_(begin_lowering(facts_, plan)) {
    const std::vector<std::vector<NodeId>> gradients = gradient_nodes(graph);
    assign_stages(l_);
    place_nodes(l_);
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      const std::string layer(layer_of(graph.nodes[n].name));
      for (const NodeId g : gradients[n]) {
        nodes_[layer].push_back(g);
      }
    }
    for (auto& [layer, nodes] : nodes_) {
      std::ranges::sort(nodes);
    }
  }

  std::vector<GradientChange> run() {
    std::vector<GradientChange> changes;
    for (const std::vector<std::string>& alike : layers_alike()) {
      if (std::optional<GradientChange> change = best_change(alike)) {
        changes.push_back(std::move(*change));
      }
    }
    std::stable_sort(
        changes.begin(), changes.end(),
        [](const GradientChange& a, const GradientChange& b) { return a.gain_s > b.gain_s; });
    return changes;
  }

 private:
  // Layers of a class whose gradient nodes are placed alike on meshes of one shape.
  std::vector<std::vector<std::string>> layers_alike() {
    std::vector<std::vector<std::string>> result;
    for (const BlockClass& block : find_blocks(graph_)) {
      const std::size_t first = result.size();
      for (const std::string& layer : block.layers) {
        const auto known =
            std::find_if(result.begin() + static_cast<std::ptrdiff_t>(first), result.end(),
                         [&](const auto& others) { return are_alike(others.front(), layer); });
        if (known == result.end()) {
          result.push_back({layer});
        } else {
          known->push_back(layer);
        }
      }
    }
    return result;
  }

  bool are_alike(const std::string& a, const std::string& b) {
    const std::vector<NodeId>& mine = nodes_[a];
    const std::vector<NodeId>& others = nodes_[b];
    if (mine.size() != others.size() || mine.empty() ||
        mesh_of(mine[0]).axes != mesh_of(others[0]).axes) {
      return false;
    }
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (graph_.nodes[mine[i]].op != graph_.nodes[others[i]].op ||
          !same(*l_.placement[mine[i]], *l_.placement[others[i]])) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] const Mesh& mesh_of(NodeId n) const { return plan_.stages[l_.stage_of[n]].mesh; }

  std::optional<GradientChange> best_change(const std::vector<std::string>& alike) {
    const std::vector<NodeId>& nodes = nodes_[alike.front()];
    if (nodes.empty() || mesh_of(nodes[0]).axes.empty()) {
      return std::nullopt;
    }
    const GradientProblem problem = gradient_problem(l_, nodes, cost_, conversions_);
    ChoiceSolver solver(problem.choices);
    const double weight = 1;
    const ChoiceAnswer best = solver.cheapest({&weight, 1});
    if (best.choice.empty()) {
      return std::nullopt;
    }
    const double now_s = choice_cost(problem.choices, std::vector<int>(nodes.size(), 0))[0];
    std::map<int, std::vector<NamedSplit>> wanted;
    std::map<int, int> layers_of;
    for (const std::string& layer : alike) {
      for (std::size_t i = 0; i < nodes.size(); ++i) {
        const NodeId g = nodes_[layer][i];
        if (best.choice[i] != 0) {
          wanted[l_.stage_of[g]].push_back(named_split(
              graph_.nodes[g].name, problem.options[i][best.choice[i]].splits, mesh_of(nodes[0])));
        }
      }
      ++layers_of[l_.stage_of[nodes_[layer].front()]];
    }
    GradientChange change;
    int most = 0;
    for (const auto& [stage, splits] : wanted) {
      change.rules.emplace_back(stage, gradient_rules(splits, graph_, plan_.stages[stage].layers));
      most = std::max(most, layers_of[stage]);
    }
    change.gain_s = (now_s - best.total) * most * static_cast<double>(plan_.micro_batches.size());
    return change.rules.empty() ? std::nullopt : std::optional(std::move(change));
  }

  const Plan& plan_;
  const Graph& graph_;
  const CostModel& cost_;
  GraphFacts facts_;
  Lowering l_;
  std::map<std::string, std::vector<NodeId>> nodes_;  // by layer: its gradient nodes, ascending
  Conversions conversions_;
};

}  // namespace

std::vector<GradientChange> gradient_changes(const Plan& plan, const Graph& training,
                                             const OpTable& ops, const CostModel& cost) {
  return Polish(plan, training, ops, cost).run();
}

}  // namespace weft
