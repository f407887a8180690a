// Which bytes go where in a collective, and the buffers it needs. The communicator allocates
// exactly these: formula and allocation both follow `exchange_of` and `is_one_run`.
//
//   all_reduce      none: tensors are added where they lie, through windows of the communicator,
//                   which are no tensor memory. For a log sum exp, what all members have
//   others          pieces that are one run of memory are sent from the read tensor and received
//                   into the written one; the rest is packed into a buffer of its size. A
//                   reduce_scatter adds its own part too from one run.
#include <algorithm>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/program/memory.h"

namespace weft {
namespace {

std::int64_t box_bytes(const TensorType& type, const Region& box) {
  return TensorType{.shape = region_shape(box), .dtype = type.dtype}.bytes();
}

std::int64_t packed_bytes(const TensorType& type, const Region& box) {
  return is_one_run(type.shape, box) ? 0 : box_bytes(type, box);
}

// The same for a cut along one dim, which is one run unless there is more than one row before it.
class PackedCuts {
 public:
  PackedCuts(const TensorType& type, int dim) : length_(dim < 0 ? 0 : type.size(dim)) {
    std::int64_t rows = 1;
    for (int d = 0; d < dim; ++d) {
      rows *= type.size(d);
    }
    packs_ = rows > 1 && length_ > 0;
    slice_bytes_ = packs_ ? type.bytes() / length_ : 0;
  }
  [[nodiscard]] std::int64_t bytes(const Range& range) const {
    return packs_ && range.size() < length_ ? slice_bytes_ * range.size() : 0;
  }

 private:
  std::int64_t length_;
  bool packs_ = false;
  std::int64_t slice_bytes_ = 0;
};

std::int64_t exchange_workspace(const Exchange& exchange) {
  const bool adds = exchange.recv_dim < 0;
  const PackedCuts sent(exchange.read, exchange.send_dim);
  const PackedCuts received(exchange.write, exchange.recv_dim);
  std::int64_t bytes = 0;
  for (int m = 0; m < static_cast<int>(exchange.send.size()); ++m) {
    bytes += m != exchange.self || adds ? sent.bytes(exchange.send[m]) : 0;
    bytes += m != exchange.self && !adds ? received.bytes(exchange.recv[m]) : 0;
  }
  return bytes;
}

// Ranges that follow each other, with the sizes that the members' slots have along `dim`.
std::vector<Range> member_ranges(const StageProgram& stage, SlotId slot, Coordinates at, int axis,
                                 int dim, std::int64_t samples) {
  const Slot& s = stage.slots[slot];
  const std::int64_t length = bind(s.type.shape, samples)[dim].size;
  const int members = stage.mesh.axes[axis].size;
  std::vector<Range> ranges;
  ranges.reserve(members);
  std::int64_t begin = 0;
  for (int m = 0; m < members; ++m) {
    at[axis] = m;
    const std::int64_t size = range_along(dim, length, s.placements, stage.mesh, at).size();
    ranges.push_back({.begin = begin, .end = begin + size});
    begin += size;
  }
  return ranges;
}

Region relative(const Region& box, const Region& local) {
  Region result = box;
  for (std::size_t d = 0; d < result.size(); ++d) {
    result[d].begin -= local[d].begin;
    result[d].end -= local[d].begin;
  }
  return result;
}

DeviceId device_at(const Mesh& mesh, const Coordinates& at) {
  return mesh.devices[position(mesh, at)];
}

// How a mesh splits a dim: along axes of these sizes, in these parts.
std::vector<std::pair<int, Placement>> splits_of(const StageProgram& stage, const Slot& slot,
                                                 int dim) {
  std::vector<std::pair<int, Placement>> splits;
  for (std::size_t a = 0; a < slot.placements.size(); ++a) {
    if (slot.placements[a].kind == Placement::Kind::shard && slot.placements[a].dim == dim) {
      splits.emplace_back(stage.mesh.axes[a].size, slot.placements[a]);
    }
  }
  return splits;
}

// Both ends split all dims but the first alike: pieces are rows of what a device has, which lie one
// behind the other.
bool cuts_rows_only(const Program& program, const Edge& edge) {
  const StageProgram& from = program.stages[edge.from_stage];
  const StageProgram& to = program.stages[edge.to_stage];
  const Slot& sent = from.slots[edge.from_slot];
  const Slot& received = to.slots[edge.to_slot];
  for (int dim = 1; dim < sent.type.rank(); ++dim) {
    if (splits_of(from, sent, dim) != splits_of(to, received, dim)) {
      return false;
    }
  }
  return true;
}

// Members exchange rows of what they have.
bool cuts_rows_only(const Instruction& collective) {
  const bool gathers = collective.collective == CollectiveKind::all_gather;
  const bool scatters = collective.collective == CollectiveKind::reduce_scatter;
  return (gathers || collective.to.dim == 0) && (scatters || collective.from.dim == 0);
}

std::vector<LocalPiece> local_pieces(const Program& program, int edge_index, const Coordinates& at,
                                     std::int64_t samples, bool sending) {
  const Edge& edge = program.edges[edge_index];
  const StageProgram& from = program.stages[edge.from_stage];
  const StageProgram& to = program.stages[edge.to_stage];
  const Slot& from_slot = from.slots[edge.from_slot];
  const Slot& to_slot = to.slots[edge.to_slot];
  const Shape shape = bind(from_slot.type.shape, samples);
  const StageProgram& mine = sending ? from : to;
  const Region local = region(shape, (sending ? from_slot : to_slot).placements, mine.mesh, at);
  const DeviceId self = device_at(mine.mesh, at);
  std::vector<LocalPiece> result;
  for (const Piece& piece :
       transfer_pieces(shape, from.mesh, from_slot.placements, to.mesh, to_slot.placements)) {
    if ((sending ? piece.from : piece.to) == self) {
      result.push_back(
          {.peer = sending ? piece.to : piece.from, .box = relative(piece.region, local)});
    }
  }
  return result;
}

}  // namespace

Region cut(const TensorType& type, int dim, Range range) {
  Region box;
  for (int d = 0; d < type.rank(); ++d) {
    box.push_back(d == dim ? range : Range{.begin = 0, .end = type.size(d)});
  }
  return box;
}

bool is_one_run(const Shape& bound_shape, const Region& box) {
  int last_cut = -1;  // the last dim of which the box has only a part
  for (int d = 0; d < static_cast<int>(box.size()); ++d) {
    if (box[d].size() == 0) {
      return true;
    }
    if (box[d].size() < bound_shape[d].size) {
      last_cut = d;
    }
  }
  return std::ranges::all_of(box.begin(), box.begin() + std::max(last_cut, 0),
                             [](const Range& range) { return range.size() == 1; });
}

Exchange exchange_of(const StageProgram& stage, const Instruction& instruction, int operand,
                     const Coordinates& at, std::int64_t samples) {
  const SlotId read = instruction.reads[operand];
  const SlotId write = instruction.writes[operand];
  const int axis = instruction.axis;
  Exchange exchange{.read = slot_type(stage, read, at, samples),
                    .write = slot_type(stage, write, at, samples),
                    .self = at[axis]};
  const std::size_t members = stage.mesh.axes[axis].size;
  exchange.send.resize(members);
  exchange.recv.resize(members);
  if (instruction.collective == CollectiveKind::shift) {
    const int dim = instruction.from.dim;
    exchange.send_dim = dim;
    exchange.recv_dim = dim;
    const auto self = static_cast<std::size_t>(exchange.self);
    exchange.send[(self + 1) % members] = {.begin = 0, .end = exchange.read.size(dim)};
    exchange.recv[(self + members - 1) % members] = {.begin = 0, .end = exchange.write.size(dim)};
    return exchange;
  }
  if (instruction.collective != CollectiveKind::all_gather) {
    exchange.send_dim = instruction.to.dim;
    exchange.send = member_ranges(stage, write, at, axis, exchange.send_dim, samples);
    WEFT_CHECK(exchange.send.back().end == exchange.read.size(exchange.send_dim));
  }
  if (instruction.collective != CollectiveKind::reduce_scatter) {
    exchange.recv_dim = instruction.from.dim;
    exchange.recv = member_ranges(stage, read, at, axis, exchange.recv_dim, samples);
    WEFT_CHECK(exchange.recv.back().end == exchange.write.size(exchange.recv_dim));
  }
  return exchange;
}

std::int64_t collective_workspace(const StageProgram& stage, const Instruction& instruction,
                                  const Coordinates& at, std::int64_t samples) {
  if (instruction.axis != kAllDevices && stage.mesh.axes[instruction.axis].size == 1) {
    return 0;
  }
  std::int64_t bytes = 0;
  if (instruction.collective == CollectiveKind::all_reduce) {
    for (const SlotId slot : instruction.reads) {
      bytes += instruction.from.reduction == Reduction::sum
                   ? 0
                   : stage.mesh.axes[instruction.axis].size *
                         slot_type(stage, slot, at, samples).bytes();
    }
    return bytes;
  }
  if (cuts_rows_only(instruction)) {
    return 0;
  }
  for (int i = 0; i < static_cast<int>(instruction.reads.size()); ++i) {
    bytes += exchange_workspace(exchange_of(stage, instruction, i, at, samples));
  }
  return bytes;
}

std::vector<LocalPiece> pieces_to_send(const Program& program, int edge, const Coordinates& at,
                                       std::int64_t samples) {
  return local_pieces(program, edge, at, samples, true);
}

std::vector<LocalPiece> pieces_to_receive(const Program& program, int edge, const Coordinates& at,
                                          std::int64_t samples) {
  return local_pieces(program, edge, at, samples, false);
}

std::int64_t transfer_workspace(const Program& program, const Instruction& instruction,
                                const Coordinates& at, std::int64_t samples) {
  const bool sending = instruction.opcode == Opcode::send;
  const Edge& edge = program.edges[instruction.edge];
  if (cuts_rows_only(program, edge)) {
    return 0;
  }
  const StageProgram& stage = program.stages[sending ? edge.from_stage : edge.to_stage];
  const TensorType type = slot_type(stage, sending ? edge.from_slot : edge.to_slot, at, samples);
  std::int64_t bytes = 0;
  for (const LocalPiece& piece : local_pieces(program, instruction.edge, at, samples, sending)) {
    bytes += packed_bytes(type, piece.box);
  }
  return bytes;
}

}  // namespace weft
