#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/runtime/executor.h"
#include "weft/store/checkpoint_folder.h"
#include "weft/store/shards.h"

namespace weft {

class Communicator;

/// What this rank writes into a checkpoint, copied: training may go on and change the tensors. The
/// copy lies beside the memory budget of the device.
class Snapshot {
 public:
  /// Takes the primary parts among these.
  explicit Snapshot(const std::vector<LocalTensor>& parts);
  [[nodiscard]] const std::vector<LocalTensor>& parts() const { return parts_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
  std::vector<LocalTensor> parts_;
};

/// The checkpoint to go on from, with all of its files verified, each rank some of them. `path` is
/// a checkpoint, which must be whole, or a folder of them: then the newest whole one. `on_skip` is
/// told of damaged ones, on the rank that saw the damage. All ranks call it. Throws Error{input}.
[[nodiscard]] std::string find_whole_checkpoint(
    const std::string& path, Communicator& communicator,
    const std::function<void(const std::string& why)>& on_skip);

/// Fills the parts, whatever plan and number of ranks wrote them.
void load_checkpoint(const std::string& checkpoint, const std::vector<LocalTensor>& parts);

/// The same place in the words of stored files.
[[nodiscard]] Box box_of(const Region& region);

/// The primary parts among these, as one rank's file of a folder of shards (store/shards.h).
void write_parts(const std::string& folder, int rank, const std::vector<LocalTensor>& parts);

}  // namespace weft
