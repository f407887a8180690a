// A stored tensor is put together from its parts, one tensor in memory at a time. Tensors go into
// files in the order of the model, a new file when the next one would make it too large.
#include <fmt/format.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/store/convert.h"
#include "weft/store/weights.h"

namespace weft {

namespace {

using Ints = std::vector<std::int64_t>;

struct Tensor {
  TensorHeader header;
  std::vector<const StoredPart*> parts;
};

/// In order of first appearance.
std::vector<Tensor> tensors_of(const WeightsLayout& layout) {
  std::vector<Tensor> tensors;
  std::map<std::string, std::size_t> place;
  for (const StoredPart& part : layout.parts) {
    const auto [it, is_new] = place.emplace(part.tensor, tensors.size());
    if (is_new) {
      tensors.push_back({{part.tensor, layout.dtypes.at(part.parameter), part.tensor_shape}, {}});
    }
    tensors[it->second].parts.push_back(&part);
  }
  for (const auto& [name, count] : layout.counts) {
    tensors.push_back({{name, "I64", {}}, {}});
  }
  return tensors;
}

/// Puts a part, given row-major in the parameter's order of dims, at its place in the tensor.
void place_part(const StoredPart& part, std::int64_t element, std::span<const std::byte> from,
                std::span<std::byte> to) {
  const Box box = box_in_tensor(part);
  const std::size_t rank = box.size.size();
  const std::int64_t columns = rank == 0 ? 1 : box.size.back();
  const std::int64_t rows = static_cast<std::int64_t>(from.size()) / (columns * element);
  // Of a transposed part, row r and column c lie at (c, r) of its last two dims in `from`.
  const std::int64_t height = part.transposed ? box.size[rank - 2] : 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r;
    std::int64_t place = rank == 0 ? 0 : box.offset.back();
    std::int64_t stride = rank == 0 ? 1 : part.tensor_shape.back();
    for (std::size_t d = rank; d-- > 1;) {
      place += (box.offset[d - 1] + rest % box.size[d - 1]) * stride;
      rest /= box.size[d - 1];
      stride *= part.tensor_shape[d - 1];
    }
    std::byte* const out = to.data() + place * element;
    if (!part.transposed) {
      std::memcpy(out, from.data() + r * columns * element,
                  static_cast<std::size_t>(columns * element));
      continue;
    }
    const std::int64_t matrix = r / height * height * columns;
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t index = matrix + c * height + r % height;
      std::memcpy(out + c * element, from.data() + index * element,
                  static_cast<std::size_t>(element));
    }
  }
}

class Writer {
 public:
  Writer(const WeightsLayout& layout, const ParameterSource& source)
      : layout_(layout), source_(source), tensors_(tensors_of(layout)) {
    for (const Tensor& tensor : tensors_) {
      by_name_[tensor.header.name] = &tensor;
    }
  }

  void write(const std::string& folder) {
    const std::vector<std::vector<TensorHeader>> files = split();
    nlohmann::ordered_json map = nlohmann::ordered_json::object();
    for (std::size_t i = 0; i < files.size(); ++i) {
      const std::string name =
          files.size() == 1 ? "model.safetensors"
                            : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, files.size());
      write_safetensors(folder + "/" + name, files[i], {{"format", "pt"}},
                        [this](const TensorHeader& header) { return bytes_of(header); });
      for (const TensorHeader& header : files[i]) {
        map[header.name] = name;
      }
    }
    if (files.size() > 1) {
      const nlohmann::ordered_json index = {{"metadata", {{"total_size", total_}}},
                                            {"weight_map", map}};
      write_file(folder + "/model.safetensors.index.json", index.dump(2) + "\n");
    }
  }

 private:
  std::vector<std::vector<TensorHeader>> split() {
    std::vector<std::vector<TensorHeader>> files(1);
    std::int64_t held = 0;
    for (const Tensor& tensor : tensors_) {
      const std::int64_t bytes = stored_bytes(tensor.header);
      if (held > 0 && held + bytes > layout_.largest_file) {
        files.emplace_back();
        held = 0;
      }
      files.back().push_back(tensor.header);
      held += bytes;
      total_ += bytes;
    }
    return files;
  }

  std::span<const std::byte> bytes_of(const TensorHeader& header) {
    const Tensor& tensor = *by_name_.at(header.name);
    const std::int64_t element = stored_element_bytes(header.dtype);
    whole_.assign(static_cast<std::size_t>(stored_bytes(header)), std::byte{0});
    if (const auto count = layout_.counts.find(header.name); count != layout_.counts.end()) {
      std::memcpy(whole_.data(), &count->second, sizeof(count->second));
    }
    for (const StoredPart* part : tensor.parts) {
      std::int64_t elements = 1;
      for (const std::int64_t length : part->size) {
        elements *= length;
      }
      piece_.resize(static_cast<std::size_t>(elements * element));
      source_(part->parameter, {part->offset, part->size}, header.dtype, piece_);
      place_part(*part, element, piece_, whole_);
    }
    return whole_;
  }

  const WeightsLayout& layout_;
  const ParameterSource& source_;
  std::vector<Tensor> tensors_;
  std::map<std::string, const Tensor*> by_name_;
  std::int64_t total_ = 0;
  std::vector<std::byte> whole_;
  std::vector<std::byte> piece_;
};

}  // namespace

void write_weights(const std::string& folder, const WeightsLayout& layout,
                   const ParameterSource& source) {
  Writer(layout, source).write(folder);
}

}  // namespace weft
