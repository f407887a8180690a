#include "weft/kernels/torch_headers.h"

#include "weft/runtime/communication_lane.h"

#include <ATen/Context.h>
#include <c10/core/InferenceMode.h>

namespace weft {

CommunicationLane::CommunicationLane(Communicator& communicator)
    : communicator_(communicator), thread_([this] { work(); }) {
}

CommunicationLane::~CommunicationLane() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  news_.notify_all();
}

std::shared_ptr<CommunicationLane::Task> CommunicationLane::start(
    std::unique_ptr<Collective> collective) {
  auto task = std::make_shared<Task>();
  task->collective = std::move(collective);
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(task);
  }
  news_.notify_all();
  return task;
}

void CommunicationLane::wait(Task& task) {
  {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return task.done; });
  }
  task.collective.reset();
  if (task.error) {
    std::rethrow_exception(task.error);
  }
}

void CommunicationLane::run(Task& task) {
  task.begin = Clock::now();
  if (failure_) {
    task.error = failure_;
  } else {
    try {
      task.collective->run(communicator_);
    } catch (...) {
      failure_ = std::current_exception();
      task.error = failure_;
    }
  }
  task.end = Clock::now();
}

void CommunicationLane::work() {
  const c10::InferenceMode guard;
  at::globalContext().setFlushDenormal(true);  // a setting of the thread
  std::unique_lock lock(mutex_);
  while (true) {
    news_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (stop_) {
      return;
    }
    const std::shared_ptr<Task> task = queue_.front();
    queue_.pop_front();
    lock.unlock();
    run(*task);
    lock.lock();
    task->done = true;
    news_.notify_all();
  }
}

}  // namespace weft
