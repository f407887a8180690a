// Reads a factor rule and finds the sizes of its factors.
//
// A dim that is one factor gives that factor's size. A dim of several gives the size of the one
// that is still unknown, by division. This is repeated until nothing is new; in the end every dim
// must be the product of its factors.
#include "weft/sharding/factor_rule.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

using Operands = std::vector<std::vector<Factors::DimFactors>>;

[[noreturn]] void misfit(const FactorRule& rule, const std::string& why) {
  throw Error(Blame::bug, fmt::format("bug in weft: factor rule '{}': {}", rule.dims, why));
}

/// A dim of a rule next to the dim of the operand's type.
struct Equation {
  const Factors::DimFactors* factors = nullptr;
  Dim dim = {};
};

class Reader {
 public:
  explicit Reader(const FactorRule& rule) : rule_(rule) {}

  Factors read(std::size_t inputs, std::size_t outputs) {
    const std::size_t arrow = rule_.dims.find("->");
    if (arrow == std::string::npos) {
      misfit(rule_, "there is no '->'");
    }
    const std::string_view text = rule_.dims;
    result_.inputs = read_side(text.substr(0, arrow), inputs);
    result_.outputs = read_side(text.substr(arrow + 2), outputs);
    return std::move(result_);
  }

 private:
  // A blank side is no operand or one scalar: the number of types tells which.
  Operands read_side(std::string_view text, std::size_t expected) {
    if (expected == 0 && text.find_first_not_of(' ') == std::string_view::npos) {
      return {};
    }
    Operands operands;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      operands.push_back(read_operand(text.substr(begin, end - begin)));
      begin = end + 1;
    }
    if (operands.size() != expected) {
      misfit(rule_, fmt::format("it has {} operands on one side, the call has {}", operands.size(),
                                expected));
    }
    return operands;
  }

  std::vector<Factors::DimFactors> read_operand(std::string_view text) {
    std::vector<Factors::DimFactors> dims;
    std::string seen;
    bool open = false;
    for (const char c : text) {
      if (c == ' ') {
        continue;
      }
      if (c == '(' || c == ')') {
        if (open == (c == '(')) {
          misfit(rule_, "its parentheses do not match");
        }
        open = c == '(';
        if (open) {
          dims.emplace_back();
        }
        continue;
      }
      if (!open) {
        dims.emplace_back();
      }
      if (c == '1') {
        continue;
      }
      if (seen.find(c) != std::string::npos) {
        misfit(rule_, fmt::format("'{}' stands twice in one operand", c));
      }
      seen += c;
      dims.back().push_back(factor(c));
    }
    if (open) {
      misfit(rule_, "its parentheses do not match");
    }
    return dims;
  }

  int factor(char letter) {
    const int known = find_factor(result_, letter);
    if (known >= 0) {
      return known;
    }
    result_.factors.push_back(
        {.letter = letter, .whole = rule_.whole.find(letter) != std::string::npos});
    return static_cast<int>(result_.factors.size()) - 1;
  }

  const FactorRule& rule_;
  Factors result_;
};

void add_equations(const FactorRule& rule, const Operands& operands, const TensorTypes& types,
                   std::vector<Equation>& equations) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].size() != types[i].shape.size()) {
      misfit(rule, fmt::format("operand {} has {} dims in the rule but type {}", i,
                               operands[i].size(), format_type(types[i])));
    }
    for (std::size_t d = 0; d < operands[i].size(); ++d) {
      equations.push_back({&operands[i][d], types[i].shape[d]});
    }
  }
}

/// What the unknown factor must be if the others make `known`. Nothing if they cannot.
std::optional<Dim> quotient(Dim dim, Dim known) {
  if (known.size == 0 || dim.size % known.size != 0 || (known.batched && !dim.batched)) {
    return std::nullopt;
  }
  return Dim(dim.size / known.size, dim.batched && !known.batched);
}

/// Product of the known factors of a dim and the position of the only unknown one: -1 if there is
/// none, -2 if there are several.
struct Known {
  Dim product = {};
  int unknown = -1;
};

Known known_part(const Equation& equation, const std::vector<std::optional<Dim>>& sizes) {
  Known known;
  for (const int f : *equation.factors) {
    const std::optional<Dim>& size = sizes[static_cast<std::size_t>(f)];
    if (size) {
      known.product = known.product * *size;
    } else {
      known.unknown = known.unknown == -1 ? f : -2;
    }
  }
  return known;
}

void solve(const FactorRule& rule, const std::vector<Equation>& equations, Factors& factors) {
  std::vector<std::optional<Dim>> sizes(factors.factors.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (const Equation& equation : equations) {
      const Known known = known_part(equation, sizes);
      if (known.unknown < 0) {
        continue;
      }
      sizes[static_cast<std::size_t>(known.unknown)] = quotient(equation.dim, known.product);
      if (!sizes[static_cast<std::size_t>(known.unknown)]) {
        misfit(rule, fmt::format("a dim {} is no multiple of its known factors",
                                 format_shape({equation.dim})));
      }
      progress = true;
    }
  }
  for (const Equation& equation : equations) {
    const Known known = known_part(equation, sizes);
    if (known.unknown != -1) {
      misfit(rule, "a dim has two factors of unknown size");
    }
    if (known.product != equation.dim) {
      misfit(rule, fmt::format("a dim {} is not the product {} of its factors",
                               format_shape({equation.dim}), format_shape({known.product})));
    }
  }
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    factors.factors[f].size = *sizes[f];
  }
}

void mark_contracted(Factors& factors) {
  for (Factors::Factor& factor : factors.factors) {
    factor.contracted = true;
  }
  for (const auto& operand : factors.outputs) {
    for (const Factors::DimFactors& dim : operand) {
      for (const int f : dim) {
        factors.factors[static_cast<std::size_t>(f)].contracted = false;
      }
    }
  }
}

}  // namespace

Factors lay_out(const FactorRule& rule, const TensorTypes& inputs, const TensorTypes& outputs) {
  Factors factors = Reader(rule).read(inputs.size(), outputs.size());
  std::vector<Equation> equations;
  add_equations(rule, factors.inputs, inputs, equations);
  add_equations(rule, factors.outputs, outputs, equations);
  solve(rule, equations, factors);
  mark_contracted(factors);
  for (const char letter : rule.whole) {
    if (letter != ' ' && find_factor(factors, letter) < 0) {
      misfit(rule, fmt::format("'{}' is to stay whole but is no factor", letter));
    }
  }
  for (const std::vector<int>& set : rule.linear) {
    for (const int input : set) {
      WEFT_CHECK(input >= 0 && input < static_cast<int>(inputs.size()));
    }
  }
  factors.linear = rule.linear;
  factors.reductions = rule.reductions;
  factors.reductions.resize(outputs.size(), Reduction::sum);
  if (!rule.ring.empty()) {
    WEFT_CHECK(rule.ring.size() == 2);
    factors.ring_stays = find_factor(factors, rule.ring[0]);
    factors.ring_moves = find_factor(factors, rule.ring[1]);
    WEFT_CHECK(factors.ring_stays >= 0 && factors.ring_moves >= 0);
  }
  return factors;
}

int dim_with(const std::vector<Factors::DimFactors>& operand, int factor) {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    if (std::find(operand[d].begin(), operand[d].end(), factor) != operand[d].end()) {
      return static_cast<int>(d);
    }
  }
  return -1;
}

int find_factor(const Factors& factors, char letter) {
  const auto it = std::find_if(factors.factors.begin(), factors.factors.end(),
                               [&](const Factors::Factor& f) { return f.letter == letter; });
  return it == factors.factors.end() ? -1 : static_cast<int>(it - factors.factors.begin());
}

}  // namespace weft
