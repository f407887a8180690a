#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/plan/plan.h"

namespace weft {

/// How a plan is trained. The text forms are those of the command line.
struct TrainOptions {
  std::string data = {};  // synthetic, text:FILE, tokens:FILE, mnist:DIR, …: docs/spec/data.md
  std::string tokenizer = {};           // tokenizer.json for text; empty: tokens are bytes
  std::optional<double> held_out = {};  // share that is not trained on; default 0, or 0.05 if
                                        // the model is evaluated
  std::int64_t eval_every = 0;          // steps between evaluations; 0: none
  std::int64_t eval_batches = 0;        // of an evaluation; 0: the whole held-out part
  std::int64_t steps = 0;
  std::optional<double> lr = {};      // default: the optimizer's
  std::string schedule = "constant";  // cosine | linear | constant
  std::int64_t warmup = 0;            // steps in which the rate rises from 0
  std::string weights = {};           // begin from this safetensors file or folder
  std::string save = {};              // folder for checkpoints
  std::int64_t save_every = 0;
  std::int64_t keep = 0;    // newest checkpoints that stay; 0: all
  std::string resume = {};  // go on from this checkpoint
  int max_restarts = 0;     // how often a job whose worker died or hung is started again
  double patience_s = 6;    // without a sign of life until a worker counts as hung
  std::string trace = {};   // a measured trace of the last step goes here
  double slow_down = 0;     // of an emulated cluster; 0: as much as this machine needs
};

/// Throws Error{input} for options that make no sense.
void check_options(const TrainOptions& options);
/// What workers of the plan are told.
[[nodiscard]] std::vector<std::string> worker_arguments(const TrainOptions& options,
                                                        const Plan& plan);

}  // namespace weft
