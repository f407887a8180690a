#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "weft/onnx/importer.h"

namespace weft::onnx_import {

/// One node of the file on its way into our graph: typed access to what it is given, and places for
/// what it gives.
class Call {
 public:
  Call(Importer& importer, const FileNode& node);

  Importer& importer;
  const FileNode& node;
  Builder& b;

  // Inputs. One that is left out or absent is not there.
  [[nodiscard]] int inputs() const { return static_cast<int>(node.inputs.size()); }
  [[nodiscard]] bool has(int i) const;
  [[nodiscard]] Operand& in(int i) const;
  [[nodiscard]] const Shape& shape(int i) const { return in(i).shape; }
  [[nodiscard]] int rank(int i) const { return in(i).rank(); }
  [[nodiscard]] Element element(int i) const { return in(i).element; }
  [[nodiscard]] ValueId value(int i) const { return importer.plain(in(i)); }
  [[nodiscard]] ValueId channels_last(int i) const { return importer.channels_last(in(i)); }
  /// Numbers of an input that must be constant; `what` names it in the refusal.
  [[nodiscard]] const Known& known(int i, std::string_view what) const;
  [[nodiscard]] bool is_known(int i) const;

  /// Numbers that the node needs besides, as a value; `what` is part of its name.
  [[nodiscard]] ValueId constant(Known known, std::string_view what) const;

  // Attributes.
  [[nodiscard]] bool has_attr(std::string_view name) const { return node.attrs.contains(name); }
  [[nodiscard]] std::int64_t whole(std::string_view name, std::int64_t otherwise) const;
  [[nodiscard]] double real(std::string_view name, double otherwise) const;
  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise) const;
  [[nodiscard]] Ints wholes(std::string_view name) const;  // empty if there is none
  [[nodiscard]] std::vector<double> reals(std::string_view name) const;
  [[nodiscard]] const FileAttr* attr(std::string_view name) const;
  /// A dim counted from the end if negative; refuses if there is none.
  [[nodiscard]] int axis(std::int64_t axis, int rank) const;
  /// Whole numbers that were an attribute in early opsets and are input `i` since.
  [[nodiscard]] Ints list(std::string_view name, int i) const;

  // Results.
  [[nodiscard]] bool wants(int output) const;
  void give(int output, ValueId value, Element element) const;
  /// `value` has its channels last; the operand has the dims in ONNX's order.
  void give_channels_last(int output, ValueId value, Element element) const;
  void give(int output, Known known) const;

  [[noreturn]] void refuse(const std::string& reason) const { throw Unsupported{reason}; }
  void need(bool ok, std::string_view reason) const {
    if (!ok) {
      throw Unsupported{std::string(reason)};
    }
  }
};

/// What an op of ONNX means in ours. `since`: the first opset whose form of it is understood.
struct OnnxOp {
  std::string_view name;
  void (*emit)(const Call&) = nullptr;
  int since = 6;
};

/// Ops by family; each family is one file.
[[nodiscard]] std::vector<OnnxOp> elementwise_ops();
[[nodiscard]] std::vector<OnnxOp> loss_ops();
[[nodiscard]] std::vector<OnnxOp> matrix_ops();
[[nodiscard]] std::vector<OnnxOp> movement_ops();
[[nodiscard]] std::vector<OnnxOp> index_ops();
[[nodiscard]] std::vector<OnnxOp> normalisation_ops();
[[nodiscard]] std::vector<OnnxOp> recurrent_ops();
[[nodiscard]] std::vector<OnnxOp> reduction_ops();
[[nodiscard]] std::vector<OnnxOp> resize_ops();
[[nodiscard]] std::vector<OnnxOp> structure_ops();
[[nodiscard]] std::vector<OnnxOp> window_ops();  // convolutions and pools
/// All of them by name.
[[nodiscard]] const std::map<std::string_view, OnnxOp>& onnx_ops();

/// Computes the node now if its inputs are known and its op is one that shapes are made of.
[[nodiscard]] bool fold(const Call& call);

}  // namespace weft::onnx_import
