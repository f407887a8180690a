#pragma once

#include <string>

#include "weft/graph/graph.h"

namespace weft {

class HfConfig;

/// How rotary frequencies are stretched for longer sequences.
struct RopeScaling {
  std::string kind = "none";  // none | linear | llama3
  double factor = 1;
  double low = 1;
  double high = 4;
  double original = 8192;
};

/// "none", "linear:2", "llama3:8:1:4:8192". Throws Error{input}.
[[nodiscard]] RopeScaling parse_rope_scaling(const std::string& text);
[[nodiscard]] Attrs rope_scaling_attrs(const RopeScaling& scaling);
/// The text form of a config's `rope_scaling`.
[[nodiscard]] std::string describe_rope_scaling(HfConfig& config);

/// Settings of Llama, Mistral, Qwen2, Qwen3, Phi-3, Mixtral, Qwen2-MoE and DeepSeek configs.
[[nodiscard]] std::string describe_llama(HfConfig& config, const std::string& type);

}  // namespace weft
