// A save goes through: copy (training thread) → write own parts (thread) → all ranks have written
// (known by the sum that ends every step) → publish (rank 0, thread). The sum rides on the message
// by which ranks agree to stop, so saving adds no message to a step. Whatever fails on the thread
// is thrown by the training thread at the end of its step.
#include "weft/kernels/torch_headers.h"

#include "saver.h"

#include <fmt/format.h>

#include <filesystem>

#include "weft/base/error.h"
#include "weft/runtime/communicator.h"

namespace weft {

Saver::Saver(Spec spec, Communicator& communicator)
    : spec_(std::move(spec)), communicator_(communicator) {
  if (!spec_.folder.empty()) {
    if (communicator_.rank() == 0) {
      remove_unfinished(spec_.folder);  // of a job that ended in the middle
    }
    communicator_.barrier();
  }
}

Saver::~Saver() = default;

void Saver::strike(const char* phase, std::int64_t step) {
  if (spec_.fault != nullptr) {
    spec_.fault->at(step, phase);
  }
}

void Saver::run(const std::function<void()>& job, State then) {
  if (thread_.joinable()) {
    thread_.join();
  }
  if (state_ == State::failed) {
    return;  // the first failure counts
  }
  state_ = State::writing;
  thread_ = std::jthread([this, job, then] {
    try {
      job();
      state_ = then;
    } catch (const Error& error) {
      failure_ = std::make_exception_ptr(
          Error(error.blame(), fmt::format("rank {}, saving step {}: {}", communicator_.rank(),
                                           info_.step, error.what())));
      state_ = State::failed;
    } catch (const std::exception& error) {
      failure_ = std::make_exception_ptr(
          Error(Blame::environment, fmt::format("rank {}, saving step {}: {}", communicator_.rank(),
                                                info_.step, error.what())));
      state_ = State::failed;
    }
  });
}

void Saver::write(const Snapshot& snapshot, const CheckpointInfo& info) {
  strike("write", info.step);
  const std::lock_guard files(*spec_.files);
  write_parts(unfinished_path(spec_.folder, info.step), communicator_.rank(), snapshot.parts());
}

void Saver::publish(const CheckpointInfo& info) {
  const std::string unfinished = unfinished_path(spec_.folder, info.step);
  if (spec_.add_files) {
    const std::lock_guard files(*spec_.files);
    spec_.add_files(unfinished, info.step);
  }
  strike("commit", info.step);
  {
    const std::lock_guard files(*spec_.files);
    publish_checkpoint(spec_.folder, info);
    if (spec_.keep > 0) {
      keep_newest_checkpoints(spec_.folder, spec_.keep);
    }
  }
  if (spec_.on_saved) {
    spec_.on_saved(checkpoint_path(spec_.folder, info.step), info.step);
  }
}

void Saver::start(const CheckpointInfo& info, const std::vector<LocalTensor>& parts) {
  finish();
  if (spec_.activity != nullptr) {
    spec_.activity->enter(fmt::format("save of step {}", info.step));
  }
  info_ = info;
  try {
    strike("save", info.step);
  } catch (const Error& error) {
    throw Error(error.blame(), fmt::format("rank {}, saving step {}: {}", communicator_.rank(),
                                           info.step, error.what()));
  }
  const auto snapshot = std::make_shared<Snapshot>(parts);
  under_way_ = true;
  run([this, snapshot, info] { write(*snapshot, info); }, State::written);
}

Saver::Votes Saver::votes() const {
  const State state = state_;
  return {.written = under_way_ && state == State::written ? 1 : 0,
          .failed = state == State::failed ? 1 : 0};
}

void Saver::settle(const Votes& sums) {
  if (sums.failed > 0) {
    if (state_ == State::failed) {
      if (thread_.joinable()) {
        thread_.join();
      }
      std::rethrow_exception(failure_);
    }
    throw PeerError(fmt::format("rank {}: another rank could not save step {}",
                                communicator_.rank(), info_.step));
  }
  if (under_way_ && sums.written == communicator_.world()) {
    under_way_ = false;
    state_ = State::idle;
    if (communicator_.rank() == 0) {
      run([this, info = info_] { publish(info); }, State::idle);
    }
  }
}

// Twice: until all have written, and until rank 0 has given the name.
void Saver::finish() {
  if (spec_.folder.empty() || !info_.step) {
    return;
  }
  for (int round = 0; round < 2; ++round) {
    if (spec_.activity != nullptr) {
      spec_.activity->enter(fmt::format("the end of the save of step {}", info_.step));
    }
    if (thread_.joinable()) {
      thread_.join();
    }
    if (spec_.activity != nullptr) {
      spec_.activity->enter(fmt::format("the save of step {} by other ranks", info_.step), true);
    }
    const Votes mine = votes();
    std::int64_t sums[2] = {mine.written, mine.failed};
    communicator_.all_reduce(0, at::from_blob(sums, {2}, at::TensorOptions(at::kLong)));
    settle({.written = sums[0], .failed = sums[1]});
  }
}

}  // namespace weft
