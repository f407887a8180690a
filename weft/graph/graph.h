#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/graph/type.h"

namespace weft {

using ValueId = int;
using NodeId = int;

using Ints = std::vector<std::int64_t>;
using Attr = std::variant<std::int64_t, double, std::string, Ints>;
using Attrs = std::map<std::string, Attr, std::less<>>;

/// Attribute access. A missing attribute or one of another kind is a bug of the graph's maker; an
/// integer is a number too.
[[nodiscard]] std::int64_t attr_int(const Attrs& attrs, std::string_view name);
[[nodiscard]] double attr_number(const Attrs& attrs, std::string_view name);
[[nodiscard]] const std::string& attr_text(const Attrs& attrs, std::string_view name);
[[nodiscard]] const Ints& attr_ints(const Attrs& attrs, std::string_view name);
[[nodiscard]] bool has_attr(const Attrs& attrs, std::string_view name);

enum class ValueKind : std::uint8_t { input, parameter, state, result };

/// How a parameter or a state begins. Element i of a normal one depends on (seed, name, i) alone.
struct Init {
  enum class Kind : std::uint8_t { zeros, ones, normal, copy };  // copy: of the parameter `of`
  Kind kind = Kind::zeros;
  double std_dev = 0;
  bool operator==(const Init&) const = default;
};

struct Value {
  std::string name = {};  // unique
  TensorType type = {};
  ValueKind kind = ValueKind::result;
  NodeId producer = -1;  // results only
  ValueId of = -1;       // a state: its parameter; a gradient: what it is the gradient of
  Init init = {};        // parameters and states
  /// A parameter that is not trained (frozen weights, constants, running statistics) has no
  /// gradient and no state. Only a node of the graph itself may give it a next value.
  bool trained = true;
  bool operator==(const Value&) const = default;
};

/// weight_grad nodes serve nothing but parameter gradients, so they can wait; input_grad nodes are
/// what earlier layers wait for.
enum class Role : std::uint8_t { forward, input_grad, weight_grad, update };
[[nodiscard]] std::string_view role_name(Role role);

struct Node {
  std::string op = {};
  std::string name = {};  // unique; a path such as "h.0/attn/q". Its first part is the layer.
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  Attrs attrs = {};
  Role role = Role::forward;
  NodeId forward = -1;  // of a gradient node: the forward node it differentiates
  bool operator==(const Node&) const = default;
};

/// The value of a parameter or a state in the next step.
struct Next {
  ValueId old_value = -1;
  ValueId new_value = -1;
  bool operator==(const Next&) const = default;
};

/// A training step (or a forward pass) in static single assignment: every value has one producer,
/// nodes stand in an order in which they can run.
///
/// Step and micro-batch: everything is computed for each micro-batch, except what an `accumulate`
/// node (a sum over its inputs and over all micro-batches) and its users compute: that is once a
/// step.
struct Graph {
  std::vector<Value> values = {};
  std::vector<Node> nodes = {};
  ValueId loss = -1;
  std::vector<Next> next = {};
  bool operator==(const Graph&) const = default;
};

/// "h.0" for "h.0/attn/q".
[[nodiscard]] std::string_view layer_of(std::string_view name);
/// The layers of the forward nodes, in order of first appearance.
[[nodiscard]] std::vector<std::string> layers(const Graph& graph);
/// Uses of each value: the nodes that read it, ascending, each once.
[[nodiscard]] std::vector<std::vector<NodeId>> users(const Graph& graph);
[[nodiscard]] std::vector<ValueId> values_of_kind(const Graph& graph, ValueKind kind);
/// Elements in all parameters but running statistics.
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);
/// A copy whose batch symbol has a value.
[[nodiscard]] Graph bind(const Graph& graph, std::int64_t batch);

/// All violations of the structure: names, producers, order, ids, batch symbols. Empty if sound.
/// (Types against op rules: ops/verify.h.)
[[nodiscard]] std::vector<std::string> structural_violations(const Graph& graph);

}  // namespace weft
