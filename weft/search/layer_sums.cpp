#include "weft/search/layer_sums.h"

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/graph/blocks.h"
#include "weft/program/lower.h"
#include "weft/recipes/node_rules.h"
#include "weft/recipes/node_splits.h"

// Costs of ops are affine in the number of samples, so two evaluations (1 and 2 samples) give the
// line. A node whose forward node is split along tp does 1/tp of its work there, and so do its
// gradient nodes.

namespace weft {
namespace {

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

OpCall bound_call(const Graph& graph, const Node& node, std::int64_t samples) {
  OpCall call = call_of(graph, node);
  for (TensorTypes* types : {&call.inputs, &call.outputs}) {
    for (TensorType& type : *types) {
      type = bind(type, samples);
    }
  }
  return call;
}

NodeLine node_line(const Graph& graph, const Node& node, const OpTable& ops, double share) {
  const OpCall one = bound_call(graph, node, 1);
  const Cost at_1 = find_op(ops, node.op).cost(one);
  const Cost at_2 = find_op(ops, node.op).cost(bound_call(graph, node, 2));
  NodeLine line;
  line.op_class = op_class(node.op);
  for (const TensorType& type : one.inputs) {
    if (is_floating(type.dtype)) {
      line.dtype = type.dtype;
      break;
    }
  }
  line.per_sample = {share * (at_2.flops - at_1.flops),
                     share * (at_2.bytes_moved - at_1.bytes_moved),
                     share * (at_2.scores - at_1.scores)};
  line.fixed = {share * at_1.flops - line.per_sample.flops,
                share * at_1.bytes_moved - line.per_sample.bytes_moved,
                share * at_1.scores - line.per_sample.scores};
  return line;
}

double sample_bytes(const TensorType& type) {
  return static_cast<double>(bind(type, 2).bytes() - bind(type, 1).bytes());
}

bool is_view(const OpDef& op) {
  return op.aliases.size() == 1 && !op.aliases[0].in_place;
}

class Summing {
 public:
  Summing(const Graph& graph, const OpTable& ops, int tp) : graph_(graph), ops_(ops), tp_(tp) {
    Mesh mesh;
    for (int d = 0; d < tp; ++d) {
      mesh.devices.push_back(d);
    }
    if (tp > 1) {
      mesh.axes.push_back({"tp", tp});
    }
    splits_ = node_splits(graph, ops, mesh, std::vector<int>(layers(graph).size(), 0));
  }

  ModelSums run() {
    ModelSums sums;
    sums.why_not = splits_.why_not;
    if (!sums.why_not.empty()) {
      return sums;
    }
    find_shares();
    const std::vector<BlockClass> classes = find_blocks(graph_);
    std::map<std::string, std::pair<int, bool>> of_layer;
    for (std::size_t c = 0; c < classes.size(); ++c) {
      representative_[classes[c].layers[0]] = static_cast<int>(c);
      for (const std::string& layer : classes[c].layers) {
        of_layer[layer] = {static_cast<int>(c),
                           classes[c].layers.size() >= 2 || is_numbered(layer)};
      }
    }
    for (const std::string& layer : layers(graph_)) {
      sums.class_of.push_back(of_layer.at(layer).first);
      sums.repeated.push_back(of_layer.at(layer).second);
    }
    sums.classes.resize(classes.size());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      add_node(static_cast<NodeId>(n), sums);
    }
    add_saved(sums);
    return sums;
  }

 private:
  // Share of a value, and of a node's work, that one device of tp has.
  void find_shares() {
    value_share_.assign(graph_.values.size(), 1);
    if (tp_ == 1) {
      return;
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (!is_ruled(node)) {
        continue;
      }
      const NodePlacement& placed = splits_.placements[n];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (graph_.values[node.inputs[i]].kind == ValueKind::parameter &&
            placed.inputs[i][0].kind == Placement::Kind::shard) {
          value_share_[node.inputs[i]] = 1.0 / tp_;
        }
      }
      for (std::size_t o = 0; o < node.outputs.size(); ++o) {
        if (placed.outputs[o][0].kind == Placement::Kind::shard) {
          value_share_[node.outputs[o]] = 1.0 / tp_;
        }
      }
    }
  }

  [[nodiscard]] double node_share(NodeId forward) const {
    const bool split =
        tp_ > 1 && forward >= 0 && splits_.splits[forward][0].kind == Split::Kind::factor;
    return split ? 1.0 / tp_ : 1.0;
  }

  // The class whose first layer has this name, nullptr if it is not the first of its class.
  LayerSums* sums_of(std::string_view layer, ModelSums& sums) const {
    const auto found = representative_.find(layer);
    return found == representative_.end() ? nullptr : &sums.classes[found->second];
  }

  void add_node(NodeId n, ModelSums& sums) {
    const Node& node = graph_.nodes[n];
    const NodeId forward = node.role == Role::forward ? n : node.forward;
    if (node.role == Role::update || node.op == "accumulate") {
      return;
    }
    const std::string_view name = forward >= 0 ? graph_.nodes[forward].name : node.name;
    LayerSums* layer = sums_of(layer_of(name), sums);
    if (layer == nullptr) {
      return;
    }
    if (!is_view(find_op(ops_, node.op))) {
      auto& list = node.role == Role::forward ? layer->forward : layer->backward;
      list.push_back(node_line(graph_, node, ops_, node_share(forward)));
    }
    double operands = 0;
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
      for (const ValueId v : *values) {
        operands += sample_bytes(graph_.values[v].type) * node_share(forward);
      }
    }
    layer->largest_bytes = std::max(layer->largest_bytes, operands);
    if (node.role == Role::forward) {
      add_inputs(n, *layer);
    }
  }

  void add_inputs(NodeId n, LayerSums& layer) {
    const Node& node = graph_.nodes[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const Value& value = graph_.values[v];
      const std::string own(layer_of(node.name));
      const bool first = seen_.insert({own, v}).second;
      if (value.kind == ValueKind::parameter && first) {
        add_parameter(v, layer);
      } else if (first &&
                 (value.producer < 0 || layer_of(graph_.nodes[value.producer].name) != own)) {
        layer.entry_bytes += sample_bytes(value.type) * value_share_[v];
      }
      if (tp_ > 1 && value.producer >= 0) {
        add_conversion(v, splits_.placements[n].inputs[i], own, layer);
      }
    }
  }

  // A value that several nodes need in the same form is converted once.
  void add_conversion(ValueId v, const Placements& needed, const std::string& layer,
                      LayerSums& sums) {
    const NodeId producer = graph_.values[v].producer;
    const Node& maker = graph_.nodes[producer];
    const auto o = std::find(maker.outputs.begin(), maker.outputs.end(), v) - maker.outputs.begin();
    const Placements& lies = splits_.placements[producer].outputs[o];
    if (lies == needed || !converted_.insert({layer, v, format_placements(needed)}).second) {
      return;
    }
    for (const ReshardStep& step : reshard_path(lies, needed)) {
      if (step.kind != CollectiveKind::slice) {
        const double share = step.kind == CollectiveKind::all_to_all ? 1.0 / tp_ : 1.0;
        sums.collectives.push_back({step.kind, sample_bytes(graph_.values[v].type) * share});
      }
    }
  }

  // A parameter with its gradient and states; each parameter of the optimizer's node is updated
  // once.
  void add_parameter(ValueId parameter, LayerSums& layer) {
    const double share = value_share_[parameter];
    ++layer.parameters;
    layer.parameter_bytes += share * static_cast<double>(graph_.values[parameter].type.bytes());
    if (satellites_.empty()) {
      find_satellites();
    }
    for (const ValueId v : satellites_[parameter].states) {
      layer.state_bytes += share * static_cast<double>(graph_.values[v].type.bytes());
    }
    for (const ValueId v : satellites_[parameter].sums) {
      layer.gradient_bytes += share * static_cast<double>(graph_.values[v].type.bytes());
    }
    for (const NodeId n : satellites_[parameter].updates) {
      layer.update.push_back(node_line(graph_, graph_.nodes[n], ops_, share));
    }
  }

  void find_satellites() {
    satellites_.resize(graph_.values.size());
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.kind == ValueKind::state && value.of >= 0) {
        satellites_[value.of].states.push_back(static_cast<ValueId>(v));
      } else if (value.kind == ValueKind::result && value.of >= 0 &&
                 graph_.nodes[value.producer].op == "accumulate") {
        satellites_[value.of].sums.push_back(static_cast<ValueId>(v));
      }
    }
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.role != Role::update || node.op == "sum_squares" || node.op == "clip_scale") {
        continue;
      }
      if (const ValueId parameter = owner(node.inputs[0]); parameter >= 0) {
        satellites_[parameter].updates.push_back(static_cast<NodeId>(n));
      }
    }
  }

  // The parameter that a tensor of the update (itself, a state, its gradient) belongs to, or -1.
  [[nodiscard]] ValueId owner(ValueId v) const {
    return graph_.values[v].kind == ValueKind::parameter ? v : graph_.values[v].of;
  }

  void add_saved(ModelSums& sums) {
    std::vector<ValueId> storage(graph_.values.size());
    for (std::size_t v = 0; v < storage.size(); ++v) {
      storage[v] = static_cast<ValueId>(v);
    }
    std::set<ValueId> saved;
    const std::vector<bool> repeated = repeated_values(graph_, ops_, users(graph_));
    for (const Node& node : graph_.nodes) {
      const OpDef& op = find_op(ops_, node.op);
      if (is_view(op)) {
        storage[node.outputs[op.aliases[0].output]] = storage[node.inputs[op.aliases[0].input]];
      }
      if (node.role == Role::input_grad || node.role == Role::weight_grad) {
        for (const ValueId v : node.inputs) {
          saved.insert(storage[v]);
        }
      }
    }
    for (const ValueId v : saved) {
      const NodeId producer = graph_.values[v].producer;
      if (producer < 0 || graph_.nodes[producer].role != Role::forward || repeated[v]) {
        continue;
      }
      LayerSums* layer = sums_of(layer_of(graph_.nodes[producer].name), sums);
      if (layer != nullptr) {
        layer->saved_bytes += sample_bytes(graph_.values[v].type) * value_share_[v];
      }
    }
  }

  struct Satellites {
    std::vector<ValueId> states;
    std::vector<ValueId> sums;
    std::vector<NodeId> updates;
  };

  const Graph& graph_;
  const OpTable& ops_;
  int tp_;
  NodeSplits splits_;
  std::vector<double> value_share_;
  std::map<std::string, int, std::less<>> representative_;  // first layer of a class → class
  std::set<std::pair<std::string, ValueId>> seen_;
  std::set<std::tuple<std::string, ValueId, std::string>> converted_;
  std::vector<Satellites> satellites_;
};

}  // namespace

ModelSums model_sums(const Graph& training, const OpTable& ops, int tp) {
  return Summing(training, ops, tp).run();
}

}  // namespace weft
