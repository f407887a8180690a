#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/runtime/executor.h"
#include "weft/store/shards.h"

namespace weft {

class Communicator;

/// What a saved training state belongs to.
struct CheckpointInfo {
  std::int64_t step = 0;  // steps done; the next one sees the batch after
  int ranks = 1;          // that wrote it
  std::uint64_t seed = 0;
  std::string model;  // description
  std::string model_hash;
  std::string data;
  std::int64_t batch = 0;
  bool operator==(const CheckpointInfo&) const = default;
};

/// Writes `folder/step-00000012`: every rank its parts of parameters and states, then rank 0 what
/// they belong to. The folder appears under its name only when it is whole. All ranks call it.
/// `finish` may add files to the folder on rank 0, when all parts are there.
void save_checkpoint(const std::string& folder, const CheckpointInfo& info,
                     const std::vector<LocalTensor>& parts, Communicator& communicator,
                     const std::function<void(const std::string& folder)>& finish);

/// Removes all but the newest `count` checkpoints of a folder.
void keep_newest_checkpoints(const std::string& folder, std::int64_t count);

/// The checkpoint itself, or the newest one in the folder. Throws Error{input} if there is none.
[[nodiscard]] std::string find_checkpoint(const std::string& folder);
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::string& checkpoint);
/// Fills the parts, whatever plan and number of ranks wrote them.
void load_checkpoint(const std::string& checkpoint, const std::vector<LocalTensor>& parts);

/// The same place in the words of stored files.
[[nodiscard]] Box box_of(const Region& region);

/// The primary parts among these, as one rank's file of a folder of shards (store/shards.h).
void write_parts(const std::string& folder, int rank, const std::vector<LocalTensor>& parts);

}  // namespace weft
