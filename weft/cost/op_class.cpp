#include "weft/cost/op_class.h"

#include <array>

namespace weft {
namespace {

struct Prefix {
  std::string_view text;
  OpClass op_class = OpClass::stream;
};

// Gradient ops begin with the name of their op; the first that fits counts.
constexpr std::array<Prefix, 5> kPrefixes = {{{"linear_weight_grad", OpClass::weight_grad},
                                              {"linear", OpClass::matmul},
                                              {"matmul", OpClass::matmul},
                                              {"attention", OpClass::attention},
                                              {"conv", OpClass::convolution}}};

constexpr std::array<std::string_view, kOpClasses> kNames = {"matmul", "weight_grad", "attention",
                                                             "convolution", "stream"};

}  // namespace

std::string_view op_class_name(OpClass op_class) {
  return kNames[static_cast<std::size_t>(op_class)];
}

OpClass op_class(std::string_view op) {
  for (const Prefix& prefix : kPrefixes) {
    if (op.substr(0, prefix.text.size()) == prefix.text) {
      return prefix.op_class;
    }
  }
  return OpClass::stream;
}

}  // namespace weft
