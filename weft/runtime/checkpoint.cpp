#include "weft/kernels/torch_headers.h"

#include "weft/runtime/checkpoint.h"

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/dtypes.h"

namespace weft {
namespace {

std::int64_t sum_over_ranks(Communicator& communicator, std::int64_t number) {
  communicator.all_reduce(0, at::from_blob(&number, {1}, at::TensorOptions(at::kLong)));
  return number;
}

/// Empty, or what is wrong with this rank's share of the files.
std::string damage_in(const std::string& checkpoint, const Communicator& communicator) {
  try {
    verify_checkpoint(checkpoint, communicator.rank(), communicator.world());
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

Snapshot::Snapshot(const std::vector<LocalTensor>& parts) {
  std::size_t total = 0;
  for (const LocalTensor& part : parts) {
    total += part.primary ? part.bytes.size() : 0;
  }
  bytes_.resize(total);
  std::size_t offset = 0;
  for (const LocalTensor& part : parts) {
    if (part.primary) {
      parts_.push_back(part);
      parts_.back().bytes = std::span(bytes_).subspan(offset, part.bytes.size());
      if (!part.bytes.empty()) {
        std::memcpy(parts_.back().bytes.data(), part.bytes.data(), part.bytes.size());
      }
      offset += part.bytes.size();
    }
  }
}

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

// Rank 0's list of checkpoints counts: hosts may see a shared folder at different moments.
std::string find_whole_checkpoint(const std::string& path, Communicator& communicator,
                                  const std::function<void(const std::string& why)>& on_skip) {
  const bool first = communicator.rank() == 0;
  const bool alone = sum_over_ranks(communicator, first && is_checkpoint(path) ? 1 : 0) > 0;
  const std::vector<std::int64_t> steps =
      first && !alone ? checkpoints_in(path) : std::vector<std::int64_t>();
  const auto count = alone ? 1 : sum_over_ranks(communicator, std::ssize(steps));
  require(count > 0, "{} holds no checkpoint (a folder step-… with a checkpoint.json)", path);
  std::string why;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t step =
        alone ? 0 : sum_over_ranks(communicator, first ? steps[static_cast<std::size_t>(i)] : 0);
    const std::string candidate = alone ? path : checkpoint_path(path, step);
    const std::string damage = damage_in(candidate, communicator);
    if (sum_over_ranks(communicator, damage.empty() ? 0 : 1) == 0) {
      return candidate;
    }
    why = damage.empty() ? why : damage;
    if (!damage.empty() && on_skip && i + 1 < count) {
      on_skip(damage);
    }
  }
  if (why.empty()) {
    throw PeerError("another rank found a damaged checkpoint");
  }
  throw Error(Blame::input,
              alone ? why : fmt::format("{} holds no whole checkpoint: {}", path, why));
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
