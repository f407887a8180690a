// Products of matrices. A weight that stands transposed in the file is taken as it is stored: that
// is what `linear` wants.
#include <algorithm>

#include "weft/onnx/call.h"
#include "weft/onnx/emit.h"

namespace weft::onnx_import {

namespace {

constexpr std::size_t kMostLeading = 3;  // dims of a matmul in front of the matrices

Dim product(const Shape& shape, std::size_t begin, std::size_t end) {
  Dim all(1);
  for (std::size_t d = begin; d < end; ++d) {
    all = all * shape[d];
  }
  return all;
}

Shape with_tail(Shape leading, Dim rows, Dim columns) {
  leading.insert(leading.end(), {rows, columns});
  return leading;
}

// x[…,k] times a matrix that all samples share.
ValueId shared_matrix(const Call& call, ValueId x, Operand& matrix) {
  Builder& b = call.b;
  const Shape shape = b.type(x).shape;
  const std::size_t last = shape.size() - 1;
  if (matrix.swapped >= 0 && shape.size() <= 4) {
    return b.emit("linear", {x, matrix.swapped});
  }
  const ValueId rows = reshape(b, x, {product(shape, 0, last), shape[last]});
  const ValueId y = matrix.swapped >= 0 ? b.emit("linear", {rows, matrix.swapped})
                                        : b.emit("matmul", {rows, call.importer.plain(matrix)});
  Shape result(shape.begin(), shape.end() - 1);
  result.push_back(matrix.shape[1]);
  return reshape(b, y, result);
}

// Leading dims follow numpy's rule.
ValueId batched_matmul(Builder& b, ValueId x, ValueId y) {
  const Shape sx = b.type(x).shape;
  const Shape sy = b.type(y).shape;
  Shape leading = common_shape({sx.begin(), sx.end() - 2}, {sy.begin(), sy.end() - 2});
  x = broadcast(b, x, with_tail(leading, sx[sx.size() - 2], sx.back()));
  y = broadcast(b, y, with_tail(leading, sy[sy.size() - 2], sy.back()));
  if (leading.size() > kMostLeading) {
    const Shape one = {product(leading, 0, leading.size())};
    x = reshape(b, x, with_tail(one, sx[sx.size() - 2], sx.back()));
    y = reshape(b, y, with_tail(one, sy[sy.size() - 2], sy.back()));
  }
  const ValueId z = b.emit("matmul", {x, y});
  return reshape(b, z, with_tail(leading, sx[sx.size() - 2], sy.back()));
}

void emit_matmul(const Call& call) {
  Operand& right = call.in(1);
  const int left_rank = call.rank(0);
  call.need(left_rank > 0 && right.rank() > 0, "of numbers");
  call.need(is_real(call.element(0)), "of whole numbers");
  Builder& b = call.b;
  ValueId x = call.value(0);
  if (left_rank == 1) {
    x = reshape(b, x, {1, call.shape(0)[0]});
  }
  ValueId y = -1;
  if (right.rank() == 2) {
    y = shared_matrix(call, x, right);
  } else {
    ValueId other = call.value(1);
    if (right.rank() == 1) {
      other = reshape(b, other, {right.shape[0], 1});
    }
    if (b.type(other).rank() == 2 && b.type(x).rank() > 2) {
      other = reshape(b, other, with_tail({1}, b.type(other).shape[0], b.type(other).shape[1]));
    }
    y = batched_matmul(b, x, other);
  }
  Shape shape = b.type(y).shape;
  if (right.rank() == 1) {
    shape.pop_back();
  }
  if (left_rank == 1) {
    shape.erase(shape.end() - (right.rank() == 1 ? 1 : 2));
  }
  call.give(0, reshape(b, y, shape), call.element(0));
}

// alpha a b + beta c, a and b stored transposed if asked
void emit_gemm(const Call& call) {
  Builder& b = call.b;
  const double alpha = call.real("alpha", 1);
  const double beta = call.real("beta", 1);
  const bool turned_a = call.whole("transA", 0) != 0;
  const bool turned_b = call.whole("transB", 0) != 0;
  call.need(call.rank(0) == 2 && call.rank(1) == 2, "of other than matrices");
  call.need(is_real(call.element(0)), "of whole numbers");
  Operand& right = call.in(1);
  const bool stored_turned = turned_b || right.swapped >= 0;
  if (!turned_a && alpha == 1 && stored_turned && !(turned_b && right.swapped >= 0)) {
    std::vector<ValueId> inputs = {call.value(0), turned_b ? call.value(1) : right.swapped};
    const bool bias = call.has(2) && beta == 1 && call.rank(2) == 1 &&
                      call.shape(2)[0] == b.type(inputs[1]).shape[0];
    if (bias) {
      inputs.push_back(call.value(2));
    }
    ValueId y = b.emit("linear", inputs);
    if (call.has(2) && !bias) {
      y = binary(b, "add", y, with_number(b, "mul", call.value(2), beta));
    }
    call.give(0, y, call.element(0));
    return;
  }
  ValueId y = b.emit("matmul", {call.value(0), call.value(1)},
                     {{"transpose_a", std::int64_t{turned_a ? 1 : 0}},
                      {"transpose_b", std::int64_t{turned_b ? 1 : 0}}});
  y = with_number(b, "mul", y, alpha);
  if (call.has(2)) {
    y = binary(b, "add", y, with_number(b, "mul", call.value(2), beta));
  }
  call.give(0, y, call.element(0));
}

// ---- Einsum

struct Term {
  std::string letters;
  ValueId value = -1;
};

Ints positions(const std::string& of, const std::string& in) {
  Ints result;
  for (const char c : of) {
    result.push_back(static_cast<std::int64_t>(in.find(c)));
  }
  return result;
}

// Sums over the letters that nobody else has.
Term summed(const Call& call, Term term, const std::string& needed) {
  Ints dims;
  std::string kept;
  for (std::size_t i = 0; i < term.letters.size(); ++i) {
    if (needed.find(term.letters[i]) == std::string::npos) {
      dims.push_back(static_cast<std::int64_t>(i));
    } else {
      kept += term.letters[i];
    }
  }
  return {kept, reduce(call.b, "sum", term.value, dims, false)};
}

Term ordered(const Call& call, const Term& term, const std::string& letters) {
  return {letters, transpose(call.b, term.value, positions(letters, term.letters))};
}

// Letters of both that the result has are samples of a batch of products, letters of both that it
// lacks are summed over.
Term product(const Call& call, const Term& x, const Term& y, const std::string& needed) {
  std::string both;
  std::string inner;
  std::string left;
  std::string right;
  for (const char c : x.letters) {
    const bool shared = y.letters.find(c) != std::string::npos;
    const bool stays = needed.find(c) != std::string::npos;
    (shared ? (stays ? both : inner) : left) += c;
  }
  for (const char c : y.letters) {
    if (x.letters.find(c) == std::string::npos) {
      right += c;
    }
  }
  const Term a = ordered(call, x, both + left + inner);
  const Term b = ordered(call, y, both + inner + right);
  const Shape sa = call.b.type(a.value).shape;
  const Shape sb = call.b.type(b.value).shape;
  const Dim batch = product(sa, 0, both.size());
  const Dim rows = product(sa, both.size(), both.size() + left.size());
  const Dim middle = product(sa, both.size() + left.size(), sa.size());
  const Dim columns = product(sb, both.size() + inner.size(), sb.size());
  const ValueId z = call.b.emit("matmul", {reshape(call.b, a.value, {batch, rows, middle}),
                                           reshape(call.b, b.value, {batch, middle, columns})});
  Shape shape(sa.begin(), sa.begin() + static_cast<std::ptrdiff_t>(both.size() + left.size()));
  shape.insert(shape.end(), sb.begin() + static_cast<std::ptrdiff_t>(both.size() + inner.size()),
               sb.end());
  return {both + left + right, reshape(call.b, z, shape)};
}

// Without an arrow the result has the letters that stand once, in the order of the alphabet.
std::string implied_result(const std::string& terms) {
  std::string once;
  for (const char c : terms) {
    if (c != ',' && std::ranges::count(terms, c) == 1) {
      once += c;
    }
  }
  std::ranges::sort(once);
  return once;
}

void emit_einsum(const Call& call) {
  std::string equation = call.text("equation", "");
  std::erase(equation, ' ');
  call.need(equation.find("...") == std::string::npos, "with an ellipsis");
  const std::size_t arrow = std::min(equation.find("->"), equation.size());
  const std::string result =
      arrow < equation.size() ? equation.substr(arrow + 2) : implied_result(equation);
  std::vector<Term> terms;
  std::string rest = equation.substr(0, arrow);
  call.need(call.inputs() > 0 && std::ranges::count(rest, ',') + 1 == call.inputs(),
            "with other terms than operands");
  for (int i = 0; i < call.inputs(); ++i) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    terms.push_back({rest.substr(0, end), call.value(i)});
    rest = end < rest.size() ? rest.substr(end + 1) : "";
    std::string sorted = terms.back().letters;
    std::ranges::sort(sorted);
    call.need(std::ranges::adjacent_find(sorted) == sorted.end(), "with a diagonal");
    call.need(static_cast<int>(sorted.size()) == call.rank(i), "with letters of other dims");
  }
  Term all = terms[0];
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::string needed = result;
    for (std::size_t k = i + 1; k < terms.size(); ++k) {
      needed += terms[k].letters;
    }
    if (i == 0) {
      all = summed(call, all, needed);
      continue;
    }
    all = product(call, all, summed(call, terms[i], needed + all.letters), needed);
  }
  for (const char c : result) {
    call.need(all.letters.find(c) != std::string::npos, "with a letter from nowhere");
  }
  call.give(0, ordered(call, all, result).value, call.element(0));
}

}  // namespace

std::vector<OnnxOp> matrix_ops() {
  return {{"Einsum", emit_einsum}, {"Gemm", emit_gemm}, {"MatMul", emit_matmul}};
}

}  // namespace weft::onnx_import
