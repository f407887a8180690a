#pragma once

#include <memory>

#include "weft/program/program.h"

namespace at {
class Tensor;
}

namespace weft {

class Communicator;

/// One collective instruction of one device, ready to run: its buffers are allocated when it is
/// made (on the thread that issues instructions, so that memory does not depend on timing) and live
/// as long as it does. They are exactly collective_workspace() bytes.
class Collective {
 public:
  virtual ~Collective() = default;
  /// Blocks until done. Called once, from any thread, under inference mode.
  virtual void run(Communicator& communicator) = 0;
};

/// Where a collective happens.
struct CollectiveSite {
  const StageProgram& stage;
  const Instruction& instruction;
  const Coordinates& at;
  std::int64_t samples = 0;
  int group = 0;  // of the communicator: the devices of the instruction's axis, in order
};

/// Tensors of the instruction's reads and writes, in order. Where writes[i] shares memory with
/// reads[i] nothing is copied that already lies in place. Reductions add in the order of the
/// members.
[[nodiscard]] std::unique_ptr<Collective> make_collective(const CollectiveSite& site,
                                                          std::vector<at::Tensor> reads,
                                                          std::vector<at::Tensor> writes);

[[nodiscard]] at::Tensor take_box(const at::Tensor& tensor, const Region& box);  // a view

}  // namespace weft
