#include "weft/search/sample_path.h"

#include <algorithm>
#include <set>

namespace weft {
namespace {

void operator+=(KernelLine& sum, const KernelLine& line) {
  sum.fixed_s += line.fixed_s;
  sum.work_s += line.work_s;
}

KernelLine head_of(const BlockGraph& block, const std::vector<NodeLines>& lines) {
  bool waits = block.entry >= 0 && block.exit >= 0;
  std::vector<bool> behind(block.nodes.size(), false);  // what enters
  for (std::size_t n = 0; n < block.nodes.size(); ++n) {
    for (const BlockNode::Operand& operand : block.nodes[n].operands) {
      behind[n] =
          behind[n] || operand.from == kEntry || (operand.from >= 0 && behind[operand.from]);
    }
    waits = waits && (behind[n] || lines[block.nodes[n].node].empty());
  }
  KernelLine line;
  std::vector<bool> before(block.nodes.size(), false);  // what leaves
  for (std::size_t n = block.nodes.size(); n-- > 0 && waits;) {
    before[n] = before[n] || static_cast<int>(n) == block.exit_node;
    for (const BlockNode::Operand& operand : block.nodes[n].operands) {
      if (before[n] && operand.from >= 0) {
        before[operand.from] = true;
      }
    }
    const NodeLines& own = lines[block.nodes[n].node];
    if (before[n] && !own.empty()) {
      line += own[0];
    }
  }
  return line;
}

// Layers of nodes; -1: of none.
std::vector<int> layers_of(const BlockChain& chain, std::size_t nodes) {
  std::vector<int> layer(nodes, -1);
  for (std::size_t l = 0; l < chain.layers.size(); ++l) {
    for (const NodeId n : chain.nodes[l]) {
      layer[n] = static_cast<int>(l);
      for (const NodeId g : chain.gradients[n]) {
        layer[g] = static_cast<int>(l);
      }
    }
  }
  return layer;
}

// The path that takes longest in the nodes that count.
std::vector<int> longest_path(const std::vector<PartNode>& nodes, const std::vector<bool>& counts) {
  std::vector<double> length_s(nodes.size(), 0);
  std::vector<int> from(nodes.size(), -1);
  int end = 0;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    for (const int before : nodes[n].before) {
      if (length_s[before] > length_s[n]) {
        length_s[n] = length_s[before];
        from[n] = before;
      }
    }
    length_s[n] += counts[n] ? nodes[n].path.work_s : 0;
    end = length_s[n] > length_s[end] ? static_cast<int>(n) : end;
  }
  std::vector<int> path;
  for (int n = end; n >= 0; n = from[n]) {
    path.push_back(n);
  }
  std::ranges::reverse(path);
  return path;
}

KernelLine through_class(const std::vector<PartNode>& nodes, const std::vector<int>& layer,
                         const BlockChain& chain, int block_class) {
  std::vector<bool> counts(nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    counts[n] = layer[n] >= 0 && chain.class_of[layer[n]] == block_class;
  }
  std::set<int> passed;
  KernelLine sum;
  for (const int n : longest_path(nodes, counts)) {
    if (counts[n]) {
      passed.insert(layer[n]);
      sum += nodes[n].path;
    }
  }
  const double layers = static_cast<double>(passed.size()) + 2;
  return std::ssize(passed) == std::ranges::count(chain.class_of, block_class)
             ? KernelLine{sum.fixed_s / layers, sum.work_s / layers}
             : KernelLine{};
}

}  // namespace

SamplePath sample_path(const BlockChain& chain, const Graph& training,
                       const std::vector<NodeLines>& lines, const Cluster& cluster) {
  SamplePath path;
  path.nodes = part_problem(training, lines, {1}, cluster).nodes;
  std::vector<KernelLine> heads;
  for (const BlockGraph& block : chain.classes) {
    heads.push_back(head_of(block, lines));
  }
  const std::size_t layers = chain.layers.size();
  for (std::size_t l = 1; l + 1 < layers; ++l) {
    path.heads.push_back(heads[chain.class_of[l]]);
  }
  const std::vector<int> layer = layers_of(chain, path.nodes.size());
  for (int c = 0; c < std::ssize(chain.classes); ++c) {
    path.through.push_back(through_class(path.nodes, layer, chain, c));
  }
  return path;
}

double longest_seconds(const SamplePath& path, double share) {
  std::vector<double> length(path.nodes.size(), 0);
  double longest_s = 0;
  for (std::size_t n = 0; n < path.nodes.size(); ++n) {
    const PartNode& node = path.nodes[n];
    for (const int before : node.before) {
      length[n] = std::max(length[n], length[before]);
    }
    length[n] += node.path.fixed_s + node.path.work_s * share;
    longest_s = std::max(longest_s, length[n]);
  }
  return longest_s;
}

}  // namespace weft
