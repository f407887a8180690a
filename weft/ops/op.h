#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/graph/graph.h"
#include "weft/sharding/factor_rule.h"
#include "weft/sharding/placement.h"

namespace weft {

/// One op applied to typed inputs. After sharding the types are the local ones, so a kernel takes
/// sizes from types, never from attributes.
struct OpCall {
  TensorTypes inputs;
  TensorTypes outputs;  // empty in `infer`
  Attrs attrs;
  /// In a ring (FactorRule): which run this is, -1 for the only one. Behind run 0 the outputs hold
  /// what the runs before have made and are brought up to date in place.
  int ring_step = -1;
};

/// Work of a call. Bytes are those of a kernel that reads its inputs and writes its outputs once.
struct Cost {
  double flops = 0;
  double bytes_moved = 0;
  /// Of attention: scores that a kernel which is not fused writes and reads.
  double scores = 0;
};

/// An output that has no storage of its own.
struct Alias {
  int output = 0;
  int input = 0;
  bool in_place = false;  // the input is overwritten; otherwise the output is a view of it
};

/// If the input dies with the node, the output may take its storage: the kernel is right when both
/// lie at one address.
struct MayOverwrite {
  int output = 0;
  int input = 0;
};

// ---- gradients
// -----------------------------------------------------------------------------------

class Builder;

/// What a gradient rule gets. `output_grads[i]` is -1 where nothing flows back.
struct Backward {
  Builder& build;
  const Node& node;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::vector<ValueId> output_grads;
  std::vector<bool> wanted;  // which inputs need a gradient
};

// ---- kernels: a straight line of ATen calls, as data
// ---------------------------------------------

struct KernelSlot {
  int index = -1;
};
struct None {};
using KernelArg = std::variant<KernelSlot, None, bool, std::int64_t, double, Ints, DType,
                               std::vector<KernelSlot>, std::string>;

class KernelSteps {
 public:
  struct Step {
    std::string schema;  // "aten::add.Tensor"
    std::vector<KernelArg> args;
    int outputs = 1;
  };
  explicit KernelSteps(int inputs) : inputs_(inputs), next_(inputs) {}
  [[nodiscard]] KernelSlot in(int i) const {
    WEFT_CHECK(i < inputs_);
    return KernelSlot{i};
  }
  /// Appends a call; its outputs take consecutive slots, the first of which is returned.
  KernelSlot call(std::string schema, std::vector<KernelArg> args, int outputs = 1) {
    steps_.push_back({std::move(schema), std::move(args), outputs});
    const KernelSlot first{next_};
    next_ += outputs;
    return first;
  }
  void out(KernelSlot s) { outputs_.push_back(s); }
  [[nodiscard]] int inputs() const { return inputs_; }
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<KernelSlot>& outputs() const { return outputs_; }

 private:
  int inputs_;
  int next_;
  std::vector<Step> steps_;
  std::vector<KernelSlot> outputs_;
};

// ---- the table
// -----------------------------------------------------------------------------------

struct OpDef {
  std::string name;
  int min_inputs = 0;
  int max_inputs = 0;  // -1: any number
  /// Checks the inputs and gives the output types. Shapes may hold the batch symbol.
  TensorTypes (*infer)(const OpCall&) = nullptr;
  FactorRule (*factors)(const OpCall&) = nullptr;
  /// A gradient for each wanted input, -1 for the others. Null if `no_gradient` says why.
  std::vector<ValueId> (*gradient)(const Backward&) = nullptr;
  std::string no_gradient = {};
  Cost (*cost)(const OpCall&) = nullptr;
  /// The most bytes the kernel holds at one time besides its inputs and outputs. Null: none.
  std::int64_t (*workspace)(const OpCall&) = nullptr;
  std::vector<Alias> aliases = {};
  std::vector<MayOverwrite> may_overwrite = {};
  /// Null if the kernel is code: ops/<name>.aten.cpp.
  KernelSteps (*kernel)(const OpCall&) = nullptr;
};

/// All ops by name. A value that is passed on, not a singleton.
using OpTable = std::map<std::string, OpDef, std::less<>>;
[[nodiscard]] OpTable builtin_ops();
/// Throws Error{input} with the op's name if there is none.
[[nodiscard]] const OpDef& find_op(const OpTable& ops, std::string_view name);

/// The call of a node of a graph, with the graph's own (whole) types.
[[nodiscard]] OpCall call_of(const Graph& graph, const Node& node);
[[nodiscard]] Factors factors_of(const OpTable& ops, const Graph& graph, const Node& node);

/// What a kernel may know of its surroundings besides its tensors.
struct KernelEnv {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::uint32_t node = 0;  // hash of the forward node's name: a gradient draws what its node drew
  /// Where the local operands lie in the tensors of the whole step (all micro-batches, all
  /// devices).
  std::vector<Region> inputs;
  std::vector<Region> outputs;
  std::vector<Shape> whole_inputs;
  std::vector<Shape> whole_outputs;
  /// sum_squares: which inputs this device counts. Empty: all.
  std::vector<bool> counted;
};

}  // namespace weft
