// The loop over a device's instructions, and what surrounds it: groups, errors, the measured
// timeline.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/executor.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <ctime>

#include "weft/base/error.h"
#include "weft/base/units.h"
#include "weft/launch/activity.h"
#include "weft/launch/fault.h"
#include "weft/runtime/allocator.h"
#include "weft/runtime/executor_impl.h"

namespace weft {
namespace {

using Clock = CommunicationLane::Clock;

double seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Processor time of the calling thread.
double cpu_s() {
  timespec used = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

// Runs an instruction and adds rank and place to whatever goes wrong.
template <typename Function, typename Where>
void with_context(int rank, const Where& where, const Function& function) {
  const auto say = [&](const std::string& what) {
    return fmt::format("rank {}, {}: {}", rank, where(), what);
  };
  try {
    function();
  } catch (const PeerError& error) {
    throw PeerError(say(error.what()));
  } catch (const Error& error) {
    throw Error(error.blame(), say(error.what()));
  } catch (const c10::OutOfMemoryError& error) {
    throw Error(Blame::environment, say(error.what_without_backtrace()));
  } catch (const c10::Error& error) {
    throw Error(Blame::bug, say(error.what_without_backtrace()));
  } catch (const std::exception& error) {
    throw Error(Blame::bug, say(error.what()));
  }
}

}  // namespace

Executor::Impl::Impl(const ExecutorSpec& spec, Communicator& peers)
    : program(spec.program),
      graph(spec.graph),
      ops(spec.ops),
      devices(spec.devices),
      seed(spec.seed),
      communicator(peers),
      emulated(spec.emulated),
      lane(peers) {
  WEFT_CHECK(static_cast<int>(devices.size()) == communicator.world());
  const DeviceId device = devices[communicator.rank()];
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    const Mesh& mesh = program.stages[s].mesh;
    const auto it = std::ranges::find(mesh.devices, device);
    if (it != mesh.devices.end()) {
      stage_index = static_cast<int>(s);
      stage = &program.stages[s];
      at = coordinates(mesh, static_cast<int>(it - mesh.devices.begin()));
    }
  }
  WEFT_CHECK(stage != nullptr);
  for (std::size_t a = 0; a < stage->mesh.axes.size(); ++a) {
    std::vector<int> ranks;
    for (const DeviceId member : axis_group(stage->mesh, at, static_cast<int>(a))) {
      ranks.push_back(rank_of(member));
    }
    axis_groups.push_back(communicator.join(ranks));
  }
  order = expand(*stage);
  activity = spec.activity;
  fault = spec.fault;
  name_places(spec.shares != nullptr ? "evaluation, " : "");
  kernel_at.resize(order.size(), nullptr);
  states.resize((program.micro_batches.size() + 1) * stage->slots.size());
  const c10::InferenceMode guard;
  for (std::size_t slot = 0; slot < stage->slots.size(); ++slot) {
    const auto id = static_cast<SlotId>(slot);
    if (stage->slots[slot].lifetime == Lifetime::persistent && stage->slots[slot].view_of < 0) {
      state(id, -1).tensor = spec.shares == nullptr ? allocate(local_type_of(id, -1))
                                                    : shared_tensor(*spec.shares->impl_, id);
    }
  }
}

const at::Tensor& Executor::Impl::shared_tensor(const Impl& owner, SlotId slot) const {
  const Slot& mine = stage->slots[slot];
  for (std::size_t i = 0; i < owner.stage->slots.size(); ++i) {
    const Slot& theirs = owner.stage->slots[i];
    if (theirs.lifetime == Lifetime::persistent && theirs.view_of < 0 && theirs.name == mine.name) {
      WEFT_CHECK(theirs.placements == mine.placements && theirs.type == mine.type);
      return owner.states[i].tensor;  // persistent slots stand in the first row
    }
  }
  throw Error(Blame::bug,
              fmt::format("bug in weft: no tensor \"{}\" to share between programs", mine.name));
}

std::string Executor::Impl::full_name(const Instruction& i) const {
  const std::string op = i.opcode == Opcode::compute ? graph.nodes[i.node].op + " " : "";
  return op + event_name(*stage, i, graph);
}

std::string Executor::Impl::describe(const IssuedInstruction& issued) const {
  return place_text(input.step, phase_name(issued.phase), issued.micro_batch,
                    full_name(*issued.instruction));
}

// Texts are made once, for each instruction of the program and not for each micro-batch.
void Executor::Impl::name_places(const std::string& prefix) {
  if (activity == nullptr) {
    return;
  }
  for (const IssuedInstruction& issued : order) {
    const auto [it, fresh] = place_names.try_emplace({issued.instruction, issued.phase});
    if (fresh) {
      it->second =
          fmt::format("{}{}\n{}", prefix, phase_name(issued.phase), full_name(*issued.instruction));
    }
    place_name_at.push_back(&it->second);
  }
}

void Executor::Impl::announce(std::size_t place) {
  const IssuedInstruction& issued = order[place];
  const Opcode opcode = issued.instruction->opcode;
  if (activity != nullptr) {
    const bool waits = opcode == Opcode::wait || opcode == Opcode::free;
    activity->instruction(*place_name_at[place], issued.micro_batch, waits);
  }
  if (fault != nullptr) {
    fault->at(input.step, phase_name(issued.phase));
    if (opcode == Opcode::collective || opcode == Opcode::send || opcode == Opcode::recv) {
      fault->at(input.step, "collective");
    }
  }
}

int Executor::Impl::add_event(const IssuedInstruction& issued) {
  timeline.events.push_back({.device = devices[communicator.rank()],
                             .lane = issued.instruction->lane,
                             .name = event_name(*stage, *issued.instruction, graph),
                             .phase = std::string(phase_name(issued.phase)),
                             .micro_batch = issued.micro_batch});
  return static_cast<int>(timeline.events.size()) - 1;
}

void Executor::Impl::close_event(int event, Clock::time_point begin, Clock::time_point end) {
  Event& e = timeline.events[event];
  const double slow_down = emulated == nullptr ? 1 : emulated->slow_down();
  e.start_s = seconds(begin - step_begin) / slow_down;
  e.end_s = seconds(end - step_begin) / slow_down;
  e.memory_bytes = memory_count().current_bytes;
}

Clock::time_point Executor::Impl::device_time() const {
  if (emulated == nullptr) {
    return Clock::now();
  }
  const std::chrono::duration<double> clock(emulated->clock_s());
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(clock));
}

void Executor::Impl::dispatch(const IssuedInstruction& issued) {
  switch (issued.instruction->opcode) {
    case Opcode::collective:
      return start_collective(issued);
    case Opcode::send:
      return start_send(issued);
    case Opcode::recv:
      return start_receive(issued);
    case Opcode::wait:
      return run_wait(issued);
    case Opcode::free:
      return run_free(issued);
    default:
      break;
  }
  const int event = options.timeline ? add_event(issued) : -1;
  const auto begin = device_time();
  if (emulated == nullptr) {
    run_local(issued);
  } else {
    const double before_s = cpu_s();
    run_local(issued);
    emulated->computed(place_of(issued), cpu_s() - before_s);
  }
  if (event >= 0) {
    close_event(event, begin, device_time());
  }
}

void Executor::Impl::run_local(const IssuedInstruction& issued) {
  switch (issued.instruction->opcode) {
    case Opcode::input:
      return run_input(issued);
    case Opcode::compute:
      return run_compute(issued);
    case Opcode::slice:
      return run_slice(issued);
    case Opcode::accumulate:
      return run_accumulate(issued);
    default:
      WEFT_CHECK(issued.instruction->opcode == Opcode::copy);
      run_copy(issued);
  }
}

Executor::Executor(const ExecutorSpec& spec, Communicator& communicator)
    : impl_(std::make_unique<Impl>(spec, communicator)) {
}

Executor::~Executor() = default;

bool Executor::reports_loss() const {
  const StageProgram& with_loss = impl_->program.stages[impl_->program.loss_stage];
  return impl_->program.loss_slot >= 0 &&
         with_loss.mesh.devices.front() == impl_->devices[impl_->communicator.rank()];
}

std::vector<LocalTensor> Executor::stored() const {
  std::vector<LocalTensor> result;
  for (std::size_t slot = 0; slot < impl_->stage->slots.size(); ++slot) {
    const Slot& s = impl_->stage->slots[slot];
    if (s.lifetime == Lifetime::persistent && s.view_of < 0) {
      const auto id = static_cast<SlotId>(slot);
      result.push_back(impl_->describe_part(id, impl_->state(id, -1).tensor));
    }
  }
  return result;
}

StepResult Executor::run_step(const StepInput& input, const StepOptions& options) {
  const c10::InferenceMode guard;
  Impl& x = *impl_;
  x.input = input;
  x.options = options;
  x.timeline = {};
  WEFT_CHECK(input.batch != nullptr);
  require(input.batch->samples == samples_in(x.program, -1),
          "the data gives {} samples for a step of {}", input.batch->samples,
          samples_in(x.program, -1));
  reset_memory_peak();
  x.step_begin = Clock::now();
  if (x.emulated != nullptr) {
    x.emulated->begin_step();
  }
  const int rank = x.communicator.rank();
  if (x.activity != nullptr) {
    x.activity->begin_step(input.step);
  }
  for (std::size_t place = 0; place < x.order.size(); ++place) {
    const IssuedInstruction& issued = x.order[place];
    with_context(
        rank, [&] { return x.describe(issued); },
        [&] {
          x.announce(place);
          x.dispatch(issued);
        });
  }
  StepResult result;
  if (x.stage_index == x.program.loss_stage && x.program.loss_slot >= 0) {
    result.loss = x.read(x.program.loss_slot, -1).item<double>();
  }
  with_context(
      rank, [&] { return fmt::format("end of step {}", input.step); },
      [&] {
        if (x.activity != nullptr) {
          x.activity->instruction("end\nwhat is still under way", -1, true);
        }
        if (x.fault != nullptr) {
          x.fault->at(input.step, "end");
        }
        x.clear_step();
      });
  if (x.emulated != nullptr) {
    result.lag_s = x.emulated->end_step() / x.emulated->slow_down();
  }
  result.seconds =
      seconds(Clock::now() - x.step_begin) / (x.emulated == nullptr ? 1 : x.emulated->slow_down());
  result.peak_memory_bytes = memory_count().peak_bytes;
  std::ranges::stable_sort(x.timeline.events, {}, &Event::start_s);
  result.timeline = std::move(x.timeline);
  result.timeline.step_s = result.seconds;
  return result;
}

}  // namespace weft
