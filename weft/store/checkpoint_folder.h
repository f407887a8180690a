#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

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

/// `folder/step-00000012`, and the name under which it grows until it is whole.
[[nodiscard]] std::string checkpoint_path(const std::string& folder, std::int64_t step);
[[nodiscard]] std::string unfinished_path(const std::string& folder, std::int64_t step);

/// The last act of saving: writes checkpoint.json into the unfinished folder, which holds all
/// parts, and gives it its name. Everything is on disk before the name shows. An older checkpoint
/// of the same step is replaced in one step.
void publish_checkpoint(const std::string& folder, const CheckpointInfo& info);

/// Removes what saves that did not end left behind. Nobody may be saving there.
void remove_unfinished(const std::string& folder);
/// Removes all but the newest `count` checkpoints of a folder.
void keep_newest_checkpoints(const std::string& folder, std::int64_t count);

/// Steps of the checkpoints in a folder, newest first. They have a checkpoint.json; whether they
/// are whole only `verify_checkpoint` knows.
[[nodiscard]] std::vector<std::int64_t> checkpoints_in(const std::string& folder);
/// Whether this is a checkpoint itself, not a folder of them.
[[nodiscard]] bool is_checkpoint(const std::string& path);

/// Throws Error{input} if checkpoint.json is missing, damaged or of another version.
[[nodiscard]] CheckpointInfo read_checkpoint_info(const std::string& checkpoint);
/// Reads the files of ranks first, first + stride, … to the last byte; Error{input} names file and
/// tensor of the first damage.
void verify_checkpoint(const std::string& checkpoint, int first = 0, int stride = 1);

}  // namespace weft
