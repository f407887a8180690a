// The format of google/iopddl:
//   {"problem": {"name": "…", "nodes": {"intervals": [[begin, end], …], "costs": [[…], …],
//    "usages": [[…], …]}, "edges": {"nodes": [[i, j], …], "costs": [[…], …]}, "usage_limit": n}}
// Intervals are half-open. The costs of edge [i, j] are the rows of i's strategies.

#include "weft/solver/selection_file.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/solver/gunzip.h"

namespace weft {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostBytes = 2'000'000'000;
constexpr std::size_t kMostNodes = 10'000'000;
constexpr std::size_t kMostStrategies = 65'535;  // the solver numbers them with 16 bits

// Files have millions of numbers: what a message needs is made only for a mistake.
std::int64_t whole_number(const Json& value, const std::string& where) {
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > most);
  if (!fits) {
    throw Error(Blame::input,
                fmt::format("{}: {} is not an integer of 64 bits", where, value.dump()));
  }
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> numbers(const Json& list, const std::string& where) {
  require(list.is_array(), "{}: a list of integers is expected", where);
  std::vector<std::int64_t> result;
  result.reserve(list.size());
  for (const Json& value : list) {
    result.push_back(whole_number(value, where));
    require(result.back() >= 0, "{}: {} is negative; costs, usages and times are not", where,
            result.back());
  }
  return result;
}

const Json& list_of(const Json& object, const char* key, const std::string& where) {
  const Json& list = json_member(object, key, where);
  require(list.is_array(), "{}: \"{}\" must be a list", where, key);
  return list;
}

std::vector<SelectionNode> read_nodes(const Json& problem, const std::string& what) {
  const std::string where = what + ": nodes";
  const Json& nodes = json_member(problem, "nodes", what + ": problem");
  const Json& intervals = list_of(nodes, "intervals", where);
  const Json& costs = list_of(nodes, "costs", where);
  const Json& usages = list_of(nodes, "usages", where);
  require(intervals.size() == costs.size() && costs.size() == usages.size(),
          "{}: {} intervals, {} lists of costs and {} of usages; there must be as many of each",
          where, intervals.size(), costs.size(), usages.size());
  require(costs.size() <= kMostNodes, "{}: more than {} nodes", where, kMostNodes);
  std::vector<SelectionNode> result(costs.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::string here = fmt::format("{}: node {}", what, i);
    const std::vector<std::int64_t> interval = numbers(intervals[i], here + ", interval");
    require(interval.size() == 2, "{}: an interval is [begin, end], not {} numbers", here,
            interval.size());
    SelectionNode& node = result[i];
    node = {interval[0], interval[1], numbers(costs[i], here + ", costs"),
            numbers(usages[i], here + ", usages")};
    require(!node.cost.empty() && node.cost.size() <= kMostStrategies,
            "{}: {} strategies; there must be 1 to {}", here, node.cost.size(), kMostStrategies);
    require(node.cost.size() == node.usage.size(), "{}: {} costs but {} usages", here,
            node.cost.size(), node.usage.size());
  }
  return result;
}

std::vector<SelectionEdge> read_edges(const Json& problem, const std::vector<SelectionNode>& nodes,
                                      const std::string& what) {
  const std::string where = what + ": edges";
  const Json& edges = json_member(problem, "edges", what + ": problem");
  const Json& ends = list_of(edges, "nodes", where);
  const Json& costs = list_of(edges, "costs", where);
  require(ends.size() == costs.size(),
          "{}: {} pairs of nodes but {} lists of costs; there must be as many of each", where,
          ends.size(), costs.size());
  std::vector<SelectionEdge> result(ends.size());
  for (std::size_t e = 0; e < result.size(); ++e) {
    const std::string here = fmt::format("{}: edge {}", what, e);
    const std::vector<std::int64_t> pair = numbers(ends[e], here);
    require(pair.size() == 2, "{}: it joins {} nodes; only edges of two nodes can be solved", here,
            pair.size());
    for (const std::int64_t node : pair) {
      require(node < static_cast<std::int64_t>(nodes.size()),
              "{}: there is no node {}; the last one is {}", here, node,
              static_cast<std::int64_t>(nodes.size()) - 1);
    }
    result[e] = {static_cast<int>(pair[0]), static_cast<int>(pair[1]),
                 numbers(costs[e], here + ", costs")};
    const std::size_t rows = nodes[static_cast<std::size_t>(pair[0])].cost.size();
    const std::size_t columns = nodes[static_cast<std::size_t>(pair[1])].cost.size();
    require(result[e].cost.size() == rows * columns,
            "{}: {} costs for {} x {} strategies; there must be {}", here, result[e].cost.size(),
            rows, columns, rows * columns);
  }
  return result;
}

}  // namespace

Json read_problem_json(const std::string& path) {
  std::string text = read_file(path);
  if (is_gzip(text)) {
    text = gunzip(text, path, kMostBytes);
  }
  require(text.size() <= kMostBytes, "{}: more than 2 GB", path);
  return parse_json(text, path);
}

bool is_selection(const Json& json) {
  if (!json.is_object() || !json.contains("problem") || !json["problem"].is_object()) {
    return false;
  }
  return json["problem"].contains("nodes") && json["problem"].contains("edges");
}

SelectionProblem selection_from_json(const Json& json, const std::string& what) {
  const Json& problem = json_member(json, "problem", what);
  SelectionProblem result;
  result.name = json_string_or(problem, "name", what + ": problem", "");
  result.nodes = read_nodes(problem, what);
  result.edges = read_edges(problem, result.nodes, what);
  const auto limit = problem.find("usage_limit");
  if (limit != problem.end() && !limit->is_null()) {
    const std::string where = what + ": usage_limit";
    result.usage_limit = whole_number(*limit, where);
    require(*result.usage_limit >= 0, "{}: {} is negative", where, *result.usage_limit);
  }
  return result;
}

}  // namespace weft
