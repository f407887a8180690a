#include "weft/search/block_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "weft/base/error.h"
#include "weft/graph/blocks.h"
#include "weft/program/lower.h"
#include "weft/recipes/node_rules.h"
#include "weft/recipes/node_splits.h"

namespace weft {
namespace {

bool is_gradient(const Node& node) {
  return (node.role == Role::input_grad || node.role == Role::weight_grad) &&
         node.op != "accumulate";
}

bool is_view(const OpDef& op) {
  return op.aliases.size() == 1 && !op.aliases[0].in_place;
}

int output_of(const Node& node, ValueId value) {
  return static_cast<int>(std::ranges::find(node.outputs, value) - node.outputs.begin());
}

class ChainMaker {
 public:
  ChainMaker(const Graph& graph, const OpTable& ops, const Pins& pins)
      : graph_(graph), ops_(ops), pinned_(pinned_layers(pins, graph)) {}

  BlockChain run() {
    chain_.layers = layers(graph_);
    find_nodes();
    find_parameters();
    find_shared();
    find_saved();
    find_classes();
    return std::move(chain_);
  }

 private:
  void find_nodes() {
    for (std::size_t i = 0; i < chain_.layers.size(); ++i) {
      place_[chain_.layers[i]] = static_cast<int>(i);
    }
    chain_.nodes.resize(chain_.layers.size());
    chain_.gradients = gradient_nodes(graph_);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (is_ruled(node)) {
        chain_.nodes[layer(node)].push_back(static_cast<NodeId>(n));
      }
    }
  }

  void find_parameters() {
    chain_.parameters.resize(graph_.values.size());
    for (std::size_t v = 0; v < graph_.values.size(); ++v) {
      const Value& value = graph_.values[v];
      if (value.of < 0) {
        continue;
      }
      if (value.kind == ValueKind::state) {
        chain_.parameters[value.of].states.push_back(static_cast<ValueId>(v));
      } else if (value.kind == ValueKind::result &&
                 graph_.values[value.of].kind == ValueKind::parameter &&
                 graph_.nodes[value.producer].op == "accumulate") {
        chain_.parameters[value.of].sum = static_cast<ValueId>(v);
        chain_.parameters[value.of].terms = graph_.nodes[value.producer].inputs;
      }
    }
    std::map<ValueId, ValueId> updated;  // what updates made → its parameter
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      const Node& node = graph_.nodes[n];
      if (node.role != Role::update || node.inputs.empty() || node.op == "sum_squares" ||
          node.op == "clip_scale") {
        continue;
      }
      const ValueId first = node.inputs[0];
      const auto made = updated.find(first);
      const ValueId parameter = made != updated.end() ? made->second
                                : graph_.values[first].kind == ValueKind::parameter
                                    ? first
                                    : graph_.values[first].of;
      if (parameter >= 0) {
        chain_.parameters[parameter].updates.push_back(static_cast<NodeId>(n));
        for (const ValueId v : node.outputs) {
          updated[v] = parameter;
        }
      }
    }
  }

  // Parameters that several layers use.
  void find_shared() {
    std::map<ValueId, int> first;
    for (std::size_t l = 0; l < chain_.nodes.size(); ++l) {
      for (const NodeId n : chain_.nodes[l]) {
        for (const ValueId v : graph_.nodes[n].inputs) {
          if (graph_.values[v].kind == ValueKind::parameter &&
              first.try_emplace(v, static_cast<int>(l)).first->second != static_cast<int>(l)) {
            chain_.shared.push_back(v);
          }
        }
      }
    }
    std::ranges::sort(chain_.shared);
    chain_.shared.erase(std::unique(chain_.shared.begin(), chain_.shared.end()),
                        chain_.shared.end());
    for (const ValueId v : chain_.shared) {
      chain_.shared_first.push_back(first.at(v));
    }
  }

  void find_saved() {
    chain_.saved.assign(graph_.values.size(), false);
    std::vector<ValueId> storage(graph_.values.size());
    for (std::size_t v = 0; v < storage.size(); ++v) {
      storage[v] = static_cast<ValueId>(v);
    }
    chain_.repeated = repeated_values(graph_, ops_, users(graph_));
    chain_.crosses.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      const OpDef& op = find_op(ops_, node.op);
      if (is_view(op)) {
        storage[node.outputs[op.aliases[0].output]] = storage[node.inputs[op.aliases[0].input]];
      }
      for (const ValueId v : node.inputs) {
        const NodeId producer = graph_.values[storage[v]].producer;
        if (is_gradient(node) && producer >= 0 && graph_.nodes[producer].role == Role::forward &&
            !chain_.repeated[storage[v]]) {
          chain_.saved[storage[v]] = true;
        }
        if (is_ruled(node) && producer >= 0 && is_ruled(graph_.nodes[producer]) &&
            layer(node) != layer(graph_.nodes[producer])) {
          chain_.crosses[storage[v]] = true;
        }
      }
    }
  }

  void find_classes() {
    chain_.class_of.resize(chain_.layers.size());
    chain_.repeated_layer.resize(chain_.layers.size());
    for (const BlockClass& alike : find_blocks(graph_)) {
      const std::size_t first = chain_.classes.size();
      for (const std::string& name : alike.layers) {
        const auto pinned = pinned_.find(name);
        const PinnedLayer wanted = pinned == pinned_.end() ? PinnedLayer() : pinned->second;
        const auto same = std::find(chain_.pinned.begin() + static_cast<std::ptrdiff_t>(first),
                                    chain_.pinned.end(), wanted);
        chain_.class_of[place_.at(name)] = static_cast<int>(same - chain_.pinned.begin());
        chain_.repeated_layer[place_.at(name)] = alike.layers.size() >= 2 || is_numbered(name);
        if (same == chain_.pinned.end()) {
          chain_.pinned.push_back(wanted);
          chain_.classes.push_back(block(place_.at(name)));
          std::vector<BlockNode>& nodes = chain_.classes.back().nodes;
          for (std::size_t n = 0; n < wanted.nodes.size(); ++n) {
            nodes[n].pinned = wanted.nodes[n];
          }
        }
      }
    }
  }

  [[nodiscard]] int layer(const Node& node) const {
    return place_.find(layer_of(node.name))->second;
  }

  BlockGraph block(int layer) {
    BlockGraph result;
    result.entry = entry_of(layer);
    result.exit = layer + 1 < static_cast<int>(chain_.layers.size()) ? entry_of(layer + 1) : -1;
    std::map<NodeId, int> at;
    std::set<ValueId> seen;
    for (const NodeId n : chain_.nodes[layer]) {
      const Node& node = graph_.nodes[n];
      at[n] = static_cast<int>(result.nodes.size());
      BlockNode own{.node = n, .gradients = chain_.gradients[n], .parameters = {}, .operands = {}};
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId v = node.inputs[i];
        const Value& value = graph_.values[v];
        if (value.kind == ValueKind::parameter && seen.insert(v).second) {
          own.parameters.push_back(v);
        } else if (value.kind == ValueKind::result) {
          const auto inside = at.find(value.producer);
          const int from = inside != at.end()  ? inside->second
                           : v == result.entry ? kEntry
                                               : kElsewhere;
          own.operands.push_back({.input = static_cast<int>(i),
                                  .from = from,
                                  .output = output_of(graph_.nodes[value.producer], v)});
        }
      }
      result.nodes.push_back(std::move(own));
    }
    if (result.exit >= 0) {
      const NodeId producer = graph_.values[result.exit].producer;
      const auto inside = at.find(producer);
      if (inside != at.end()) {
        result.exit_node = inside->second;
        result.exit_output = output_of(graph_.nodes[producer], result.exit);
      } else {
        result.exit = -1;  // it only passes this layer by
      }
    }
    return result;
  }

  // Of what earlier layers made: the value that the latest of them made, of those the first read.
  [[nodiscard]] ValueId entry_of(int layer) const {
    ValueId entry = -1;
    int latest = -1;
    for (const NodeId n : chain_.nodes[layer]) {
      for (const ValueId v : graph_.nodes[n].inputs) {
        const Value& value = graph_.values[v];
        if (value.kind != ValueKind::result) {
          continue;
        }
        const int made = this->layer(graph_.nodes[value.producer]);
        if (made < layer && made > latest) {
          latest = made;
          entry = v;
        }
      }
    }
    return entry;
  }

  const Graph& graph_;
  const OpTable& ops_;
  std::map<std::string, PinnedLayer> pinned_;
  BlockChain chain_;
  std::map<std::string, int, std::less<>> place_;  // of a layer
};

}  // namespace

BlockChain block_chain(const Graph& training, const OpTable& ops, const Pins& pins) {
  return ChainMaker(training, ops, pins).run();
}

}  // namespace weft
