#include "weft/search/part_problem.h"

#include <algorithm>
#include <limits>
#include <map>

// However a node's work is cut into micro-batches and parts, the parts' flops
// and bytes add up to at least those of the whole, and a kernel takes a fixed time (launch, the
// time that kernels too small to be fast lose) and its share of the work at the best rate of its
// class of ops. With measured tables the fixed time is 0.
//
// A device type may have calls that take less than that (cost.cpp). Which parts they are is not
// known here, so nodes of their ops take no time on it, and hosts none to issue kernels: one call
// may save its host more than the call itself takes.
//
// Gradient nodes run on the devices of their forward node and for the same micro-batches, so they
// belong to its layer. They need not be cut as it is (plans have rules for them), so each node is a
// group of its own.
//
// A parameter costs kernels too. A gradient that is summed in another dtype is read and written by
// each of the n devices of its mesh for each of the m micro-batches. Otherwise the first one may be
// moved, and with u >= 1 update nodes
//
//   n u + n (m - 1) = n m + n (u - 1) >= the launches of a node that uses it + (u - 1)
//
// so one more launch belongs to the layer of its first user, which owns it, and its first update
// node has none of its own.

namespace weft {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

bool is_sum(const Node& node) {
  return node.op == "accumulate";
}

// A sum of another dtype than its terms is read and written for each of them. Otherwise the first
// term is moved, and the others are added.
bool is_copied(const Graph& training, const Node& sum) {
  return training.values[sum.inputs[0]].type.dtype != training.values[sum.outputs[0]].type.dtype;
}

KernelWork sum_work(const Graph& training, const Node& sum, std::int64_t batch) {
  const auto bytes = [&](ValueId v) {
    return static_cast<double>(bind(training.values[v].type, batch).bytes());
  };
  const bool copied = is_copied(training, sum);
  double moved = 0;
  for (std::size_t i = copied ? 0 : 1; i < sum.inputs.size(); ++i) {
    moved += bytes(sum.inputs[i]) + bytes(sum.outputs[0]);
  }
  return {.op_class = OpClass::stream, .dtype = DType::f32, .cost = {.bytes_moved = moved}};
}

// The least over types, each times its weight, of what a function says of the type.
template <typename Function>
double least_of(const std::vector<double>& weights, const Function& of_type) {
  double least = kNever;
  for (std::size_t t = 0; t < weights.size(); ++t) {
    least = std::min(least, weights[t] * of_type(t));
  }
  return least;
}

// The node in front of all else that is known of it: how long it takes.
PartNode timed_node(const NodeLines& lines, const std::vector<double>& weights,
                    const Cluster& cluster) {
  if (lines.empty()) {
    return {.kernels = 0};
  }
  const std::vector<double> even(weights.size(), 1);
  const auto fixed = [&](std::size_t t) { return lines[t].fixed_s; };
  const auto work = [&](std::size_t t) { return lines[t].work_s; };
  const auto launch = [&](std::size_t t) {
    return std::min(lines[t].fixed_s, cluster.types[t].launch_s);
  };
  const auto other = [&](std::size_t t) { return lines[t].fixed_s - launch(t); };
  return {.path = {.fixed_s = least_of(even, fixed), .work_s = least_of(even, work)},
          .area = {.fixed_s = least_of(weights, other), .work_s = least_of(weights, work)},
          .launch_s = least_of(weights, launch)};
}

// Numbers layers as they appear.
class LayerNumbers {
 public:
  int operator()(std::string_view layer) {
    return numbers_.try_emplace(std::string(layer), static_cast<int>(numbers_.size()))
        .first->second;
  }
  [[nodiscard]] std::size_t count() const { return numbers_.size(); }

 private:
  std::map<std::string, int, std::less<>> numbers_;
};

// What runs for each parameter as often as the node that uses it first is launched.
void add_parameters(const Graph& training, PartProblem& problem) {
  std::vector<NodeId> first_user(training.values.size(), -1);
  for (std::size_t n = training.nodes.size(); n-- > 0;) {
    for (const ValueId v : training.nodes[n].inputs) {
      if (training.nodes[n].role == Role::forward) {
        first_user[v] = static_cast<NodeId>(n);
      }
    }
  }
  std::vector<bool> done(training.values.size(), false);
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
    if (node.role != Role::update || node.op == "sum_squares") {
      continue;
    }
    for (const ValueId v : node.inputs) {
      const ValueId parameter = training.values[v].of;
      const bool gradient = training.values[v].kind == ValueKind::result && parameter >= 0 &&
                            training.values[parameter].kind == ValueKind::parameter;
      PartNode& own = problem.nodes[n];
      const NodeId sum = training.values[v].producer;
      if (!gradient || done[parameter] || own.kernels == 0 || first_user[parameter] < 0 ||
          !is_sum(training.nodes[sum]) || is_copied(training, training.nodes[sum])) {
        continue;
      }
      LayerExtra& layer = problem.layers[problem.nodes[first_user[parameter]].layer];
      layer.launch_s += own.launch_s;
      layer.kernels += 1;
      own.launch_s = 0;
      own.kernels = 0;
      done[parameter] = true;
    }
  }
}

// Where the first term of a sum is made.
int layer_of_term(const Graph& training, const Node& sum, const PartProblem& problem) {
  const NodeId producer = training.values[sum.inputs[0]].producer;
  return producer < 0 ? -1 : problem.nodes[producer].layer;
}

}  // namespace

OpCall whole_call(const Graph& training, const Node& node, std::int64_t batch) {
  OpCall call = call_of(training, node);
  for (TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (TensorType& type : *types) {
      type = bind(type, batch);
    }
  }
  return call;
}

std::vector<NodeLines> node_lines(const Graph& training, std::int64_t batch, const OpTable& ops,
                                  const CostModel& cost, double share) {
  std::vector<NodeLines> lines;
  for (const Node& node : training.nodes) {
    const OpDef& op = find_op(ops, node.op);
    NodeLines& own = lines.emplace_back();
    if (gives_views(op, node.outputs.size())) {
      continue;
    }
    const KernelWork work = is_sum(node) ? sum_work(training, node, batch)
                                         : kernel_work(op, whole_call(training, node, batch));
    if (is_sum(node) && work.cost.bytes_moved == 0) {
      continue;
    }
    for (std::size_t t = 0; t < cost.cluster().types.size(); ++t) {
      const int type = static_cast<int>(t);
      own.push_back(cost.may_take_less(type, node.op) ? KernelLine{}
                                                      : cost.least_line(type, work, share));
    }
  }
  return lines;
}

PartProblem part_problem(const Graph& training, const std::vector<NodeLines>& lines,
                         const std::vector<double>& weights, const Cluster& cluster) {
  PartProblem problem{.groups = static_cast<int>(training.nodes.size()),
                      .devices = static_cast<double>(cluster.devices.size()),
                      .issue_s = kNever};
  for (const DeviceType& type : cluster.types) {
    const bool saves =
        std::ranges::any_of(type.corrections, [](const auto& one) { return one.second < 0; });
    problem.issue_s = std::min(
        {problem.issue_s, saves ? 0 : type.issue_s, type.update_issue_s.value_or(type.issue_s)});
  }
  LayerNumbers layers;
  for (std::size_t n = 0; n < training.nodes.size(); ++n) {
    const Node& node = training.nodes[n];
    const NodeId forward = node.forward >= 0 ? node.forward : static_cast<NodeId>(n);
    PartNode part = timed_node(lines[n], weights, cluster);
    part.group = static_cast<NodeId>(n);
    if (is_sum(node)) {
      part.layer = is_copied(training, node) ? layer_of_term(training, node, problem) : -1;
    } else if (node.role != Role::update) {
      part.layer = layers(layer_of(training.nodes[forward].name));
    }
    for (const ValueId v : node.inputs) {
      if (training.values[v].producer >= 0) {
        part.before.push_back(training.values[v].producer);
      }
    }
    problem.nodes.push_back(std::move(part));
  }
  problem.layers.resize(layers.count());
  add_parameters(training, problem);
  return problem;
}

}  // namespace weft
