#pragma once

#include <string>
#include <string_view>

#include "weft/graph/graph.h"

namespace weft {

/// One line a value or node; docs/spec/graph.md defines the form. parse_graph(format_graph(g)) == g
/// for every g without structural violations; other graphs can be written too, but not read back.
[[nodiscard]] std::string format_graph(const Graph& graph);
/// Throws Error{input} with the line of the first mistake. What it returns has no structural
/// violations.
[[nodiscard]] Graph parse_graph(std::string_view text);

/// "causal=1, eps=1e-05, sizes=[4,4], tanh=\"x\"", by name. Different attributes give different
/// text: an integer never has a point or an exponent, a number always has one.
[[nodiscard]] std::string format_attrs(const Attrs& attrs);
/// The name in quotes, with escapes for quotes, backslashes and control characters.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace weft
