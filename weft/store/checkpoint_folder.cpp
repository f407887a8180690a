// A checkpoint is a folder that is either whole or not there under its name:
//   .step-00000012.part/   grows: rank-*.safetensors (shards.h), each written aside and renamed
//   step-00000012/         the same folder, renamed when all is on disk, with checkpoint.json
// Damage that comes later is seen by checksums: every part of a tensor has one (shards.h),
// checkpoint.json has one over its other members.
#include "weft/store/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/store/checksum.h"
#include "weft/store/shards.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr const char* kInfoFile = "checkpoint.json";
constexpr const char* kChecksum = "checksum";
constexpr int kVersion = 2;

nlohmann::json to_json(const CheckpointInfo& info) {
  return {{"version", kVersion}, {"step", info.step},   {"ranks", info.ranks},
          {"seed", info.seed},   {"model", info.model}, {"model_hash", info.model_hash},
          {"data", info.data},   {"batch", info.batch}};
}

std::string sum_of(const nlohmann::json& json) {
  const std::string text = json.dump();
  return hash_hex(checksum(std::as_bytes(std::span(text))));
}

/// The step in "step-00000012", or -1.
std::int64_t step_of(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) {
    return -1;
  }
  std::int64_t step = -1;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + kPrefix.size(), end, step);
  return error == std::errc() && stop == end ? step : -1;
}

std::vector<fs::path> entries_of(const std::string& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  std::ranges::sort(entries);
  return entries;
}

/// Names in a folder are data of the folder: they have to reach the disk too.
void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool ok = fd >= 0 && ::fsync(fd) == 0;
  const int code = errno;
  if (fd >= 0) {
    ::close(fd);
  }
  if (!ok && code != EINVAL) {  // some file systems have no such call and need none
    fail_environment("cannot save in {}: {}", path, std::generic_category().message(code));
  }
}

void give_name(const std::string& from, const std::string& to) {
  // Where the name is taken the two are exchanged, so that one of them is always there.
  const unsigned flags = fs::exists(to) ? RENAME_EXCHANGE : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0) {
    fs::remove_all(from);  // the older one, if there was one
    return;
  }
  fs::remove_all(to);  // a file system without these flags
  fs::rename(from, to);
}

}  // namespace

std::string checkpoint_path(const std::string& folder, std::int64_t step) {
  return fs::path(folder) / fmt::format("step-{:08}", step);
}

std::string unfinished_path(const std::string& folder, std::int64_t step) {
  return fs::path(folder) / fmt::format(".step-{:08}.part", step);
}

void publish_checkpoint(const std::string& folder, const CheckpointInfo& info) {
  const std::string unfinished = unfinished_path(folder, info.step);
  nlohmann::json json = to_json(info);
  json[kChecksum] = sum_of(json);
  try {
    write_file(fs::path(unfinished) / kInfoFile, json.dump(2) + "\n");
    sync_folder(unfinished);
    give_name(unfinished, checkpoint_path(folder, info.step));
    sync_folder(folder);
  } catch (const fs::filesystem_error& error) {
    fail_environment("cannot save a checkpoint: {}", error.what());
  }
}

void remove_unfinished(const std::string& folder) {
  for (const fs::path& entry : entries_of(folder)) {
    const std::string name = entry.filename();
    if (name.starts_with(".step-") && name.ends_with(".part")) {
      std::error_code ignored;
      fs::remove_all(entry, ignored);
    }
  }
}

void keep_newest_checkpoints(const std::string& folder, std::int64_t count) {
  const std::vector<std::int64_t> steps = checkpoints_in(folder);
  for (std::size_t i = static_cast<std::size_t>(count); i < steps.size(); ++i) {
    // What is half removed looks like what is half saved: it goes when that does.
    std::error_code ignored;
    const std::string leaving = unfinished_path(folder, steps[i]);
    fs::remove_all(leaving, ignored);
    fs::rename(checkpoint_path(folder, steps[i]), leaving, ignored);
    fs::remove_all(leaving, ignored);
  }
}

std::vector<std::int64_t> checkpoints_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const fs::path& entry : entries_of(folder)) {
    const std::int64_t step = step_of(entry.filename());
    if (step >= 0 && fs::exists(entry / kInfoFile)) {
      steps.push_back(step);
    }
  }
  std::ranges::sort(steps, std::greater());
  return steps;
}

bool is_checkpoint(const std::string& path) {
  return fs::exists(fs::path(path) / kInfoFile);
}

CheckpointInfo read_checkpoint_info(const std::string& checkpoint) {
  const std::string path = fs::path(checkpoint) / kInfoFile;
  nlohmann::json json = read_json(path);
  const std::int64_t version = json_int(json, "version", path);
  require(version == kVersion, "{}: this weft reads version {}, not {}", path, kVersion, version);
  const std::string sum = json_string(json, kChecksum, path);
  json.erase(kChecksum);
  require(sum == sum_of(json), "{}: is damaged: its checksum does not fit", path);
  return {.step = json_int(json, "step", path),
          .ranks = static_cast<int>(json_int(json, "ranks", path)),
          .seed = json_member(json, "seed", path).get<std::uint64_t>(),
          .model = json_string(json, "model", path),
          .model_hash = json_string(json, "model_hash", path),
          .data = json_string(json, "data", path),
          .batch = json_int(json, "batch", path)};
}

void verify_checkpoint(const std::string& checkpoint, int first, int stride) {
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  for (int rank = first; rank < info.ranks; rank += stride) {
    verify_shards(checkpoint, rank);
  }
}

}  // namespace weft
