// 1F1B: stage s of S starts w = min(chunks, S - s) forward passes, then alternates one backward and
// one forward pass until no forward pass is left, then does the remaining backward passes. F(s, i)
// waits for F(s-1, i); B(s, i) waits for B(s+1, i), on the last stage for F(s, i); and each task
// waits for the one before it on its stage. The step ends with the last task.
//
// Chains of waiting tasks around stage s, with t its time, f a third of it (forward), b the rest:
//
//  1. F(., 0) down to s, all that s does, B(., last) back:              before + chunks t
//  2. F(., 0) to the last stage and B(., 0) back to s; what s does from B(s, 0) on; B(., last)
//  back.
//     The forward passes between F(s, 0) and B(s, 0) are not in it:
//                                              before + chunks t - (w - 1) f + after
//  3. if chunks > w: as 2, but from F(s, last) on again by the last stage. Neither those forward
//     passes nor the backward passes between F(s, last) and B(s, last) are in it:
//                                              before + (chunks - w + 1) t + 2 after
//
// If all stages take t, chain 3 has (chunks + S - 1) t around every stage, which is the step.

#include "weft/solver/one_f_one_b.h"

#include <algorithm>
#include <cstddef>

namespace weft {
namespace {

constexpr double kForward = 1.0 / 3;  // of forward and backward
constexpr double kNotYet = -1;

// Where a stage is in its list of tasks, and when each of them ended.
struct StageRun {
  int forward = 0;  // tasks done
  int backward = 0;
  double free_at = 0;
  std::vector<double> forward_end;
  std::vector<double> backward_end;
};

bool backward_is_next(const StageRun& run, int warmup, int chunks) {
  return run.forward == chunks || run.forward - run.backward >= warmup;
}

// When the next task of stage s may start as far as other stages are concerned.
double ready_at(const std::vector<StageRun>& runs, std::size_t s, bool backward) {
  if (!backward) {
    return s == 0 ? 0 : runs[s - 1].forward_end[static_cast<std::size_t>(runs[s].forward)];
  }
  const auto chunk = static_cast<std::size_t>(runs[s].backward);
  return s + 1 == runs.size() ? runs[s].forward_end[chunk] : runs[s + 1].backward_end[chunk];
}

}  // namespace

double one_f_one_b(std::span<const double> stage_s, int chunks) {
  const std::size_t stages = stage_s.size();
  std::vector<StageRun> runs(stages);
  for (StageRun& run : runs) {
    run.forward_end.assign(static_cast<std::size_t>(chunks), kNotYet);
    run.backward_end.assign(static_cast<std::size_t>(chunks), kNotYet);
  }
  for (std::size_t s = 0; runs[0].backward < chunks;) {
    StageRun& run = runs[s];
    const int warmup = std::min(chunks, static_cast<int>(stages - s));
    while (run.backward < chunks) {
      const bool backward = backward_is_next(run, warmup, chunks);
      const double ready = ready_at(runs, s, backward);
      if (ready == kNotYet) {
        break;
      }
      const double forward_s = stage_s[s] * kForward;
      run.free_at = std::max(run.free_at, ready) + (backward ? stage_s[s] - forward_s : forward_s);
      std::vector<double>& ends = backward ? run.backward_end : run.forward_end;
      ends[static_cast<std::size_t>(backward ? run.backward++ : run.forward++)] = run.free_at;
    }
    s = (s + 1) % stages;
  }
  return runs[0].free_at;
}

std::vector<ScheduleChain> schedule_chains(int stage, int stages, int chunks) {
  const int warmup = std::min(chunks, stages - stage);
  std::vector<ScheduleChain> chains = {{.own = static_cast<double>(chunks), .after = 0},
                                       {.own = chunks - (warmup - 1) * kForward, .after = 1}};
  if (chunks > warmup) {
    chains.push_back({.own = static_cast<double>(chunks - warmup + 1), .after = 2});
  }
  return chains;
}

}  // namespace weft
