#pragma once

#include <string>
#include <string_view>

#include "weft/ops/op.h"

// What the files of the ops share: checks with one wording, letters of factor rules, costs.
namespace weft::ops {

[[nodiscard]] bool is_floating(DType dtype);
/// Floating, i64 or i32: what can be added and multiplied.
[[nodiscard]] bool is_number(DType dtype);
/// The dtype in which sums over many elements are kept: f64 for f64, f32 otherwise.
[[nodiscard]] DType sum_dtype(DType dtype);

/// Throws Error{input} naming op, input and type unless input `i` is floating.
void require_floating(const OpCall& call, std::string_view op, int i);
/// Throws Error{input} unless input `i` is a number.
void require_number(const OpCall& call, std::string_view op, int i);
/// Throws Error{input} unless input `i` is i64.
void require_i64(const OpCall& call, std::string_view op, int i);
/// Throws Error{input} unless inputs `a` and `b` have one type.
void require_same_type(const OpCall& call, std::string_view op, int a, int b);
/// Throws Error{input} unless input `i` is a scalar of the given dtype.
void require_scalar(const OpCall& call, std::string_view op, int i, DType dtype);

/// Throws Error{input} unless input 0 is f32 or f64: what an update changes needs that precision.
void require_master(const OpCall& call, std::string_view op);
/// Checks the inputs of an optimizer's op: `tensors` of one type (the weight first, f32 or f64),
/// then scalars of that dtype.
void require_update(const OpCall& call, std::string_view op, int tensors);
/// Throws Error{input} unless the attribute is at least 0 and below 1.
void require_fraction(const OpCall& call, std::string_view op, std::string_view attribute);

/// Letters of `rank` dims: "b s r t u v" cut after `rank`. Throws Error{input} above six dims.
[[nodiscard]] std::string letters(int rank);
/// "b s h" for rank 3: the leading letters, then `last`.
[[nodiscard]] std::string letters(int leading, std::string_view last);
/// Every operand has the letters of input 0 ("b s -> b s", "b s, b s -> b s"); scalars have none.
[[nodiscard]] std::string elementwise_dims(const OpCall& call);

/// "b s h" for "bsh".
[[nodiscard]] std::string spaced(std::string_view letters);
/// Is input 1 of the shape of input 0, or of a suffix of it? Throws Error{input} if not.
void require_suffix(const OpCall& call, std::string_view op);

/// add and mul: input 1 has the shape of input 0 or a suffix of it, and its dtype. Gives that type.
[[nodiscard]] TensorTypes infer_suffix(const OpCall& call, std::string_view op);
/// "b s h, s h -> b s h"
[[nodiscard]] std::string suffix_dims(const OpCall& call);
/// A gradient of the shape of input 0, summed down to that of input 1.
[[nodiscard]] ValueId sum_to_suffix(Builder& build, ValueId grad, ValueId like);

/// Functions of rows: input 0 is floating with one to six dims, others have its type, the result
/// too. Throws Error{input}.
[[nodiscard]] TensorTypes infer_rows(const OpCall& call, std::string_view op);
/// "b s w, b s w -> b s w", w whole. A second input stands for the result: linear in input 0 then.
[[nodiscard]] FactorRule row_rule(const OpCall& call);

/// Letters for rules with many of them, each given once: b s h d, then the rest of the alphabet,
/// then capitals.
class Letters {
 public:
  /// Throws Error{input} naming `op` when all are used.
  [[nodiscard]] char next(std::string_view op);

 private:
  std::size_t used_ = 0;
};

/// split and concat: `dim` has another letter in each operand and stays whole; the others are
/// shared.
[[nodiscard]] FactorRule partitioned_rule(const TensorTypes& inputs, const TensorTypes& outputs,
                                          int dim, std::string_view op);

/// A dim counted from the end if negative. Throws Error{input} if there is no such dim.
[[nodiscard]] int dim_of(std::int64_t dim, int rank, std::string_view op);

/// The dims of `attrs[name]` as flags, one for each of `rank` dims. Throws Error{input} if a dim is
/// named twice or is none.
[[nodiscard]] std::vector<bool> dim_flags(const OpCall& call, std::string_view name,
                                          std::string_view op);
/// The shape in attribute `shape`, text such as "B,16,4". Throws Error{input} naming `op`.
[[nodiscard]] Shape shape_attr(const OpCall& call, std::string_view op);
/// The reverse.
[[nodiscard]] std::string shape_text(const Shape& shape);

/// Checks the number of inputs, then asks the op's shape rule. Throws Error{input}.
[[nodiscard]] TensorTypes checked_infer(const OpDef& def, const OpCall& call);

/// Reads every input and writes every output once; `flops_per_element` counts elements of input 0.
[[nodiscard]] Cost streaming_cost(const OpCall& call, double flops_per_element);

}  // namespace weft::ops
