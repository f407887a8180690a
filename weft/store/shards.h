#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace weft {

/// A box of a larger tensor: where it begins and how long it is in each dim.
struct Box {
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> size;
  bool operator==(const Box&) const = default;
};

/// One rank's part of a tensor.
struct Shard {
  std::string name;
  std::string dtype;                // as in safetensors
  std::vector<std::int64_t> whole;  // shape of the whole tensor
  Box box;
  std::span<const std::byte> bytes;
};

/// A folder of tensors that many ranks wrote, each its own parts: `rank-00003.safetensors` with the
/// boxes in its metadata, and a checksum over box and bytes. Parts of one tensor may lie in several
/// files; copies of the same box are allowed.
void write_shards(const std::string& folder, int rank, const std::vector<Shard>& shards);

/// Reads a rank's file to its last byte. Error{input} names the file and the first tensor whose
/// checksum does not fit.
void verify_shards(const std::string& folder, int rank);

/// Reads any box of any tensor, whatever the parts it was written in.
class ShardReader {
 public:
  /// Opens every rank-*.safetensors of the folder. `ranks` files must be there.
  ShardReader(const std::string& folder, int ranks);
  ~ShardReader();
  ShardReader(const ShardReader&) = delete;
  ShardReader& operator=(const ShardReader&) = delete;
  ShardReader(ShardReader&&) = delete;
  ShardReader& operator=(ShardReader&&) = delete;

  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] const std::string& dtype(const std::string& name) const;
  [[nodiscard]] const std::vector<std::int64_t>& whole(const std::string& name) const;
  /// Fills `out` (row-major). Error{input} if no part covers some of it.
  void read(const std::string& name, const Box& box, std::span<std::byte> out) const;

 private:
  struct Impl;
  Impl* impl_;
};

}  // namespace weft
