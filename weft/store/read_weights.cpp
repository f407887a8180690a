// A box of a parameter is the union of its intersections with the stored parts. Each is copied row
// by row; a row of the parameter is a column of the stored tensor where that is transposed.
#include <algorithm>
#include <cstring>

#include "weft/base/error.h"
#include "weft/store/convert.h"
#include "weft/store/weights.h"

namespace weft {

namespace {

using Ints = std::vector<std::int64_t>;

/// False if they do not meet.
bool intersect(const Box& a, const Box& b, Box& common) {
  common = a;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.size[d], b.offset[d] + b.size[d]);
    if (begin >= end) {
      return false;
    }
    common.offset[d] = begin;
    common.size[d] = end - begin;
  }
  return true;
}

Ints row_major_strides(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * shape[d];
  }
  return strides;
}

/// Strides of the stored tensor by the parameter's dims. Leading dims that it lacks have stride 0.
Ints stored_strides(const StoredPart& part) {
  Ints strides = row_major_strides(part.tensor_shape);
  if (part.transposed) {
    std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  }
  strides.insert(strides.begin(), part.size.size() - strides.size(), 0);
  return strides;
}

/// Index in the stored tensor of the parameter's element at the part's own beginning.
std::int64_t first_element(const StoredPart& part) {
  const Ints strides = row_major_strides(part.tensor_shape);
  std::int64_t index = 0;
  for (std::size_t d = 0; d < strides.size(); ++d) {
    index += part.tensor_offset[d] * strides[d];
  }
  return index;
}

std::int64_t volume(const Ints& size) {
  std::int64_t product = 1;
  for (const std::int64_t length : size) {
    product *= length;
  }
  return product;
}

struct Target {
  const Box& box;
  const std::string& dtype;
  std::span<std::byte> out;
};

/// Copies the elements of `common`, which lies in both the part and the target.
void copy_common(const StoredTensor& tensor, const StoredPart& part, const Box& common,
                 const Target& target) {
  const std::int64_t from_bytes = stored_element_bytes(tensor.dtype);
  const std::int64_t to_bytes = stored_element_bytes(target.dtype);
  const std::int64_t first = first_element(part);
  const Ints from = stored_strides(part);
  const Ints to = row_major_strides(target.box.size);
  const std::size_t rank = common.size.size();
  const std::int64_t row = rank == 0 ? 1 : common.size.back();
  const std::int64_t rows = volume(common.size) / row;
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int64_t rest = r;
    std::int64_t source = first;
    std::int64_t place = 0;
    for (std::size_t d = rank; d-- > 0;) {
      std::int64_t at = common.offset[d];
      if (d + 1 < rank) {
        at += rest % common.size[d];
        rest /= common.size[d];
      }
      source += (at - part.offset[d]) * from[d];
      place += (at - target.box.offset[d]) * to[d];
    }
    convert_numbers(tensor.dtype, tensor.bytes.data() + source * from_bytes,
                    rank == 0 ? 1 : from.back(), target.dtype, target.out.data() + place * to_bytes,
                    row);
  }
}

}  // namespace

Box box_in_tensor(const StoredPart& part) {
  Box box{part.tensor_offset, part.size};
  while (box.size.size() > part.tensor_shape.size() && box.size.front() == 1) {
    box.size.erase(box.size.begin());
  }
  if (part.transposed && box.size.size() >= 2) {
    std::swap(box.size[box.size.size() - 1], box.size[box.size.size() - 2]);
  }
  return box;
}

void read_weights(const WeightFiles& files, std::span<const StoredPart> parts, const Box& box,
                  const std::string& dtype, std::span<std::byte> out) {
  std::int64_t filled = 0;
  for (const StoredPart& part : parts) {
    Box common;
    if (intersect({part.offset, part.size}, box, common)) {
      const StoredTensor* tensor = files.find(part.tensor);
      WEFT_CHECK(tensor != nullptr && tensor->shape == part.tensor_shape);
      copy_common(*tensor, part, common, {box, dtype, out});
      filled += volume(common.size);
    }
  }
  WEFT_CHECK(filled == volume(box.size));
}

}  // namespace weft
