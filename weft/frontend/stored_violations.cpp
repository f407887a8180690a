#include "weft/frontend/stored_violations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace weft {

namespace {

std::int64_t volume(const Ints& size) {
  std::int64_t product = 1;
  for (const std::int64_t length : size) {
    product *= length;
  }
  return product;
}

bool inside(const Box& box, const Ints& shape) {
  bool fits = box.offset.size() == shape.size() && box.size.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    fits = box.offset[d] >= 0 && box.size[d] > 0 && box.offset[d] + box.size[d] <= shape[d];
  }
  return fits;
}

bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    if (a.offset[d] + a.size[d] <= b.offset[d] || b.offset[d] + b.size[d] <= a.offset[d]) {
      return false;
    }
  }
  return true;
}

/// Do any two overlap? In the order of their first dim a box is compared with those that begin
/// before it ends, which are few: parts are rows of a parameter, such as its experts.
bool any_overlap(std::vector<Box> boxes) {
  const auto begin = [](const Box& box) { return box.offset.empty() ? 0 : box.offset[0]; };
  const auto end = [&](const Box& box) {
    return begin(box) + (box.size.empty() ? 1 : box.size[0]);
  };
  std::ranges::sort(boxes, {}, begin);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    for (std::size_t j = i + 1; j < boxes.size() && begin(boxes[j]) < end(boxes[i]); ++j) {
      if (overlap(boxes[i], boxes[j])) {
        return true;
      }
    }
  }
  return false;
}

/// Boxes that lie inside of a shape cover it exactly if none overlap and their volumes add up.
void check_cover(const std::string& what, const Ints& shape, const std::vector<Box>& boxes,
                 std::vector<std::string>& found) {
  std::int64_t covered = 0;
  for (const Box& box : boxes) {
    if (!inside(box, shape)) {
      found.push_back(fmt::format("{}: a part at [{}] of size [{}] lies outside of [{}]", what,
                                  fmt::join(box.offset, ","), fmt::join(box.size, ","),
                                  fmt::join(shape, ",")));
      return;
    }
    covered += volume(box.size);
  }
  if (any_overlap(boxes)) {
    found.push_back(fmt::format("{}: two parts overlap", what));
    return;
  }
  if (covered != volume(shape)) {
    found.push_back(fmt::format("{}: {} of {} elements are stored", what, covered, volume(shape)));
  }
}

}  // namespace

std::vector<std::string> stored_violations(const Graph& graph,
                                           const std::vector<StoredPart>& parts) {
  std::vector<std::string> found;
  std::map<std::string, std::vector<Box>> in_parameter;
  std::map<std::string, std::vector<Box>> in_tensor;
  std::map<std::string, Ints> tensor_shape;
  for (const StoredPart& part : parts) {
    in_parameter[part.parameter].push_back({part.offset, part.size});
    in_tensor[part.tensor].push_back(box_in_tensor(part));
    const auto [it, is_new] = tensor_shape.emplace(part.tensor, part.tensor_shape);
    if (!is_new && it->second != part.tensor_shape) {
      found.push_back(fmt::format("tensor {}: two shapes", part.tensor));
    }
  }
  for (const ValueId id : values_of_kind(graph, ValueKind::parameter)) {
    const Value& value = graph.values[id];
    Ints shape;
    for (const Dim dim : value.type.shape) {
      shape.push_back(dim.size);
    }
    check_cover("parameter " + value.name, shape, in_parameter[value.name], found);
    in_parameter.erase(value.name);
  }
  for (const auto& [name, boxes] : in_parameter) {
    found.push_back(fmt::format("part of {}, which is no parameter", name));
  }
  for (const auto& [name, boxes] : in_tensor) {
    check_cover("tensor " + name, tensor_shape.at(name), boxes, found);
  }
  return found;
}

}  // namespace weft
