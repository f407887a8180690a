#include "weft/runtime/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/dtypes.h"
#include "weft/store/shards.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* kInfoFile = "checkpoint.json";

nlohmann::json to_json(const CheckpointInfo& info) {
  return {{"version", 1},      {"step", info.step},   {"ranks", info.ranks},
          {"seed", info.seed}, {"model", info.model}, {"model_hash", info.model_hash},
          {"data", info.data}, {"batch", info.batch}};
}

// Rank 0 prepares and finishes; the others are told by a barrier.
template <typename Function>
void on_rank_0(Communicator& communicator, const Function& function) {
  if (communicator.rank() == 0) {
    try {
      function();
    } catch (const fs::filesystem_error& error) {
      fail_environment("cannot save a checkpoint: {}", error.what());
    }
  }
  communicator.barrier();
}

}  // namespace

Box box_of(const Region& region) {
  Box box;
  for (const Range& range : region) {
    box.offset.push_back(range.begin);
    box.size.push_back(range.size());
  }
  return box;
}

void write_parts(const std::string& folder, int rank, const std::vector<LocalTensor>& parts) {
  std::vector<Shard> shards;
  for (const LocalTensor& part : parts) {
    if (part.primary) {
      shards.push_back({.name = part.name,
                        .dtype = std::string(stored_dtype(part.type.dtype)),
                        .whole = sizes_of(part.type.shape),
                        .box = box_of(part.region),
                        .bytes = part.bytes});
    }
  }
  write_shards(folder, rank, shards);
}

void save_checkpoint(const std::string& folder, const CheckpointInfo& info,
                     const std::vector<LocalTensor>& parts, Communicator& communicator,
                     const std::function<void(const std::string& folder)>& finish) {
  const fs::path final_path = fs::path(folder) / fmt::format("step-{:08}", info.step);
  const fs::path temporary = fs::path(folder) / fmt::format(".step-{:08}.part", info.step);
  on_rank_0(communicator, [&] {
    fs::remove_all(temporary);
    fs::create_directories(temporary);
  });
  write_parts(temporary, communicator.rank(), parts);
  communicator.barrier();
  on_rank_0(communicator, [&] {
    CheckpointInfo complete = info;
    complete.ranks = communicator.world();
    if (finish) {
      finish(temporary);
    }
    write_file(temporary / kInfoFile, to_json(complete).dump(2) + "\n");
    fs::remove_all(final_path);
    fs::rename(temporary, final_path);
  });
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t count) {
  std::vector<fs::path> checkpoints;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && fs::exists(entry.path() / kInfoFile)) {
      checkpoints.push_back(entry.path());
    }
  }
  std::ranges::sort(checkpoints);
  const auto old = static_cast<std::int64_t>(checkpoints.size()) - count;
  for (std::int64_t i = 0; i < old; ++i) {
    fs::remove_all(checkpoints[static_cast<std::size_t>(i)], error);
  }
}

std::string find_checkpoint(const std::string& folder) {
  if (fs::exists(fs::path(folder) / kInfoFile)) {
    return folder;
  }
  std::string newest;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && fs::exists(entry.path() / kInfoFile) &&
        (newest.empty() || name > fs::path(newest).filename().string())) {
      newest = entry.path();
    }
  }
  require(!newest.empty(), "{} holds no checkpoint (a folder step-… with a {})", folder, kInfoFile);
  return newest;
}

CheckpointInfo read_checkpoint_info(const std::string& checkpoint) {
  const std::string path = fs::path(checkpoint) / kInfoFile;
  const nlohmann::json json = read_json(path);
  require(json_int(json, "version", path) == 1, "{}: this weft reads version 1", path);
  return {.step = json_int(json, "step", path),
          .ranks = static_cast<int>(json_int(json, "ranks", path)),
          .seed = json_member(json, "seed", path).get<std::uint64_t>(),
          .model = json_string(json, "model", path),
          .model_hash = json_string(json, "model_hash", path),
          .data = json_string(json, "data", path),
          .batch = json_int(json, "batch", path)};
}

void load_checkpoint(const std::string& checkpoint, const std::vector<LocalTensor>& parts) {
  const ShardReader reader(checkpoint, read_checkpoint_info(checkpoint).ranks);
  const std::vector<std::string> names = reader.names();
  for (const LocalTensor& part : parts) {
    require(std::ranges::find(names, part.name) != names.end(), "{} has no tensor \"{}\"",
            checkpoint, part.name);
    require(reader.dtype(part.name) == stored_dtype(part.type.dtype) &&
                reader.whole(part.name) == sizes_of(part.type.shape),
            "{}: tensor \"{}\" is not a {}", checkpoint, part.name, format_type(part.type));
    reader.read(part.name, box_of(part.region), part.bytes);
  }
}

}  // namespace weft
