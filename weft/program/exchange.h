#pragma once

#include <vector>

#include "weft/program/program.h"

namespace weft {

/// What one member of a group sends to and receives from every member when a tensor changes its
/// placement on one axis by all_gather, reduce_scatter, all_to_all or shift. Pieces are cuts along
/// one dim of the read or written local tensor.
struct Exchange {
  TensorType read;
  TensorType write;
  int self = 0;       // place in the group
  int send_dim = -1;  // of `read`; -1: all of it goes to everybody (all_gather)
  int recv_dim = -1;  // of `write`; -1: each member's part has its whole shape and they are added
                      // (reduce_scatter)
  std::vector<Range> send = {};  // by member, along send_dim
  std::vector<Range> recv = {};  // by member, along recv_dim
};

/// `operand` counts within the bucket. The sizes of all members follow from the slots' placements.
[[nodiscard]] Exchange exchange_of(const StageProgram& stage, const Instruction& instruction,
                                   int operand, const Coordinates& at, std::int64_t samples);

/// Whether a box of a contiguous tensor is one run of memory, so that it is sent or received where
/// it lies.
[[nodiscard]] bool is_one_run(const Shape& bound_shape, const Region& box);
/// The box of a cut along one dim; all of the tensor for dim -1.
[[nodiscard]] Region cut(const TensorType& type, int dim, Range range);

/// The pieces of an edge that the device sends or receives, in the order in which both ends post
/// them. Regions are relative to the device's local tensor.
struct LocalPiece {
  DeviceId peer = 0;
  Region box;
};
[[nodiscard]] std::vector<LocalPiece> pieces_to_send(const Program& program, int edge,
                                                     const Coordinates& at, std::int64_t samples);
[[nodiscard]] std::vector<LocalPiece> pieces_to_receive(const Program& program, int edge,
                                                        const Coordinates& at,
                                                        std::int64_t samples);

/// Bytes of the buffers for those pieces of a `send` or `recv` that are not one run of memory. Held
/// from its issue to the free (send) or the wait (recv).
[[nodiscard]] std::int64_t transfer_workspace(const Program& program,
                                              const Instruction& instruction, const Coordinates& at,
                                              std::int64_t samples);

}  // namespace weft
