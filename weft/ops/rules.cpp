#include "weft/ops/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "weft/ops/builder.h"

namespace weft::ops {

bool is_floating(DType dtype) {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

bool is_number(DType dtype) {
  return is_floating(dtype) || dtype == DType::i64 || dtype == DType::i32;
}

DType sum_dtype(DType dtype) {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

namespace {

const TensorType& input(const OpCall& call, int i) {
  return call.inputs.at(static_cast<std::size_t>(i));
}

}  // namespace

void require_floating(const OpCall& call, std::string_view op, int i) {
  require(is_floating(input(call, i).dtype),
          "{}: input {} is {}, but must be floating; cast it first", op, i,
          format_type(input(call, i)));
}

void require_number(const OpCall& call, std::string_view op, int i) {
  require(is_number(input(call, i).dtype),
          "{}: input {} is {}, which holds no numbers; cast it first", op, i,
          format_type(input(call, i)));
}

void require_i64(const OpCall& call, std::string_view op, int i) {
  require(input(call, i).dtype == DType::i64,
          "{}: input {} is {}, but ids are i64; cast them first", op, i,
          format_type(input(call, i)));
}

void require_same_type(const OpCall& call, std::string_view op, int a, int b) {
  require(input(call, a) == input(call, b),
          "{}: input {} is {} and input {} is {}; they must have one type", op, a,
          format_type(input(call, a)), b, format_type(input(call, b)));
}

void require_scalar(const OpCall& call, std::string_view op, int i, DType dtype) {
  require(input(call, i) == TensorType{{}, dtype}, "{}: input {} is {}, but must be {}", op, i,
          format_type(input(call, i)), format_type({{}, dtype}));
}

void require_master(const OpCall& call, std::string_view op) {
  const DType dtype = input(call, 0).dtype;
  require(
      dtype == DType::f32 || dtype == DType::f64,
      "{}: the parameter is {}; keep parameters in f32 or f64 and cast them where they are used",
      op, format_type(input(call, 0)));
}

void require_update(const OpCall& call, std::string_view op, int tensors) {
  require_master(call, op);
  for (int i = 1; i < tensors; ++i) {
    require_same_type(call, op, 0, i);
  }
  for (int i = tensors; i < static_cast<int>(call.inputs.size()); ++i) {
    require_scalar(call, op, i, call.inputs[0].dtype);
  }
}

void require_fraction(const OpCall& call, std::string_view op, std::string_view attribute) {
  const double value = attr_number(call.attrs, attribute);
  require(value >= 0 && value < 1, "{}: {} = {}, but must be at least 0 and below 1", op, attribute,
          value);
}

std::string letters(int rank) {
  static constexpr std::string_view kLetters = "bsrtuv";
  require(rank <= static_cast<int>(kLetters.size()),
          "a tensor of {} dims has no factor rule; {} are the most", rank, kLetters.size());
  std::string text;
  for (int i = 0; i < rank; ++i) {
    text += i == 0 ? "" : " ";
    text += kLetters[static_cast<std::size_t>(i)];
  }
  return text;
}

std::string letters(int leading, std::string_view last) {
  std::string text = letters(leading);
  text += leading == 0 ? "" : " ";
  return text.append(last);
}

std::string elementwise_dims(const OpCall& call) {
  const std::string whole = letters(call.inputs.at(0).rank());
  const auto list = [&whole](const TensorTypes& types) {
    std::string text;
    for (std::size_t i = 0; i < types.size(); ++i) {
      text += i == 0 ? "" : ", ";
      text += types[i].rank() == 0 ? "" : whole;
    }
    return text;
  };
  return list(call.inputs) + " -> " + list(call.outputs);
}

std::string spaced(std::string_view letters) {
  return fmt::format("{}", fmt::join(letters, " "));
}

void require_suffix(const OpCall& call, std::string_view op) {
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  const bool fits =
      b.rank() <= a.rank() && std::equal(b.shape.rbegin(), b.shape.rend(), a.shape.rbegin());
  require(fits, "{}: {} is neither of the shape of {} nor of a suffix of it", op, format_type(b),
          format_type(a));
}

TensorTypes infer_suffix(const OpCall& call, std::string_view op) {
  require_number(call, op, 0);
  const TensorType& a = call.inputs[0];
  const TensorType& b = call.inputs[1];
  require(a.dtype == b.dtype, "{}: inputs are {} and {}; cast one of them", op, format_type(a),
          format_type(b));
  require_suffix(call, op);
  return {a};
}

std::string suffix_dims(const OpCall& call) {
  const int rank = call.inputs[0].rank();
  const int skipped = rank - call.inputs[1].rank();
  const std::string all = letters(rank);
  const std::size_t begin = std::min(all.size(), 2 * static_cast<std::size_t>(skipped));
  return all + ", " + all.substr(begin) + " -> " + all;
}

ValueId sum_to_suffix(Builder& build, ValueId grad, ValueId like) {
  const int keep = build.type(like).rank();
  if (keep == build.type(grad).rank()) {
    return grad;
  }
  return build.emit("sum_leading", {grad}, {{"keep", std::int64_t{keep}}});
}

TensorTypes infer_rows(const OpCall& call, std::string_view op) {
  require_floating(call, op, 0);
  const int rank = call.inputs[0].rank();
  require(rank >= 1 && rank <= 6, "{}: input {} needs one to six dims", op,
          format_type(call.inputs[0]));
  for (int i = 1; i < static_cast<int>(call.inputs.size()); ++i) {
    require_same_type(call, op, 0, i);
  }
  return {call.inputs[0]};
}

FactorRule row_rule(const OpCall& call) {
  const std::string row = letters(call.inputs[0].rank() - 1, "w");
  if (call.inputs.size() == 1) {
    return {.dims = row + " -> " + row, .whole = "w"};
  }
  return {.dims = row + ", " + row + " -> " + row, .whole = "w", .linear = {{0}}};
}

char Letters::next(std::string_view op) {
  static constexpr std::string_view kAll = "bshdacefgijklmnopqrtuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  require(used_ < kAll.size(), "{}: the operands have more than {} dims in all", op, kAll.size());
  return kAll[used_++];
}

FactorRule partitioned_rule(const TensorTypes& inputs, const TensorTypes& outputs, int dim,
                            std::string_view op) {
  Letters names;
  std::string shared;
  for (int i = 0; i < inputs.at(0).rank(); ++i) {
    shared += i == dim ? '?' : names.next(op);
  }
  FactorRule rule;
  const auto append = [&](const TensorTypes& types) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      std::string own = shared;
      own[static_cast<std::size_t>(dim)] = names.next(op);
      rule.whole += own[static_cast<std::size_t>(dim)];
      rule.dims += (i == 0 ? "" : ", ") + fmt::format("{}", fmt::join(own, " "));
    }
  };
  append(inputs);
  rule.dims += " -> ";
  append(outputs);
  std::vector<int> all(inputs.size());
  std::iota(all.begin(), all.end(), 0);
  rule.linear = {all};
  return rule;
}

int dim_of(std::int64_t dim, int rank, std::string_view op) {
  const std::int64_t positive = dim < 0 ? dim + rank : dim;
  require(positive >= 0 && positive < rank, "{}: there is no dim {} among {} dims", op, dim, rank);
  return static_cast<int>(positive);
}

std::vector<bool> dim_flags(const OpCall& call, std::string_view name, std::string_view op) {
  const int rank = call.inputs.at(0).rank();
  std::vector<bool> flags(static_cast<std::size_t>(rank), false);
  for (const std::int64_t dim : attr_ints(call.attrs, name)) {
    const auto at = static_cast<std::size_t>(dim_of(dim, rank, op));
    require(!flags[at], "{}: {} names dim {} twice", op, name, dim);
    flags[at] = true;
  }
  return flags;
}

namespace {

// "12B" or "B" or "12"
Dim parse_length(std::string_view text, std::string_view whole, std::string_view op) {
  Dim dim;
  dim.batched = text.ends_with('B');
  const std::string_view digits = text.substr(0, text.size() - (dim.batched ? 1 : 0));
  if (!digits.empty()) {
    const char* end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, dim.size);
    require(parsed.ec == std::errc{} && parsed.ptr == end && dim.size > 0,
            "{}: '{}' in shape \"{}\" is no length such as 16, B or 12B", op, text, whole);
  } else {
    require(dim.batched, "{}: a length is missing in shape \"{}\"", op, whole);
  }
  return dim;
}

}  // namespace

Shape shape_attr(const OpCall& call, std::string_view op) {
  const std::string_view text = attr_text(call.attrs, "shape");
  Shape shape;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    shape.push_back(parse_length(text.substr(begin, end - begin), text, op));
    begin = end + 1;
  }
  return shape;
}

std::string shape_text(const Shape& shape) {
  const std::string bracketed = format_shape(shape);
  return bracketed.substr(1, bracketed.size() - 2);
}

TensorTypes checked_infer(const OpDef& def, const OpCall& call) {
  const int given = static_cast<int>(call.inputs.size());
  require(given >= def.min_inputs && (def.max_inputs < 0 || given <= def.max_inputs),
          "{}: {} inputs are given, but it takes {}{}", def.name, given, def.min_inputs,
          def.max_inputs < 0                 ? " or more"
          : def.max_inputs == def.min_inputs ? ""
                                             : fmt::format(" to {}", def.max_inputs));
  return def.infer(call);
}

Cost streaming_cost(const OpCall& call, double flops_per_element) {
  Cost cost;
  for (const TensorType& type : call.inputs) {
    cost.bytes_moved += static_cast<double>(type.bytes());
  }
  for (const TensorType& type : call.outputs) {
    cost.bytes_moved += static_cast<double>(type.bytes());
  }
  const TensorType& first = call.inputs.empty() ? call.outputs.at(0) : call.inputs[0];
  cost.flops = flops_per_element * static_cast<double>(first.elements());
  return cost;
}

}  // namespace weft::ops
