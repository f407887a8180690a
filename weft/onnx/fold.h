#pragma once

#include <map>
#include <string_view>

#include "weft/onnx/call.h"

// What the files of folding share.
namespace weft::onnx_import {

using Folders = std::map<std::string_view, void (*)(const Call&)>;
[[nodiscard]] Folders fold_arithmetic();
[[nodiscard]] Folders fold_movement();

/// Counts through all indices of a shape without empty dims, the last fastest.
struct Odometer {
  explicit Odometer(Ints sizes) : dims(std::move(sizes)), index(dims.size(), 0) {}
  [[nodiscard]] std::int64_t offset(const Ints& strides) const;
  /// False after the last.
  bool advance();

  Ints dims;
  Ints index;
};

[[nodiscard]] Ints row_major(const Ints& dims);
/// Strides with which a tensor of `dims` is read as if it had the dims `to`.
[[nodiscard]] Ints broadcast_strides(const Ints& dims, const Ints& to);
/// Throws Error{input} if the two do not go together.
[[nodiscard]] Ints broadcast_dims(const Ints& a, const Ints& b);
/// Elements `from` of x under new dims.
[[nodiscard]] Known picked(const Known& x, const Ints& dims, const std::vector<std::int64_t>& from);
/// Elements of x read with strides. Throws Error{input} for too many.
[[nodiscard]] Known strided(const Known& x, const Ints& dims, const Ints& strides,
                            std::int64_t first = 0);

/// Input i, a shape that must be known.
[[nodiscard]] const std::vector<Whole>& known_sizes(const Call& call, int i);
/// What Reshape, Slice and others mean, for tensors known and unknown alike.
[[nodiscard]] std::vector<Whole> reshaped_sizes(const std::vector<Whole>& from,
                                                const std::vector<Whole>& wanted, bool keep_zeros);
/// One dim of Slice: clamped as ONNX says.
struct SliceRange {
  std::int64_t start = 0;
  std::int64_t size = 0;
  std::int64_t step = 1;
};
[[nodiscard]] SliceRange slice_range(std::int64_t length, std::int64_t start, std::int64_t end,
                                     std::int64_t step);
/// The axes of Unsqueeze and Squeeze as dims, ascending. Refuses what is no dim of `rank`.
[[nodiscard]] Ints sorted_axes(const Call& call, const Ints& axes, int rank);
/// Converts numbers to another element type, as Cast does.
[[nodiscard]] Known converted(const Known& x, Element to);

}  // namespace weft::onnx_import
