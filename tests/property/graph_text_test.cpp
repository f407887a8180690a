// Random sound graphs survive a trip through their text form. Ops are made up: the text form knows
// nothing of them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "weft/base/error.h"
#include "weft/graph/graph.h"
#include "weft/graph/text.h"

namespace weft {
namespace {

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed) : rng_(seed) {}

  Graph make() {
    for (int i = pick(1, 4); i > 0; --i) {
      add({.name = name(), .type = type(true), .kind = ValueKind::input});
    }
    for (int i = pick(0, 4); i > 0; --i) {
      add_parameter();
    }
    Role role = Role::forward;
    for (int i = pick(1, 25); i > 0; --i) {
      // Roles never go back, so a node may read everything before it.
      if (role != Role::update && pick(0, 6) == 0) {
        role = static_cast<Role>(static_cast<int>(role) + 1);
      }
      add_node(role);
    }
    finish();
    return std::move(graph_);
  }

 private:
  int pick(int low, int high) {
    return low + static_cast<int>(rng_() % static_cast<unsigned>(high - low + 1));
  }

  // Names with everything that could confuse a reader, made unique by a number.
  std::string name() {
    static const std::vector<std::string> parts = {"h.0", "/",  "\"",   "\\", "\n", " ", "#",
                                                   "->",  "{}", "\x01", "é",  "of", ",", "\\n"};
    std::string result = "n" + std::to_string(counter_++);
    for (int i = pick(0, 3); i > 0; --i) {
      result += parts[static_cast<std::size_t>(pick(0, static_cast<int>(parts.size()) - 1))];
    }
    return result;
  }

  TensorType type(bool may_be_batched) {
    TensorType result;
    result.dtype = static_cast<DType>(pick(0, 6));
    for (int i = pick(0, 4); i > 0; --i) {
      result.shape.emplace_back(pick(1, 300));
    }
    if (may_be_batched && !result.shape.empty() && pick(0, 1) == 0) {
      result.shape[static_cast<std::size_t>(pick(0, result.rank() - 1))].batched = true;
    }
    return result;
  }

  // Any finite bit pattern.
  double number() {
    for (;;) {
      const std::uint64_t bits = std::uint64_t{rng_()} << 32U | rng_();
      double result = 0;
      static_assert(sizeof(result) == sizeof(bits));
      std::memcpy(&result, &bits, sizeof(bits));
      if (std::isfinite(result)) {
        return pick(0, 2) == 0 ? std::round(std::fmod(result, 1000)) : result;
      }
    }
  }

  std::int64_t integer() {
    return static_cast<std::int64_t>(std::uint64_t{rng_()} << 32U | rng_());
  }

  Attr attr() {
    switch (pick(0, 4)) {
      case 0:
        return integer();
      case 1:
        return number();
      case 2:
        return name();
      case 3:
        return std::int64_t{pick(-3, 3)};
      default: {
        Ints list;
        for (int i = pick(0, 3); i > 0; --i) {
          list.push_back(pick(0, 1) == 0 ? integer() : pick(-9, 9));
        }
        return list;
      }
    }
  }

  ValueId add(Value value) {
    graph_.values.push_back(std::move(value));
    return static_cast<ValueId>(graph_.values.size()) - 1;
  }

  Init init(bool may_copy) {
    const auto kind = static_cast<Init::Kind>(pick(0, may_copy ? 3 : 2));
    return {.kind = kind, .std_dev = kind == Init::Kind::normal ? std::abs(number()) : 0};
  }

  void add_parameter() {
    const TensorType shape = type(false);
    const ValueId parameter =
        add({.name = name(), .type = shape, .kind = ValueKind::parameter, .init = init(false)});
    for (int i = pick(0, 2); i > 0; --i) {
      add({.name = name(),
           .type = shape,
           .kind = ValueKind::state,
           .of = parameter,
           .init = init(true)});
    }
  }

  void add_node(Role role) {
    const auto id = static_cast<NodeId>(graph_.nodes.size());
    const auto known = static_cast<int>(graph_.values.size());
    Node node{.op = pick(0, 1) == 0 ? "f" : "made_up.op2", .name = name(), .role = role};
    for (int i = pick(0, 4); i > 0; --i) {
      node.inputs.push_back(pick(0, known - 1));
    }
    for (int i = pick(0, 3); i > 0; --i) {
      node.attrs["a" + std::to_string(pick(0, 9))] = attr();
    }
    const bool gradient = role == Role::input_grad || role == Role::weight_grad;
    if (gradient && !graph_.nodes.empty() && graph_.nodes[0].role == Role::forward &&
        pick(0, 3) > 0) {
      node.forward = 0;
    }
    for (int i = pick(1, 3); i > 0; --i) {
      Value value{.name = name(), .type = type(true), .producer = id};
      if (gradient && pick(0, 1) == 0) {
        value.of = pick(0, known - 1);
        value.type.shape = graph_.values[static_cast<std::size_t>(value.of)].type.shape;
      }
      node.outputs.push_back(add(value));
    }
    graph_.nodes.push_back(std::move(node));
  }

  // An update that gives every parameter and state its next value, with ids in another order than
  // the outputs, and a loss.
  void finish() {
    const auto id = static_cast<NodeId>(graph_.nodes.size());
    Node update{.op = "update", .name = name(), .role = Role::update};
    const auto known = static_cast<ValueId>(graph_.values.size());
    for (ValueId old = 0; old < known; ++old) {
      const Value& value = graph_.values[static_cast<std::size_t>(old)];
      if (value.kind == ValueKind::parameter || value.kind == ValueKind::state) {
        const ValueId next = add({.name = name(), .type = value.type, .producer = id});
        graph_.next.push_back({old, next});
        update.outputs.insert(update.outputs.begin(), next);
      }
    }
    const ValueId loss = add({.name = name(), .type = {{}, DType::f32}, .producer = id});
    update.outputs.push_back(loss);
    graph_.loss = pick(0, 3) == 0 ? -1 : loss;
    graph_.nodes.push_back(std::move(update));
  }

  std::mt19937 rng_;
  Graph graph_;
  int counter_ = 0;
};

TEST(GraphText, RoundTripsRandomGraphs) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Graph graph = RandomGraph(seed).make();
    ASSERT_EQ(structural_violations(graph), std::vector<std::string>{});
    const std::string text = format_graph(graph);
    ASSERT_EQ(parse_graph(text), graph) << text;
    ASSERT_EQ(format_graph(parse_graph(text)), text);
  }
}

void damage(std::string& text, std::mt19937& rng) {
  static const std::string bytes = "\"\\#{}[](),=->\nB019.eE-x \t";
  const std::size_t at = rng() % text.size();
  switch (rng() % 4) {
    case 0:
      text[at] = bytes[rng() % bytes.size()];
      break;
    case 1:
      text.erase(at, rng() % 20);
      break;
    case 2:
      text.insert(at, text.substr(rng() % text.size(), rng() % 60));
      break;
    default:
      text[at] = static_cast<char>(rng() % 256);
  }
  text += '\n';  // never empty
}

// Whatever is fed in, the answer is a sound graph or an Error{input} with a line.
TEST(GraphText, DamagedTextIsReadOrRefused) {
  int refused = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 rng(seed);
    std::string text = format_graph(RandomGraph(seed).make());
    for (int i = 0; i < 4; ++i) {
      damage(text, rng);
      try {
        ASSERT_EQ(structural_violations(parse_graph(text)), std::vector<std::string>{});
      } catch (const Error& error) {
        ASSERT_EQ(error.blame(), Blame::input) << error.what();
        ASSERT_NE(std::string(error.what()).find("line "), std::string::npos) << error.what();
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 300) << "the damage is too small to test anything";
}

}  // namespace
}  // namespace weft
