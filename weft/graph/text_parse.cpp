// Two passes: the first reads lines, the second turns names into ids. So a node may stand before
// the values it mentions, and the order of the value lines alone gives the ids.
#include <algorithm>
#include <map>

#include "weft/base/error.h"
#include "weft/graph/cursor.h"
#include "weft/graph/structure.h"
#include "weft/graph/text.h"

namespace weft {
namespace {

// A name that stands for a value or a node; empty: none.
struct Reference {
  std::string name;
  int line = 0;
};

struct NodeReferences {
  std::vector<Reference> inputs;
  std::vector<Reference> outputs;
  Reference forward;
};

struct NextReferences {
  Reference old_value;
  Reference new_value;
};

using Names = std::map<std::string, int, std::less<>>;

[[noreturn]] void fail_at(int line, const std::string& message) {
  throw Error(Blame::input, fmt::format("graph text, line {}: {}", line, message));
}

int find_name(const Names& names, const Reference& reference, std::string_view what) {
  const auto it = names.find(reference.name);
  if (it == names.end()) {
    fail_at(reference.line, fmt::format("there is no {} {}", what, in_quotes(reference.name)));
  }
  return it->second;
}

class Parser {
 public:
  Graph run(std::string_view text) {
    int number = 0;
    for (bool more = true; more;) {
      const std::size_t end = text.find('\n');
      more = end != std::string_view::npos;
      Cursor line(text.substr(0, end), ++number);
      text.remove_prefix(more ? end + 1 : text.size());
      if (!line.at_end()) {
        read_line(line);
      }
    }
    if (!has_header_) {
      fail_at(number, "the first line must be 'weft graph 1'");
    }
    resolve();
    report_violations();
    return std::move(graph_);
  }

 private:
  void read_line(Cursor& line) {
    if (!has_header_) {
      read_header(line);
    } else {
      const std::string keyword = line.word();
      if (keyword == "node") {
        read_node(line);
      } else if (keyword == "loss") {
        read_loss(line);
      } else if (keyword == "next") {
        read_next(line);
      } else {
        read_value(line, keyword);
      }
    }
    if (!line.at_end()) {
      line.fail("nothing more is expected on this line");
    }
  }

  void read_header(Cursor& line) {
    if (!line.accept_word("weft") || !line.accept_word("graph") || !line.accept_word("1")) {
      line.fail("the first line must be 'weft graph 1'");
    }
    has_header_ = true;
  }

  void read_value(Cursor& line, std::string_view keyword) {
    static const std::map<std::string_view, ValueKind> kinds = {{"input", ValueKind::input},
                                                                {"parameter", ValueKind::parameter},
                                                                {"state", ValueKind::state},
                                                                {"result", ValueKind::result}};
    const auto kind = kinds.find(keyword);
    if (kind == kinds.end()) {
      line.fail(fmt::format("'{}' is not one of input, parameter, state, result, node, loss, next",
                            keyword));
    }
    Value value;
    value.kind = kind->second;
    value.name = line.name();
    value.type = line.type();
    of_.push_back(line.accept_word("of") ? reference(line) : Reference{});
    if (value.kind == ValueKind::parameter || value.kind == ValueKind::state) {
      value.init = line.init();
      value.trained = !line.accept_word("frozen");
    }
    const auto id = static_cast<ValueId>(graph_.values.size());
    if (!value_names_.emplace(value.name, id).second) {
      line.fail(fmt::format("another value is named {}", in_quotes(value.name)));
    }
    value_lines_.push_back(line.line());
    graph_.values.push_back(std::move(value));
  }

  void read_node(Cursor& line) {
    Node node;
    NodeReferences references;
    node.name = line.name();
    node.op = line.word();
    line.expect("(");
    if (!line.accept(")")) {
      references.inputs = reference_list(line);
      line.expect(")");
    }
    if (!line.accept("->")) {
      node.attrs = line.attrs();
      line.expect("->");
    }
    references.outputs = reference_list(line);
    for (const Role role : {Role::input_grad, Role::weight_grad, Role::update}) {
      if (line.accept_word(role_name(role))) {
        node.role = role;
      }
    }
    if (node.role != Role::forward && line.accept_word("of")) {
      references.forward = reference(line);
    }
    const auto id = static_cast<NodeId>(graph_.nodes.size());
    if (!node_names_.emplace(node.name, id).second) {
      line.fail(fmt::format("another node is named {}", in_quotes(node.name)));
    }
    node_lines_.push_back(line.line());
    graph_.nodes.push_back(std::move(node));
    references_.push_back(std::move(references));
  }

  void read_loss(Cursor& line) {
    if (loss_.line != 0) {
      line.fail("the loss is given twice");
    }
    loss_ = reference(line);
  }

  void read_next(Cursor& line) {
    NextReferences next;
    next.old_value = reference(line);
    line.expect("->");
    next.new_value = reference(line);
    next_.push_back(std::move(next));
  }

  static Reference reference(Cursor& line) { return {line.name(), line.line()}; }

  static std::vector<Reference> reference_list(Cursor& line) {
    std::vector<Reference> list;
    do {
      list.push_back(reference(line));
    } while (line.accept(","));
    return list;
  }

  [[nodiscard]] ValueId value_of(const Reference& reference) const {
    return find_name(value_names_, reference, "value");
  }

  void resolve() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      graph_.values[i].of = of_[i].line == 0 ? -1 : value_of(of_[i]);
    }
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      resolve_node(static_cast<NodeId>(i), references_[i]);
    }
    graph_.loss = loss_.line == 0 ? -1 : value_of(loss_);
    for (const NextReferences& next : next_) {
      graph_.next.push_back({value_of(next.old_value), value_of(next.new_value)});
    }
  }

  void resolve_node(NodeId id, const NodeReferences& references) {
    Node& node = graph_.nodes[static_cast<std::size_t>(id)];
    for (const Reference& input : references.inputs) {
      node.inputs.push_back(value_of(input));
    }
    for (const Reference& output : references.outputs) {
      node.outputs.push_back(value_of(output));
      Value& value = graph_.values[static_cast<std::size_t>(node.outputs.back())];
      // A second producer and a producer of an input stay wrong, so that they are reported.
      if (value.kind == ValueKind::result && value.producer == -1) {
        value.producer = id;
      }
    }
    if (references.forward.line != 0) {
      node.forward = find_name(node_names_, references.forward, "node");
    }
  }

  [[nodiscard]] int line_of(const Violation& violation) const {
    if (violation.node >= 0) {
      return node_lines_[static_cast<std::size_t>(violation.node)];
    }
    if (violation.value >= 0) {
      return value_lines_[static_cast<std::size_t>(violation.value)];
    }
    return violation.next >= 0 ? next_[static_cast<std::size_t>(violation.next)].old_value.line
                               : loss_.line;
  }

  void report_violations() const {
    const std::vector<Violation> found = find_violations(graph_);
    const auto first = std::ranges::min_element(
        found, {}, [this](const Violation& violation) { return line_of(violation); });
    if (first != found.end()) {
      fail_at(line_of(*first), first->message);
    }
  }

  Graph graph_;
  bool has_header_ = false;
  Names value_names_;
  Names node_names_;
  std::vector<int> value_lines_;
  std::vector<int> node_lines_;
  std::vector<Reference> of_;               // by value
  std::vector<NodeReferences> references_;  // by node
  Reference loss_;
  std::vector<NextReferences> next_;
};

}  // namespace

Graph parse_graph(std::string_view text) {
  return Parser().run(text);
}

}  // namespace weft
