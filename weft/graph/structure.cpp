// The invariants of docs/spec/graph.md. Every check looks at one value, node or next entry and
// reports all it finds there, so that one mistake does not hide another.
#include "weft/graph/structure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace weft {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class Checker {
 public:
  explicit Checker(const Graph& graph) : graph_(graph) {}

  std::vector<Violation> run() {
    for (ValueId id = 0; id < value_count(); ++id) {
      at_ = {.value = id};
      subject_ = fmt::format("value {} \"{}\"", id, value(id).name);
      check_value(value(id));
    }
    collect_outputs();
    for (NodeId id = 0; id < node_count(); ++id) {
      at_ = {.node = id};
      subject_ = fmt::format("node {} \"{}\"", id, node(id).name);
      check_node(id);
    }
    at_ = {};
    check_loss();
    check_next();
    return std::move(found_);
  }

 private:
  [[nodiscard]] ValueId value_count() const { return static_cast<ValueId>(graph_.values.size()); }
  [[nodiscard]] NodeId node_count() const { return static_cast<NodeId>(graph_.nodes.size()); }
  [[nodiscard]] bool has_value(ValueId id) const { return id >= 0 && id < value_count(); }
  [[nodiscard]] bool has_node(NodeId id) const { return id >= 0 && id < node_count(); }
  [[nodiscard]] const Value& value(ValueId id) const {
    return graph_.values[static_cast<std::size_t>(id)];
  }
  [[nodiscard]] const Node& node(NodeId id) const {
    return graph_.nodes[static_cast<std::size_t>(id)];
  }

  template <typename... Args>
  void expect(bool ok, fmt::format_string<Args...> format, Args&&... args) {
    if (!ok) {
      Violation violation = at_;
      violation.message = subject_ + ": " + fmt::format(format, std::forward<Args>(args)...);
      found_.push_back(std::move(violation));
    }
  }

  void check_value(const Value& v) {
    expect(!v.name.empty(), "has no name");
    expect(value_names_.insert(v.name).second, "another value has the same name");
    check_type(v.type);
    check_producer(v);
    check_of(v);
    check_init(v);
    const bool persistent = v.kind == ValueKind::parameter || v.kind == ValueKind::state;
    expect(!persistent || is_bound(v.type.shape),
           "a parameter or state cannot depend on the batch, but its shape is {}",
           format_shape(v.type.shape));
  }

  void check_type(const TensorType& type) {
    std::int64_t bytes = element_bytes(type.dtype);
    bool fits = true;
    for (const Dim& dim : type.shape) {
      expect(dim.size >= 1, "a dim of {} is not positive", format_shape(type.shape));
      fits = fits && !__builtin_mul_overflow(bytes, std::max<std::int64_t>(dim.size, 1), &bytes);
    }
    expect(fits, "{} has more bytes than 64 bits can count", format_type(type));
    expect(std::ranges::count(type.shape, true, &Dim::batched) <= 1,
           "more than one dim of {} is a multiple of the batch", format_shape(type.shape));
  }

  void check_producer(const Value& v) {
    if (v.kind != ValueKind::result) {
      expect(v.producer == -1, "only results have a producer");
      return;
    }
    expect(has_node(v.producer), "its producer {} is no node", v.producer);
    if (has_node(v.producer)) {
      const std::vector<ValueId>& outputs = node(v.producer).outputs;
      expect(std::ranges::find(outputs, at_.value) != outputs.end(),
             "its producer \"{}\" does not list it as an output", node(v.producer).name);
    }
  }

  void check_of(const Value& v) {
    const bool known = has_value(v.of);
    if (v.kind == ValueKind::state) {
      expect(known && value(v.of).kind == ValueKind::parameter, "a state must be of a parameter");
      expect(!known || value(v.of).trained, "\"{}\" is not trained, so it has no state",
             known ? value(v.of).name : "");
    } else if (v.kind == ValueKind::result) {
      expect(v.of == -1 || known, "it is the gradient of {}, which is no value", v.of);
      expect(!known || value(v.of).trained, "\"{}\" is not trained, so it has no gradient",
             known ? value(v.of).name : "");
      expect(!known || value(v.of).type.shape == v.type.shape,
             "a gradient has the shape of what it belongs to: {}, not {}",
             known ? format_shape(value(v.of).type.shape) : "", format_shape(v.type.shape));
    } else {
      expect(v.of == -1, "only states and gradients belong to another value");
    }
  }

  void check_init(const Value& v) {
    expect(v.trained || v.kind == ValueKind::parameter, "only a parameter can be frozen");
    const bool persistent = v.kind == ValueKind::parameter || v.kind == ValueKind::state;
    expect(persistent || v.init == Init{}, "only parameters and states have an initial value");
    const bool normal = v.init.kind == Init::Kind::normal;
    expect(normal ? std::isfinite(v.init.std_dev) && v.init.std_dev >= 0 : v.init.std_dev == 0,
           "its standard deviation {} does not suit its initial value", v.init.std_dev);
    if (v.init.kind == Init::Kind::copy) {
      expect(v.kind == ValueKind::state, "only a state can begin as a copy");
      expect(!has_value(v.of) || value(v.of).type.shape == v.type.shape,
             "a copy has the shape of its parameter");
    }
  }

  // Which node writes each value; a second writer is reported where it stands.
  void collect_outputs() {
    for (NodeId id = 0; id < node_count(); ++id) {
      for (const ValueId output : node(id).outputs) {
        writer_.emplace(output, id);
      }
    }
  }

  void check_node(NodeId id) {
    const Node& n = node(id);
    expect(!layer_of(n.name).empty(), "a name must begin with a layer");
    expect(node_names_.insert(n.name).second, "another node has the same name");
    expect(is_word(n.op), "'{}' cannot be the name of an op", n.op);
    expect(!n.outputs.empty(), "has no outputs");
    check_attrs(n);
    check_outputs(id, n);
    check_inputs(id, n);
    check_forward(id, n);
  }

  void check_attrs(const Node& n) {
    for (const auto& [name, attr] : n.attrs) {
      expect(is_word(name), "'{}' cannot be the name of an attribute", name);
      const auto* number = std::get_if<double>(&attr);
      expect(number == nullptr || std::isfinite(*number), "attribute {} is not finite", name);
    }
  }

  void check_outputs(NodeId id, const Node& n) {
    std::set<ValueId> own;
    for (const ValueId output : n.outputs) {
      if (!has_value(output)) {
        expect(false, "its output {} is no value", output);
        continue;
      }
      const Value& v = value(output);
      expect(own.insert(output).second, "lists its output \"{}\" twice", v.name);
      expect(writer_.at(output) == id, "\"{}\" already has a producer, \"{}\"", v.name,
             node(writer_.at(output)).name);
      expect(v.kind == ValueKind::result, "its output \"{}\" is not a result", v.name);
      expect(v.producer == id, "its output \"{}\" names another producer", v.name);
    }
  }

  void check_inputs(NodeId id, const Node& n) {
    for (const ValueId input : n.inputs) {
      if (!has_value(input)) {
        expect(false, "its input {} is no value", input);
        continue;
      }
      const auto writer = writer_.find(input);
      if (writer == writer_.end()) {
        continue;  // an input of the graph, or a result that is already reported
      }
      expect(writer->second < id, "reads \"{}\", which is computed later", value(input).name);
      const Role role = node(writer->second).role;
      expect(role <= n.role, "a node of role {} cannot read \"{}\" of role {}", role_name(n.role),
             value(input).name, role_name(role));
    }
  }

  void check_forward(NodeId id, const Node& n) {
    if (n.role == Role::forward || n.role == Role::update) {
      expect(n.forward == -1, "only gradient nodes belong to a forward node");
      return;
    }
    expect(n.forward == -1 || (n.forward >= 0 && n.forward < id),
           "its forward node {} is not an earlier node", n.forward);
    if (n.forward >= 0 && n.forward < id) {
      expect(node(n.forward).role == Role::forward, "\"{}\" is not a forward node",
             node(n.forward).name);
    }
  }

  void check_loss() {
    subject_ = "loss";
    expect(graph_.loss == -1 || has_value(graph_.loss), "{} is no value", graph_.loss);
    if (has_value(graph_.loss)) {
      const Value& loss = value(graph_.loss);
      expect(loss.kind == ValueKind::result, "\"{}\" is not a result", loss.name);
      expect(loss.type.shape.empty(), "\"{}\" is not a scalar but {}", loss.name,
             format_type(loss.type));
    }
  }

  void check_next() {
    std::set<ValueId> old_values;
    std::set<ValueId> new_values;
    for (std::size_t i = 0; i < graph_.next.size(); ++i) {
      const Next& next = graph_.next[i];
      at_ = {.next = static_cast<int>(i)};
      subject_ = fmt::format("next of {}", next.old_value);
      if (!has_value(next.old_value) || !has_value(next.new_value)) {
        expect(false, "{} or {} is no value", next.old_value, next.new_value);
        continue;
      }
      const Value& before = value(next.old_value);
      const Value& after = value(next.new_value);
      subject_ = fmt::format("next of \"{}\"", before.name);
      expect(before.kind == ValueKind::parameter || before.kind == ValueKind::state,
             "only parameters and states have a next value");
      expect(after.kind == ValueKind::result, "\"{}\" is not a result", after.name);
      expect(before.type == after.type, "\"{}\" has type {}, not {}", after.name,
             format_type(after.type), format_type(before.type));
      expect(old_values.insert(next.old_value).second, "is given twice");
      expect(new_values.insert(next.new_value).second,
             "\"{}\" is already the next of another value", after.name);
    }
  }

  const Graph& graph_;
  std::vector<Violation> found_;
  Violation at_;
  std::string subject_;
  std::set<std::string_view> value_names_;
  std::set<std::string_view> node_names_;
  std::map<ValueId, NodeId> writer_;
};

}  // namespace

bool is_word(std::string_view text) {
  return !text.empty() && is_letter(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '.';
  });
}

std::vector<Violation> find_violations(const Graph& graph) {
  return Checker(graph).run();
}

std::vector<std::string> structural_violations(const Graph& graph) {
  std::vector<std::string> messages;
  for (Violation& violation : find_violations(graph)) {
    messages.push_back(std::move(violation.message));
  }
  return messages;
}

}  // namespace weft
