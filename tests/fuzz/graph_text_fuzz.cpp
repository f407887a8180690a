// The text form of graphs. What was read is written as text that reads the same.
#include "fuzz.h"
#include "weft/base/error.h"
#include "weft/graph/text.h"

namespace weft::fuzz {

void graph_text(std::string_view bytes) {
  const Graph graph = parse_graph(bytes);
  const std::string text = format_graph(graph);
  WEFT_CHECK(format_graph(parse_graph(text)) == text);
}

}  // namespace weft::fuzz
