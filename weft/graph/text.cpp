#include "weft/graph/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"input", "parameter", "state", "result"};

// fmt gives the shortest digits that read back as the same double, but 2.0 as "2".
std::string format_number(double number) {
  std::string text = fmt::format("{}", number);
  const bool looks_whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_whole ? text + ".0" : text;
}

std::string format_attr(const Attr& attr) {
  if (const auto* whole = std::get_if<std::int64_t>(&attr)) {
    return fmt::format("{}", *whole);
  }
  if (const auto* number = std::get_if<double>(&attr)) {
    return format_number(*number);
  }
  if (const auto* text = std::get_if<std::string>(&attr)) {
    return in_quotes(*text);
  }
  return fmt::format("[{}]", fmt::join(std::get<Ints>(attr), ","));
}

std::string format_init(const Init& init) {
  switch (init.kind) {
    case Init::Kind::zeros:
      return "zeros";
    case Init::Kind::ones:
      return "ones";
    case Init::Kind::normal:
      return "normal " + format_number(init.std_dev);
    case Init::Kind::copy:
      return "copy";
  }
  WEFT_CHECK(!"a kind of init");
  return {};
}

// An id that is out of range is shown as such: a broken graph is printed to find out what broke.
std::string value_name(const Graph& graph, ValueId id) {
  const bool known = id >= 0 && id < static_cast<ValueId>(graph.values.size());
  return known ? in_quotes(graph.values[static_cast<std::size_t>(id)].name)
               : fmt::format("?{}", id);
}

std::string node_name(const Graph& graph, NodeId id) {
  const bool known = id >= 0 && id < static_cast<NodeId>(graph.nodes.size());
  return known ? in_quotes(graph.nodes[static_cast<std::size_t>(id)].name) : fmt::format("?{}", id);
}

std::string value_names(const Graph& graph, const std::vector<ValueId>& ids) {
  std::string text;
  for (const ValueId id : ids) {
    text += (text.empty() ? "" : ", ") + value_name(graph, id);
  }
  return text;
}

std::string value_line(const Graph& graph, const Value& value) {
  std::string line = fmt::format("{} {} {}", kKinds.at(static_cast<std::size_t>(value.kind)),
                                 in_quotes(value.name), format_type(value.type));
  if (value.of != -1) {
    line += " of " + value_name(graph, value.of);
  }
  if (value.kind == ValueKind::parameter || value.kind == ValueKind::state) {
    line += " " + format_init(value.init);
    line += value.trained ? "" : " frozen";
  }
  return line + "\n";
}

std::string node_line(const Graph& graph, const Node& node) {
  std::string line =
      fmt::format("node {} {}({})", in_quotes(node.name), node.op, value_names(graph, node.inputs));
  if (!node.attrs.empty()) {
    line += " {" + format_attrs(node.attrs) + "}";
  }
  line += " -> " + value_names(graph, node.outputs);
  if (node.role != Role::forward) {
    line += fmt::format(" {}", role_name(node.role));
  }
  if (node.forward != -1) {
    line += " of " + node_name(graph, node.forward);
  }
  return line + "\n";
}

// Values are written in the order of their ids, since the order is all that tells a reader the ids.
// Between them, a node stands before its outputs wherever that order allows.
class Writer {
 public:
  explicit Writer(const Graph& graph) : graph_(graph) {}

  std::string run() {
    text_ = "weft graph 1\n";
    for (const Node& node : graph_.nodes) {
      const auto [first, last] = std::ranges::minmax_element(node.outputs);
      if (first != node.outputs.end()) {
        write_values(*first, "");
      }
      text_ += node_line(graph_, node);
      if (last != node.outputs.end()) {
        write_values(*last + 1, "  ");
      }
    }
    write_values(static_cast<ValueId>(graph_.values.size()), "");
    if (graph_.loss != -1) {
      text_ += fmt::format("loss {}\n", value_name(graph_, graph_.loss));
    }
    for (const Next& next : graph_.next) {
      text_ += fmt::format("next {} -> {}\n", value_name(graph_, next.old_value),
                           value_name(graph_, next.new_value));
    }
    return std::move(text_);
  }

 private:
  void write_values(ValueId end, std::string_view indent) {
    for (; written_ < std::min(end, static_cast<ValueId>(graph_.values.size())); ++written_) {
      text_ += indent;
      text_ += value_line(graph_, graph_.values[static_cast<std::size_t>(written_)]);
    }
  }

  const Graph& graph_;
  std::string text_;
  ValueId written_ = 0;
};

}  // namespace

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (code < 0x20 || code == 0x7f) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string format_attrs(const Attrs& attrs) {
  std::string text;
  for (const auto& [name, attr] : attrs) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, format_attr(attr));
  }
  return text;
}

std::string format_graph(const Graph& graph) {
  return Writer(graph).run();
}

}  // namespace weft
