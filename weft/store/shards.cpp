// Reading a box: `missing` is a list of disjoint boxes that no part has filled yet. Each part fills
// its intersection with every missing box, and the missing box is replaced by what is left of it
// (at most two boxes a dim). So every element is copied once, whatever the parts are, and a hole is
// seen.
#include "weft/store/shards.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/base/hash.h"
#include "weft/store/checksum.h"
#include "weft/store/safetensors.h"

namespace weft {

namespace {

using nlohmann::json;
using Sizes = std::vector<std::int64_t>;

std::string text_of(const Sizes& sizes) {
  return fmt::format("{}", json(sizes).dump());
}

std::string text_of(const Box& box) {
  return fmt::format("box {} + {}", text_of(box.offset), text_of(box.size));
}

bool inside(const Box& box, const Sizes& whole) {
  if (box.offset.size() != whole.size() || box.size.size() != whole.size()) {
    return false;
  }
  for (std::size_t d = 0; d < whole.size(); ++d) {
    // Written so that no sum can overflow.
    if (box.offset[d] < 0 || box.size[d] < 0 || box.size[d] > whole[d] ||
        box.offset[d] > whole[d] - box.size[d]) {
      return false;
    }
  }
  return true;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box result;
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) {
      return std::nullopt;
    }
    result.offset.push_back(begin);
    result.size.push_back(end - begin);
  }
  return result;
}

/// What is left of `box` without `hole`, which lies in it.
std::vector<Box> without(Box box, const Box& hole) {
  std::vector<Box> rest;
  for (std::size_t d = 0; d < box.offset.size(); ++d) {
    const std::int64_t before = hole.offset[d] - box.offset[d];
    const std::int64_t after = box.size[d] - before - hole.size[d];
    if (before > 0) {
      rest.push_back(box);
      rest.back().size[d] = before;
    }
    if (after > 0) {
      rest.push_back(box);
      rest.back().offset[d] = hole.offset[d] + hole.size[d];
      rest.back().size[d] = after;
    }
    box.offset[d] = hole.offset[d];
    box.size[d] = hole.size[d];
  }
  return rest;
}

/// Element number of a point within a box, row-major.
std::int64_t place(const Box& box, const Sizes& point) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < point.size(); ++d) {
    index = index * box.size[d] + (point[d] - box.offset[d]);
  }
  return index;
}

struct Part {
  Box box;
  std::span<const std::byte> bytes;
};

/// Copies `common` from a part to a buffer that holds `target`, row by row.
void copy_box(const Part& from, const Box& target, std::span<std::byte> to, const Box& common,
              std::size_t element) {
  Sizes point = common.offset;
  const std::size_t dims = point.size();
  const std::size_t run = element * (dims == 0 ? 1 : static_cast<std::size_t>(common.size.back()));
  for (;;) {
    const auto source = static_cast<std::size_t>(place(from.box, point)) * element;
    const auto destination = static_cast<std::size_t>(place(target, point)) * element;
    std::memcpy(to.subspan(destination, run).data(), from.bytes.subspan(source, run).data(), run);
    // The next row: an odometer over all dims but the last.
    std::size_t d = dims < 2 ? 0 : dims - 1;
    while (d > 0 && ++point[d - 1] == common.offset[d - 1] + common.size[d - 1]) {
      point[d - 1] = common.offset[d - 1];
      --d;
    }
    if (d == 0) {
      return;
    }
  }
}

struct WholeTensor {
  std::string dtype;
  Sizes whole;
  std::vector<Part> parts;
};

Sizes json_sizes(const json& object, const char* key, const std::string& where) {
  const json& list = json_member(object, key, where);
  require(list.is_array(), "{}: '{}' is not a list", where, key);
  Sizes result;
  for (const json& item : list) {
    require(item.is_number_unsigned() && item.get<std::uint64_t>() <= INT64_MAX,
            "{}: '{}' holds something that is not a size", where, key);
    result.push_back(item.get<std::int64_t>());
  }
  return result;
}

void add_part(std::map<std::string, WholeTensor>& tensors, const StoredTensor& stored,
              const std::string& note, const std::string& where) {
  const json shard = parse_json(note, where);
  const std::string name = json_string(shard, "name", where);
  const Sizes whole = json_sizes(shard, "whole", where);
  const Box box{json_sizes(shard, "offset", where), stored.shape};
  require(inside(box, whole), "{}: {} does not lie in {}", where, text_of(box), text_of(whole));
  const auto [entry, is_new] = tensors.try_emplace(name, WholeTensor{stored.dtype, whole, {}});
  WholeTensor& tensor = entry->second;
  require(tensor.dtype == stored.dtype && tensor.whole == whole,
          "{}: is {}{} here and {}{} in an earlier file; the files are not of one checkpoint",
          where, stored.dtype, text_of(whole), tensor.dtype, text_of(tensor.whole));
  if (std::ranges::find(tensor.parts, box, &Part::box) == tensor.parts.end()) {
    tensor.parts.push_back({box, stored.bytes});  // else a copy
  }
}

/// Over the bytes, beginning from what is said of them: neither can change unseen.
std::string sum_of(const std::string& key, const StoredTensor& tensor, const json& note) {
  const std::string said =
      fmt::format("{} {} {} {}", key, tensor.dtype, text_of(tensor.shape),
                  json::array({note.at("name"), note.at("whole"), note.at("offset")}).dump());
  return hash_hex(checksum(tensor.bytes, checksum(std::as_bytes(std::span(said)))));
}

std::string shard_file(const std::string& folder, int rank) {
  return fmt::format("{}/rank-{:05}.safetensors", folder, rank);
}

/// Files of ranks that are not of this checkpoint would mix two of them.
void check_no_more(const std::string& folder, int ranks) {
  std::error_code failure;
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    names.push_back(entry.path().filename().string());
  }
  if (failure) {
    fail_environment("{}: cannot be listed: {}", folder, failure.message());
  }
  const auto found = std::ranges::count_if(names, [](const std::string& name) {
    return name.starts_with("rank-") && name.ends_with(".safetensors");
  });
  require(found == ranks, "{}: holds {} files rank-*.safetensors where {} belong to the checkpoint",
          folder, found, ranks);
}

}  // namespace

void write_shards(const std::string& folder, int rank, const std::vector<Shard>& shards) {
  std::map<std::string, StoredTensor> tensors;
  std::map<std::string, std::string> notes;
  for (const Shard& shard : shards) {
    WEFT_CHECK(inside(shard.box, shard.whole));
    // The box is in the key, so a rank may hold several parts of a tensor; copies fall together.
    const std::string key =
        fmt::format("{}@{}+{}", shard.name, text_of(shard.box.offset), text_of(shard.box.size));
    tensors[key] = StoredTensor{shard.dtype, shard.box.size, shard.bytes};
    json note = {{"name", shard.name}, {"whole", shard.whole}, {"offset", shard.box.offset}};
    note["xxh64"] = sum_of(key, tensors[key], note);
    notes[key] = note.dump();
  }
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure) {
    fail_environment("{}: cannot create the folder: {}", folder, failure.message());
  }
  write_safetensors(shard_file(folder, rank), tensors, notes);
}

void verify_shards(const std::string& folder, int rank) {
  const std::string path = shard_file(folder, rank);
  require(std::filesystem::exists(path), "{}: is missing", path);
  const SafetensorsFile file(path);
  for (const auto& [key, stored] : file.tensors()) {
    const auto text = file.metadata().find(key);
    require(text != file.metadata().end(), "{}: no metadata says where '{}' lies", path, key);
    const std::string where = fmt::format("{}: '{}'", path, key);
    const json note = parse_json(text->second, where);
    for (const char* member : {"name", "whole", "offset"}) {
      static_cast<void>(json_member(note, member, where));
    }
    const std::string said = json_string(note, "xxh64", where);
    const std::string found = sum_of(key, stored, note);
    require(said == found,
            "{}: tensor '{}' is damaged: its checksum is {}, when it was written it was {}", path,
            json_string(note, "name", where), found, said);
  }
}

struct ShardReader::Impl {
  std::string folder;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, WholeTensor> tensors;

  [[nodiscard]] const WholeTensor& find(const std::string& name) const {
    const auto found = tensors.find(name);
    require(found != tensors.end(), "{}: holds no tensor '{}'", folder, name);
    return found->second;
  }
};

ShardReader::ShardReader(const std::string& folder, int ranks) : impl_(nullptr) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = shard_file(folder, rank);
    require(std::filesystem::exists(path), "{}: missing; the checkpoint has {} files", path, ranks);
    impl->files.push_back(std::make_unique<SafetensorsFile>(path));
    const SafetensorsFile& file = *impl->files.back();
    for (const auto& [key, stored] : file.tensors()) {
      const auto note = file.metadata().find(key);
      require(note != file.metadata().end(), "{}: no metadata says where '{}' lies", path, key);
      add_part(impl->tensors, stored, note->second, fmt::format("{}: '{}'", path, key));
    }
  }
  check_no_more(folder, ranks);
  impl_ = impl.release();
}

ShardReader::~ShardReader() {
  delete impl_;
}

std::vector<std::string> ShardReader::names() const {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : impl_->tensors) {
    result.push_back(name);
  }
  return result;
}

const std::string& ShardReader::dtype(const std::string& name) const {
  return impl_->find(name).dtype;
}

const Sizes& ShardReader::whole(const std::string& name) const {
  return impl_->find(name).whole;
}

void ShardReader::read(const std::string& name, const Box& box, std::span<std::byte> out) const {
  const WholeTensor& tensor = impl_->find(name);
  require(inside(box, tensor.whole), "{}: tensor '{}' is {}; {} does not lie in it", impl_->folder,
          name, text_of(tensor.whole), text_of(box));
  const auto element = static_cast<std::size_t>(stored_element_bytes(tensor.dtype));
  std::size_t bytes = element;
  for (const std::int64_t size : box.size) {
    bytes *= static_cast<std::size_t>(size);
  }
  WEFT_CHECK(out.size() == bytes);
  std::vector<Box> missing;
  if (bytes > 0) {
    missing.push_back(box);
  }
  for (const Part& part : tensor.parts) {
    std::vector<Box> left;
    for (const Box& hole : missing) {
      const std::optional<Box> common = intersection(part.box, hole);
      if (!common) {
        left.push_back(hole);
        continue;
      }
      copy_box(part, box, out, *common, element);
      std::ranges::copy(without(hole, *common), std::back_inserter(left));
    }
    missing = std::move(left);
  }
  require(missing.empty(), "{}: no file holds {} of tensor '{}'", impl_->folder,
          missing.empty() ? std::string() : text_of(missing.front()), name);
}

}  // namespace weft
