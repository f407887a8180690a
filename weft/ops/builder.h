#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/ops/op.h"

namespace weft {

/// Appends nodes to a graph; types come from the ops' shape rules. Names are made unique by
/// appending ".2",
/// ".3", … where needed. Results are named after their node: "h.0/ln", "h.0/ln:1" (second output).
class Builder {
 public:
  Builder(Graph& graph, const OpTable& ops) : graph_(graph), ops_(ops) {}

  /// Inputs, parameters and states take the name as it is, without the scope. Throws Error{input}
  /// if it is taken.
  ValueId input(const std::string& name, TensorType type);
  ValueId parameter(const std::string& name, TensorType type, Init init);
  ValueId state(const std::string& name, TensorType type, ValueId of, Init init);

  /// The first output.
  ValueId emit(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
               std::string_view name = {});
  std::vector<ValueId> emit_all(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                                std::string_view name = {});

  /// Prefix of the names of what follows, "h.0/attn". Nodes without a name take the op's.
  void set_scope(std::string scope) { scope_ = std::move(scope); }
  [[nodiscard]] const std::string& scope() const { return scope_; }
  void set_role(Role role, NodeId forward = -1) {
    role_ = role;
    forward_ = forward;
  }

  [[nodiscard]] const TensorType& type(ValueId value) const;
  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] const OpTable& ops() const { return ops_; }

 private:
  static std::string result_name(const std::string& node, std::size_t output);
  std::string unique(const std::string& name, std::size_t outputs);
  void learn_names();
  ValueId add_leaf(Value value);
  ValueId add_value(Value value);

  Graph& graph_;
  const OpTable& ops_;
  std::string scope_;
  Role role_ = Role::forward;
  NodeId forward_ = -1;
  std::map<std::string, int, std::less<>> names_;  // in use -> the last number appended to it
  std::size_t known_values_ = 0;                   // of the graph, up to which `names_` has them
  std::size_t known_nodes_ = 0;
};

}  // namespace weft
