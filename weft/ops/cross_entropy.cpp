#include "weft/ops/cross_entropy.h"

namespace weft::ops {

ValueId cross_entropy(Builder& build, ValueId logits, ValueId labels, ValueId inv_count,
                      const std::string& name) {
  const Attrs attrs = {{"ignore", kIgnoredLabel}};
  const std::vector<ValueId> rows =
      build.emit_all("label_scores", {logits, labels}, attrs, name + "_scores");
  return build.emit("nll", {rows[0], rows[1], labels, inv_count}, attrs, name);
}

}  // namespace weft::ops
