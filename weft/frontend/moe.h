#pragma once

#include <string>

#include "weft/frontend/network.h"
#include "weft/frontend/settings.h"

namespace weft {

/// A layer of experts: each token goes to the `active` ones that its router likes best.
struct MoeOptions {
  std::int64_t experts = 0;
  std::int64_t active = 2;  // for each token
  std::int64_t ffn = 0;     // features inside an expert
  double capacity = 0;      // factor; 0: no token is dropped
  bool normalise = true;    // gates of a token sum to one
  double balance = 0;       // weight of the load-balance loss
  std::string act = "silu";
  bool gated = true;  // act(x gateᵀ) · (x upᵀ), then down; else act(x upᵀ), then down
  /// Names in files of weights, within the layer's prefix.
  std::string router = "mlp.gate";
  std::string expert_prefix = "mlp.experts.";  // then the number
  std::string gate = "gate_proj";
  std::string up = "up_proj";
  std::string down = "down_proj";
};

struct MoeResult {
  ValueId output = -1;
  ValueId balance = -1;  // the loss, or -1
};

/// Takes the keys experts, active, expert_ffn (else `ffn`), capacity and balance. Throws
/// Error{input} if `layers` of them have more experts than files can name one by one.
void read_moe(Settings& settings, std::int64_t layers, std::int64_t ffn, MoeOptions& options);

/// x[B,s,h] -> [B,s,h]. See moe.cpp.
[[nodiscard]] MoeResult moe(Network& net, ValueId x, const std::string& name,
                            const MoeOptions& options);

}  // namespace weft
