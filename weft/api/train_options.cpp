#include "weft/api/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"

namespace weft {

void check_options(const TrainOptions& options) {
  require(options.steps > 0, "--steps is needed: how many steps to train");
  require(!options.data.empty(),
          "--data is needed: text:FILE, tokens:FILE, mnist:DIR, cifar10:DIR, "
          "images:FILE,LABELS or synthetic");
  const double held_out = options.held_out.value_or(0);
  require(held_out >= 0 && held_out < 1, "--held-out {}: a share from 0 to below 1", held_out);
  require(options.eval_every >= 0 && options.eval_batches >= 0,
          "--eval-every {} --eval-batches {}: numbers from 0", options.eval_every,
          options.eval_batches);
  const auto known = {"constant", "linear", "cosine"};
  require(std::ranges::find(known, options.schedule) != known.end(),
          "--schedule {}: known are cosine, linear and constant", options.schedule);
  require(options.warmup >= 0, "--warmup {}: a number of steps from 0", options.warmup);
  require(options.save_every >= 0, "--save-every {}: a number of steps", options.save_every);
  require(options.keep >= 0, "--keep {}: a number of checkpoints", options.keep);
  require(options.weights.empty() || options.resume.empty(),
          "--weights begins anew and --resume goes on: give one of them");
  require(options.max_restarts >= 0, "--max-restarts {}: a number from 0", options.max_restarts);
  require(options.patience_s >= 1, "--patience {}: at least 1 second", options.patience_s);
  require(options.save_every == 0 || !options.save.empty(),
          "--save-every needs --save DIR: where to save");
}

std::vector<std::string> worker_arguments(const TrainOptions& options, const Plan& plan) {
  const double lr = options.lr.value_or(default_learning_rate(plan.optimizer.name));
  require(std::isfinite(lr) && lr >= 0, "--lr {}: a rate is a number from 0", lr);
  std::vector<std::string> words = {"--data",     options.data,
                                    "--steps",    fmt::format("{}", options.steps),
                                    "--lr",       fmt::format("{}", lr),
                                    "--schedule", options.schedule,
                                    "--warmup",   fmt::format("{}", options.warmup)};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) {
      words.insert(words.end(), {name, value});
    }
  };
  add("--tokenizer", options.tokenizer);
  const double held_out = options.held_out.value_or(options.eval_every > 0 ? 0.05 : 0.0);
  if (held_out > 0) {
    add("--held-out", fmt::format("{}", held_out));
  }
  if (options.eval_every > 0) {
    add("--eval-every", fmt::format("{}", options.eval_every));
    add("--eval-batches", fmt::format("{}", options.eval_batches));
  }
  add("--save", options.save);
  add("--weights", options.weights);
  add("--resume", options.resume);
  add("--trace", options.trace);
  if (options.save_every > 0) {
    add("--save-every", fmt::format("{}", options.save_every));
  }
  if (options.slow_down > 0) {
    add("--slow-down", fmt::format("{}", options.slow_down));
  }
  if (options.keep > 0) {
    add("--keep", fmt::format("{}", options.keep));
  }
  return words;
}

}  // namespace weft
