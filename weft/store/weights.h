#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/store/safetensors.h"
#include "weft/store/stored_part.h"

namespace weft {

/// The files that a model.safetensors.index.json names, by tensor; all of them lie in its folder.
/// Error{input}, which begins with `name`, for anything else.
[[nodiscard]] std::map<std::string, std::string> parse_weight_index(std::string_view json,
                                                                    const std::string& name);

/// Weights as Hugging Face stores them: a file, or a folder with model.safetensors or with parts
/// and model.safetensors.index.json. Files are mapped, so nothing is read but what is asked for.
class WeightFiles {
 public:
  /// Throws Error{input} if there are none or an index and its files disagree.
  explicit WeightFiles(const std::string& path);

  /// The tensor of this name, or of an older or shorter spelling of it: without the name of the
  /// base model in front ("transformer."), with gamma and beta for a norm's weight and bias.
  /// Null if there is none.
  [[nodiscard]] const StoredTensor* find(const std::string& name) const;
  [[nodiscard]] const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void open(const std::string& file);
  void open_index(const std::string& index);

  std::string path_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, StoredTensor> tensors_;
};

/// What keeps the files from holding these parts: tensors that are missing, have other shapes or
/// hold no numbers we convert. Empty if nothing.
[[nodiscard]] std::vector<std::string> weights_violations(const WeightFiles& files,
                                                          const std::vector<StoredPart>& parts);

/// Fills `out` (row-major, of safetensors dtype `dtype`) with a box of a parameter, converting from
/// the dtypes of the files. `parts` are those of this parameter. The files hold them.
void read_weights(const WeightFiles& files, std::span<const StoredPart> parts, const Box& box,
                  const std::string& dtype, std::span<std::byte> out);

/// Reads a box of a parameter in safetensors dtype `dtype`.
using ParameterSource = std::function<void(const std::string& parameter, const Box& box,
                                           const std::string& dtype, std::span<std::byte> out)>;

struct WeightsLayout {
  std::vector<StoredPart> parts = {};
  std::map<std::string, std::string> dtypes = {};   // of parameters, as in safetensors
  std::map<std::string, std::int64_t> counts = {};  // i64 scalars beside them, by tensor
  std::int64_t largest_file = 5'000'000'000;        // as Hugging Face's tools split
};

/// Writes model.safetensors, or parts with an index, into a folder that exists.
void write_weights(const std::string& folder, const WeightsLayout& layout,
                   const ParameterSource& source);

}  // namespace weft
