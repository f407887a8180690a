// Ops without arithmetic of their own, and the table of all.
#include "weft/onnx/call.h"

namespace weft::onnx_import {

namespace {

// Folding has seen to it.
void emit_nothing(const Call& call) {
  call.refuse("of what is known only at run time");
}

// A condition that is known chooses a branch when the graph is read.
void emit_if(const Call& call) {
  const bool condition = call.known(0, "the condition").whole(0) != 0;
  const FileAttr* attr = call.attr(condition ? "then_branch" : "else_branch");
  const auto* branch =
      attr == nullptr ? nullptr : std::get_if<std::shared_ptr<const FileGraph>>(attr);
  call.need(branch != nullptr, "without a branch");
  call.importer.run_nodes(**branch);
  call.need((*branch)->outputs.size() >= call.node.outputs.size(), "a branch with fewer outputs");
  for (std::size_t i = 0; i < call.node.outputs.size(); ++i) {
    Operand* result = call.importer.find((*branch)->outputs[i].name);
    call.need(result != nullptr, "a branch that cannot be imported");
    Operand copy = *result;
    copy.name = call.node.outputs[i];
    call.importer.define(std::move(copy));
  }
}

}  // namespace

std::vector<OnnxOp> structure_ops() {
  return {{"Constant", emit_nothing, 1},
          {"If", emit_if},
          {"NonZero", emit_nothing},
          {"Shape", emit_nothing, 1},
          {"Size", emit_nothing, 1}};
}

const std::map<std::string_view, OnnxOp>& onnx_ops() {
  static const std::map<std::string_view, OnnxOp> all = [] {
    std::map<std::string_view, OnnxOp> by_name;
    for (const auto& group : {elementwise_ops(), index_ops(), loss_ops(), matrix_ops(),
                              movement_ops(), normalisation_ops(), recurrent_ops(), reduction_ops(),
                              resize_ops(), structure_ops(), window_ops()}) {
      for (const OnnxOp& op : group) {
        by_name.emplace(op.name, op);
      }
    }
    return by_name;
  }();
  return all;
}

}  // namespace weft::onnx_import
