#include "weft/search/block_costs.h"

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/search/block_weights.h"
#include "weft/search/local_kernels.h"

// The space and the costs of a block on a mesh.
//
// Variables:
//   node n      its splits (block_options.h): how its inputs must lie (need), how its outputs lie
//               and how the gradients of its inputs come out (grad)
//   value v     with several readers: a placement that all of them start from, so that a gather or
//               a reduction they share is paid once. Its gradient lies alike, or is a sum that is
//               still to be made.
//   entry, exit how the values between blocks lie; the same choices at both ends
//   weights     of a node: for each axis replicate, zero1, zero2 or zero3 (weight_costs.h); and
//               whether their gradients follow along data axes (own_gradient.h): if not, what they
//               are made of is gathered beside kernels in each micro-batch
//
// With tied(P) = R and tied(x) = x otherwise, an edge from a value that lies as `a` to a reader
// costs
//   forward     path(a → need)
//   backward    path(grad → tied(a)), and the gathers of the forward path once more where a
//               gradient node reads the value: gathered values are not kept
// with path the steps of `reshard_path`, each a collective along its axis. A node costs its kernels
// on local types; a host that issues kernels more slowly than the device runs them decides:
// max(kernel, issue).
//
// The least of a choice (`BlockPlace::least`): nothing is counted that programs may leave out, or
// that a plan of the same forward splits may do otherwise. Values are made again only where the
// layer is recomputed, and then only those that backward needs (other forward kernels count with
// backward's); gathers are not repeated, rings go round once; a sum is kept in parts; shared
// parameters may lie in any way.

namespace weft {
namespace {

// A value of the variable of a value: how it lies, and how its gradient does.
struct Pair {
  Placements lies;
  Placements grad;
  bool operator==(const Pair&) const = default;
};

// What several values of a variable have in common: their numbers are those of `pairs`.
struct Classes {
  std::vector<Pair> pairs;
  std::vector<int> of;  // by value of the variable

  void add(const Pair& pair) {
    const auto found = std::ranges::find(pairs, pair);
    of.push_back(static_cast<int>(found - pairs.begin()));
    if (found == pairs.end()) {
      pairs.push_back(pair);
    }
  }
};

struct Reader {
  std::size_t node = 0;
  std::size_t operand = 0;
};

class ProblemMaker {
 public:
  ProblemMaker(const BlockChain& chain, int block_class, const BlockPlace& place,
               const Graph& graph, const OpTable& ops, const CostModel& cost, BlockOptions& options,
               Conversions& conversions)
      : chain_(chain),
        block_(chain.classes[block_class]),
        place_(place),
        graph_(graph),
        ops_(ops),
        options_(options.options(block_class, place.mesh, place.data_axes)),
        terms_(options.weights(block_class)),
        conversions_(conversions),
        collectives_(cost, place.mesh),
        kernels_(graph, ops, cost, place.mesh, place.samples),
        weights_(chain, block_class, place, graph, ops, cost, options, conversions, collectives_) {}

  BlockProblem run() {
    result_.choices.kinds = kCostKinds;
    needed_again_ = place_.least ? needed_again() : std::vector<bool>();
    for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
      add_node(n);
    }
    result_.weights.resize(block_.nodes.size());
    for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
      forbid_moves(n);
      weights_.add(n, result_);
    }
    add_boundaries();
    for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
      for (std::size_t o = 0; o < graph_.nodes[block_.nodes[n].node].outputs.size(); ++o) {
        connect_output(n, o);
      }
      connect_elsewhere(n);
    }
    if (result_.entry.variable >= 0) {
      connect(result_.entry.variable, boundary_classes(result_.entry),
              graph_.values[block_.entry].type, readers(kEntry, -1), -1);
    }
    return std::move(result_);
  }

 private:
  int add_variable(std::size_t values) {
    result_.choices.values.push_back(static_cast<int>(values));
    result_.choices.cost.emplace_back(kCostKinds);
    return static_cast<int>(result_.choices.values.size()) - 1;
  }

  void add(int variable, CostKind kind, std::size_t value, double cost) {
    auto& costs = result_.choices.cost[variable][kind];
    if (cost == 0) {
      return;
    }
    costs.resize(result_.choices.values[variable], 0.0F);
    costs[value] += static_cast<float>(cost);
  }

  [[nodiscard]] TensorType local(const TensorType& type, const Placements& placements) const {
    return kernels_.local(type, placements);
  }
  [[nodiscard]] double whole_bytes(const TensorType& type) const {
    return static_cast<double>(bind(type, place_.samples).bytes());
  }

  // A ring runs once for each part of what goes round, and sends it on meanwhile.
  void add_ring(std::size_t n, std::size_t value, const NodeOption& option, int axis) {
    const Node& node = graph_.nodes[block_.nodes[n].node];
    const double runs = place_.mesh.axes[axis].size;
    double bytes = 0;
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {  // all but the queries
      bytes += static_cast<double>(
          local(graph_.values[node.inputs[i]].type, option.placed.inputs[i]).bytes());
    }
    const double shift_s = collectives_.seconds(CollectiveKind::shift, axis, bytes);
    const int rounds = place_.least ? 1 : 3;
    add(static_cast<int>(n), kBeside, value, rounds * (runs - 1) * shift_s);
  }

  void add_node(std::size_t n) {
    const BlockNode& own = block_.nodes[n];
    const Node& node = graph_.nodes[own.node];
    const int variable = add_variable(options_[n].size());
    const bool again = own.pinned.again;
    result_.splits.emplace_back();
    result_.working_bytes.emplace_back();
    for (std::size_t value = 0; value < options_[n].size(); ++value) {
      const NodeOption& option = options_[n][value];
      result_.splits.back().push_back(option.splits);
      double runs = 1;
      for (std::size_t a = 0; a < option.splits.size(); ++a) {
        if (option.splits[a].ring) {
          runs = place_.mesh.axes[a].size;
          add_ring(n, value, option, static_cast<int>(a));
        }
      }
      const double forward_s = runs * kernels_.seconds(node, option.placed);
      add(variable, place_.least && !needed_again_[n] ? kBackward : kForward, value, forward_s);
      const bool repeated = !place_.least && (again || chain_.repeated[node.outputs[0]]);
      add(variable, kBackward, value, repeated ? forward_s : 0);
      for (std::size_t g = 0; g < own.gradients.size(); ++g) {
        const Node& gradient = graph_.nodes[own.gradients[g]];
        add(variable, gradient.role == Role::weight_grad ? kWeight : kBackward, value,
            runs * kernels_.seconds(gradient, option.gradients[g]));
      }
      result_.working_bytes.back().push_back(working_bytes(own, option));
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        const bool crosses = node.outputs[o] == block_.exit;  // counted where it enters
        if (chain_.saved[node.outputs[o]] && !crosses && !again) {
          const TensorType& type = graph_.values[node.outputs[o]].type;
          add(variable, kSaved, value, kept_bytes(type, option.placed.outputs[o]));
        }
      }
    }
  }

  [[nodiscard]] double kept_bytes(const TensorType& type, const Placements& lies) const {
    auto bytes = static_cast<double>(local(type, lies).bytes());
    for (std::size_t a = 0; a < lies.size() && place_.least; ++a) {
      bytes /= lies[a].kind == Placement::Kind::partial ? place_.mesh.axes[a].size : 1;
    }
    return bytes;
  }

  // By node: whether a layer that is recomputed must run it again, since backward reads what it
  // makes, or what is made of that.
  [[nodiscard]] std::vector<bool> needed_again() const {
    std::vector<bool> needed(block_.nodes.size(), false);
    for (std::size_t n = block_.nodes.size(); n-- > 0;) {
      for (const ValueId v : graph_.nodes[block_.nodes[n].node].outputs) {
        needed[n] = needed[n] || (chain_.saved[v] && !chain_.crosses[v]);
      }
      for (const BlockNode::Operand& operand : block_.nodes[n].operands) {
        if (needed[n] && operand.from >= 0) {
          needed[operand.from] = true;
        }
      }
    }
    return needed;
  }

  // Operands of the largest gradient node that are not kept anyway.
  [[nodiscard]] double working_bytes(const BlockNode& own, const NodeOption& option) const {
    double most = 0;
    for (std::size_t g = 0; g < own.gradients.size(); ++g) {
      const Node& gradient = graph_.nodes[own.gradients[g]];
      const OpDef& op = find_op(ops_, gradient.op);
      OpCall call{.inputs = {}, .outputs = {}, .attrs = gradient.attrs};
      double sum = 0;
      for (std::size_t i = 0; i < gradient.inputs.size(); ++i) {
        call.inputs.push_back(
            local(graph_.values[gradient.inputs[i]].type, option.gradients[g].inputs[i]));
        const Value& value = graph_.values[gradient.inputs[i]];
        if (value.kind == ValueKind::result && !chain_.saved[gradient.inputs[i]]) {
          sum += static_cast<double>(call.inputs.back().bytes());
        }
      }
      for (std::size_t o = 0; o < gradient.outputs.size(); ++o) {
        call.outputs.push_back(
            local(graph_.values[gradient.outputs[o]].type, option.gradients[g].outputs[o]));
        const bool in_place = std::ranges::any_of(op.may_overwrite, [&](const MayOverwrite& may) {
          return may.output == static_cast<int>(o) && call.inputs[may.input] == call.outputs[o];
        });
        sum += in_place ? 0 : static_cast<double>(call.outputs.back().bytes());
      }
      sum += op.workspace != nullptr ? static_cast<double>(op.workspace(call)) : 0;
      most = std::max(most, sum);
    }
    return most;
  }

  // A parameter that lies in one way and is needed in another would have to move in each
  // micro-batch.
  void forbid_moves(std::size_t n) {
    if (place_.least) {
      return;
    }
    for (const WeightTerm& term : terms_[n]) {
      for (const auto* given : {&place_.lent, &place_.held}) {
        const auto lies = given->find(term.parameter);
        for (std::size_t value = 0; lies != given->end() && value < options_[n].size(); ++value) {
          if (options_[n][value].placed.inputs[term.input] != lies->second) {
            add(static_cast<int>(n), kStep, value, std::numeric_limits<double>::infinity());
          }
        }
      }
    }
  }

  void add_boundaries() {
    const auto make = [&](ValueId value) {
      BlockProblem::Boundary boundary;
      boundary.lies = boundary_placements(graph_.values[value].type, place_.mesh, place_.data_axes);
      boundary.variable = add_variable(boundary.lies.size());
      return boundary;
    };
    if (block_.entry >= 0) {
      result_.entry = make(block_.entry);
      if (chain_.saved[block_.entry]) {
        const TensorType& type = graph_.values[block_.entry].type;
        for (std::size_t value = 0; value < result_.entry.lies.size(); ++value) {
          add(result_.entry.variable, kEntered, value,
              static_cast<double>(local(type, result_.entry.lies[value]).bytes()));
        }
      }
    }
    if (block_.exit >= 0) {
      result_.exit = make(block_.exit);
    }
  }

  [[nodiscard]] static Classes boundary_classes(const BlockProblem::Boundary& boundary) {
    Classes classes;
    for (const Placements& lies : boundary.lies) {
      classes.add({lies, tied(lies)});
    }
    return classes;
  }

  [[nodiscard]] std::vector<Reader> readers(int from, int output) const {
    std::vector<Reader> result;
    for (std::size_t n = 0; n < block_.nodes.size(); ++n) {
      for (std::size_t i = 0; i < block_.nodes[n].operands.size(); ++i) {
        const BlockNode::Operand& operand = block_.nodes[n].operands[i];
        if (operand.from == from && (output < 0 || operand.output == output)) {
          result.push_back({n, i});
        }
      }
    }
    return result;
  }

  [[nodiscard]] Classes wanted(const Reader& reader) const {
    Classes classes;
    for (const NodeOption& option : options_[reader.node]) {
      classes.add({option.need[reader.operand], option.grad[reader.operand]});
    }
    return classes;
  }

  // Whether a gradient node of the reader reads the value.
  [[nodiscard]] bool reads_again(const Reader& reader) const {
    const BlockNode& own = block_.nodes[reader.node];
    const ValueId value = graph_.nodes[own.node].inputs[own.operands[reader.operand].input];
    return std::ranges::any_of(own.gradients, [&](NodeId g) {
      return std::ranges::find(graph_.nodes[g].inputs, value) != graph_.nodes[g].inputs.end();
    });
  }

  void connect_output(std::size_t n, std::size_t output) {
    const std::vector<Reader> read = readers(static_cast<int>(n), static_cast<int>(output));
    const bool exits = block_.exit_node == static_cast<int>(n) &&
                       block_.exit_output == static_cast<int>(output) && result_.exit.variable >= 0;
    if (read.empty() && !exits) {
      return;
    }
    Classes gives;
    for (const NodeOption& option : options_[n]) {
      const Placements& lies = option.placed.outputs[output];
      gives.add({lies, tied(lies)});
    }
    const ValueId value = graph_.nodes[block_.nodes[n].node].outputs[output];
    connect(static_cast<int>(n), gives, graph_.values[value].type, read,
            exits ? result_.exit.variable : -1);
  }

  // From where a value is made to all who read it.
  void connect(int variable, const Classes& gives, const TensorType& type,
               const std::vector<Reader>& read, int exit) {
    int from = variable;
    Classes lies = gives;
    if (read.size() + (exit >= 0 ? 1 : 0) > 1) {
      lies = {};
      for (const Pair& pair : gives.pairs) {
        add_once(pair, lies);
      }
      for (const Reader& reader : read) {
        for (const Pair& pair : wanted(reader).pairs) {
          add_once(pair, lies);
        }
      }
      from = add_variable(lies.pairs.size());
      add_edge(variable, gives, from, lies, type, false);
    }
    for (const Reader& reader : read) {
      add_edge(from, lies, static_cast<int>(reader.node), wanted(reader), type,
               reads_again(reader));
    }
    if (exit >= 0) {
      add_edge(from, lies, exit, boundary_classes(result_.exit), type, false);
    }
  }

  static void add_once(const Pair& pair, Classes& classes) {
    if (std::ranges::find(classes.pairs, pair) == classes.pairs.end()) {
      classes.add(pair);
    }
  }

  struct EdgeCost {
    double forward_s = 0;
    double backward_s = 0;
  };
  EdgeCost edge_cost(const Pair& from, const Pair& to, double bytes, bool reads_again) {
    const Conversion& there = conversions_(from.lies, to.lies);
    EdgeCost cost;
    cost.forward_s = collectives_.seconds(there, from.lies, bytes);
    cost.backward_s = collectives_.seconds(conversions_(to.grad, from.grad), to.grad, bytes);
    if (reads_again && there.possible && !place_.least) {
      cost.backward_s += collectives_.seconds(there, from.lies, bytes, true);
    }
    return cost;
  }

  void add_edge(int first, const Classes& from, int second, const Classes& to,
                const TensorType& type, bool reads_again) {
    const double bytes = whole_bytes(type);
    std::vector<EdgeCost> table;
    table.reserve(from.pairs.size() * to.pairs.size());
    for (const Pair& a : from.pairs) {
      for (const Pair& b : to.pairs) {
        table.push_back(edge_cost(a, b, bytes, reads_again));
      }
    }
    ChoicePair pair{.first = first, .second = second, .cost = {}};
    pair.cost.resize(kCostKinds);
    auto& forward = pair.cost[kForwardWait];
    auto& backward = pair.cost[kBackwardWait];
    forward.reserve(from.of.size() * to.of.size());
    backward.reserve(from.of.size() * to.of.size());
    for (const int a : from.of) {
      for (const int b : to.of) {
        const EdgeCost& cost = table[a * to.pairs.size() + b];
        forward.push_back(static_cast<float>(cost.forward_s));
        backward.push_back(static_cast<float>(cost.backward_s));
      }
    }
    result_.choices.pairs.push_back(std::move(pair));
  }

  // What comes from elsewhere lies split along the batch on data axes and whole on others.
  void connect_elsewhere(std::size_t n) {
    const BlockNode& own = block_.nodes[n];
    for (std::size_t i = 0; i < own.operands.size(); ++i) {
      if (own.operands[i].from != kElsewhere) {
        continue;
      }
      const TensorType& type =
          graph_.values[graph_.nodes[own.node].inputs[own.operands[i].input]].type;
      Placements lies(place_.mesh.axes.size());
      for (int a = 0; a < place_.data_axes && type.rank() > 0 && type.shape[0].batched; ++a) {
        lies[a] = shard(0, type.shape[0].size);
      }
      const Reader reader{n, i};
      const Classes needs = wanted(reader);
      for (std::size_t value = 0; value < needs.of.size(); ++value) {
        const EdgeCost cost = edge_cost({lies, tied(lies)}, needs.pairs[needs.of[value]],
                                        whole_bytes(type), reads_again(reader));
        add(static_cast<int>(n), kForwardWait, value, cost.forward_s);
        add(static_cast<int>(n), kBackwardWait, value, cost.backward_s);
      }
    }
  }

  const BlockChain& chain_;
  const BlockGraph& block_;
  const BlockPlace& place_;
  const Graph& graph_;
  const OpTable& ops_;
  const std::vector<std::vector<NodeOption>>& options_;
  const std::vector<std::vector<WeightTerm>>& terms_;
  Conversions& conversions_;
  MeshCollectives collectives_;
  LocalKernels kernels_;
  BlockWeights weights_;
  std::vector<bool> needed_again_;  // by node, for `least`
  BlockProblem result_;
};

}  // namespace

std::vector<Placements> boundary_placements(const TensorType& type, const Mesh& mesh,
                                            int data_axes) {
  std::vector<Placements> all = {Placements{}};
  const bool batched = type.rank() > 0 && type.shape[0].batched;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a) {
    const bool free = static_cast<int>(a) >= data_axes;
    std::vector<Placement> options;
    if (batched) {
      options.push_back(shard(0, type.shape[0].size));
    }
    if (free || !batched) {
      options.push_back(replicate());
    }
    for (int d = 0; d < type.rank() && free; ++d) {
      const Dim& dim = type.shape[d];
      if (!dim.batched && dim.size > 1 && dim.size % mesh.axes[a].size == 0) {
        options.push_back(shard(d));
      }
    }
    std::vector<Placements> longer;
    for (const Placements& before : all) {
      for (const Placement& option : options) {
        longer.push_back(before);
        longer.back().push_back(option);
      }
    }
    all = std::move(longer);
  }
  return all;
}

BlockProblem block_problem(const BlockChain& chain, int block_class, const BlockPlace& place,
                           const Graph& training, const OpTable& ops, const CostModel& cost,
                           BlockOptions& options, Conversions& conversions) {
  return ProblemMaker(chain, block_class, place, training, ops, cost, options, conversions).run();
}

}  // namespace weft
