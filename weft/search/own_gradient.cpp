#include "weft/search/own_gradient.h"

// The gradient of a weight is a product over samples, dW = dYᵀ X. Replicas that have parts of the
// samples have partial sums of it, and reduce as many bytes as the weight has. Or they gather X and
// dY, which are small where samples are few, and either make all of dW, each for itself, or their
// rows of it: then X is gathered and dY exchanged, and nobody computes more than before.

namespace weft {
namespace {

bool is_contracted(const Factors& factors, const Split& split) {
  return split.kind == Split::Kind::factor &&
         factors.factors[find_factor(factors, split.letter)].contracted;
}

}  // namespace

std::optional<OwnGradient> own_gradient(const Factors& factors, const Mesh& mesh,
                                        const Splits& follows, int output,
                                        const std::vector<GradientSplit>& wanted,
                                        const std::string& name) {
  const std::vector<Factors::DimFactors>& dims = factors.outputs[output];
  const int row = dims.empty() || dims[0].empty() ? -1 : dims[0].front();
  OwnGradient own{.splits = follows, .placed = {}};
  for (std::size_t a = 0; a < wanted.size(); ++a) {
    if (wanted[a] == GradientSplit::follows) {
      continue;
    }
    if (!is_contracted(factors, follows[a])) {
      return std::nullopt;
    }
    own.splits[a] = {};
    if (wanted[a] == GradientSplit::rows && row >= 0) {
      own.splits[a] = split_factor(factors.factors[row].letter);
    }
  }
  int parts = 1;
  bool rows = false;
  for (std::size_t a = 0; a < wanted.size(); ++a) {
    const bool split = row >= 0 && own.splits[a].kind == Split::Kind::factor &&
                       own.splits[a].letter == factors.factors[row].letter;
    parts *= split ? mesh.axes[a].size : 1;
    rows = rows || wanted[a] == GradientSplit::rows;
  }
  if (rows && (row < 0 || !is_splittable(factors, row) || !can_split(factors, row, parts) ||
               factors.factors[row].size.size % parts != 0)) {
    return std::nullopt;
  }
  own.placed = place_node(factors, mesh, own.splits, name);
  return own;
}

}  // namespace weft
