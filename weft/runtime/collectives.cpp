// Placement changes as tensor traffic. Which pieces go where stands in program/exchange.h; this
// file finds them in memory. A piece that is one run of memory is sent, received and added where it
// lies, another one goes through a packed buffer.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/collectives.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/dtypes.h"

namespace weft {
namespace {

using Tensors = Communicator::Tensors;

bool same_memory(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

void copy_unless_there(const at::Tensor& to, const at::Tensor& from) {
  if (to.numel() > 0 && !same_memory(to, from)) {
    to.copy_(from);
  }
}

// An axis with one device: the placement changes in name only.
class LocalCopy final : public Collective {
 public:
  LocalCopy(Tensors reads, Tensors writes) : reads_(std::move(reads)), writes_(std::move(writes)) {}
  void run(Communicator& /*communicator*/) override {
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      copy_unless_there(writes_[i], reads_[i]);
    }
  }

 private:
  Tensors reads_;
  Tensors writes_;
};

// Tensors of one dtype are reduced as if they were one.
class AllReduce final : public Collective {
 public:
  AllReduce(int group, const Tensors& reads, const Tensors& writes) : group_(group) {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      Bucket& bucket = buckets_[reads[i].scalar_type()];
      bucket.reads.push_back(reads[i]);
      bucket.writes.push_back(writes[i]);
    }
  }
  void run(Communicator& communicator) override {
    for (const auto& [dtype, bucket] : buckets_) {
      communicator.all_reduce(group_, bucket.reads, bucket.writes);
    }
  }

 private:
  struct Bucket {
    Tensors reads;
    Tensors writes;
  };
  int group_;
  std::map<c10::ScalarType, Bucket> buckets_;
};

// Everybody gets what all have and reduces it in the order of the members.
class LogSumExp final : public Collective {
 public:
  LogSumExp(const CollectiveSite& site, const Tensors& reads, Tensors writes)
      : group_(site.group), reads_(reads), writes_(std::move(writes)) {
    const int members = site.stage.mesh.axes[site.instruction.axis].size;
    for (const at::Tensor& read : reads_) {
      parts_.emplace_back();
      for (int m = 0; m < members; ++m) {
        parts_.back().push_back(at::empty(read.sizes(), read.options()));
      }
    }
  }
  void run(Communicator& communicator) override {
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      communicator.all_gather(group_, reads_[i], parts_[i]);
      if (reads_[i].scalar_type() == at::kDouble) {
        reduce<double>(parts_[i], writes_[i]);
      } else {
        reduce<float>(parts_[i], writes_[i]);
      }
    }
  }

 private:
  template <typename T>
  static void reduce(const Tensors& parts, const at::Tensor& to) {
    T* const out = to.data_ptr<T>();
    for (std::int64_t i = 0; i < to.numel(); ++i) {
      T top = -std::numeric_limits<T>::infinity();
      for (const at::Tensor& part : parts) {
        top = std::max(top, part.data_ptr<T>()[i]);
      }
      // Members without a part of the terms have -inf, maybe all of this axis.
      const T base = std::isinf(top) && top < 0 ? T(0) : top;
      T sum = 0;
      for (const at::Tensor& part : parts) {
        sum += std::exp(part.data_ptr<T>()[i] - base);
      }
      out[i] = base + std::log(sum);
    }
  }

  int group_;
  Tensors reads_;
  Tensors writes_;
  std::vector<Tensors> parts_;  // by operand, member
};

struct Operand {
  Exchange exchange;
  at::Tensor read;
  at::Tensor write;
};

std::vector<Operand> operands_of(const CollectiveSite& site, Tensors reads, Tensors writes) {
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < reads.size(); ++i) {
    operands.push_back({.exchange = exchange_of(site.stage, site.instruction, static_cast<int>(i),
                                                site.at, site.samples),
                        .read = std::move(reads[i]),
                        .write = std::move(writes[i])});
  }
  return operands;
}

at::Tensor sent_piece(const Operand& o, int member) {
  return take_box(o.read, cut(o.exchange.read, o.exchange.send_dim, o.exchange.send[member]));
}

at::Tensor received_piece(const Operand& o, int member) {
  return take_box(o.write, cut(o.exchange.write, o.exchange.recv_dim, o.exchange.recv[member]));
}

/// Buffers of pieces that are not one run of memory, and the copies from or to them.
class Packing {
 public:
  /// The piece itself if it is one run, else a buffer.
  at::Tensor out(const at::Tensor& piece) { return run_or_buffer(piece, pack_, true); }
  at::Tensor in(const at::Tensor& piece) { return run_or_buffer(piece, unpack_, false); }
  void pack() const { copy_all(pack_); }
  void unpack() const { copy_all(unpack_); }

 private:
  struct Copy {
    at::Tensor to;
    at::Tensor from;
  };
  static at::Tensor run_or_buffer(const at::Tensor& piece, std::vector<Copy>& copies,
                                  bool buffer_is_target) {
    if (piece.is_contiguous()) {
      return piece;
    }
    at::Tensor buffer = at::empty(piece.sizes(), piece.options());
    copies.push_back(buffer_is_target ? Copy{.to = buffer, .from = piece}
                                      : Copy{.to = piece, .from = buffer});
    return buffer;
  }
  static void copy_all(const std::vector<Copy>& copies) {
    for (const Copy& copy : copies) {
      copy.to.copy_(copy.from);
    }
  }
  std::vector<Copy> pack_;
  std::vector<Copy> unpack_;
};

// all_gather, all_to_all, shift.
class Exchanged final : public Collective {
 public:
  Exchanged(const CollectiveSite& site, Tensors reads, Tensors writes)
      : group_(site.group),
        gathers_(site.instruction.collective == CollectiveKind::all_gather),
        operands_(operands_of(site, std::move(reads), std::move(writes))),
        send_(site.stage.mesh.axes[site.instruction.axis].size),
        recv_(send_.size()) {
    for (const Operand& o : operands_) {
      for (int m = 0; m < static_cast<int>(send_.size()); ++m) {
        const bool other = m != o.exchange.self;
        send_[m].push_back(other && !gathers_ ? packing_.out(sent_piece(o, m)) : at::Tensor());
        recv_[m].push_back(other ? packing_.in(received_piece(o, m)) : at::Tensor());
      }
      given_.push_back(o.read);
    }
  }

  void run(Communicator& communicator) override {
    packing_.pack();
    if (gathers_) {
      communicator.all_gather(group_, given_, recv_);
    } else {
      communicator.exchange(group_, send_, recv_);
    }
    packing_.unpack();
    for (const Operand& o : operands_) {
      copy_unless_there(received_piece(o, o.exchange.self), sent_piece(o, o.exchange.self));
    }
  }

 private:
  int group_;
  bool gathers_;
  std::vector<Operand> operands_;
  Packing packing_;
  std::vector<Tensors> send_;  // by member, operand
  std::vector<Tensors> recv_;
  Tensors given_;
};

class ReduceScatter final : public Collective {
 public:
  ReduceScatter(const CollectiveSite& site, Tensors reads, Tensors writes) : group_(site.group) {
    const int members = site.stage.mesh.axes[site.instruction.axis].size;
    for (const Operand& o : operands_of(site, std::move(reads), std::move(writes))) {
      Bucket& bucket = buckets_[o.read.scalar_type()];
      bucket.parts.resize(members);
      for (int m = 0; m < members; ++m) {
        bucket.parts[m].push_back(packing_.out(sent_piece(o, m)));
      }
      bucket.writes.push_back(o.write);
    }
  }
  void run(Communicator& communicator) override {
    packing_.pack();
    for (const auto& [dtype, bucket] : buckets_) {
      communicator.reduce_scatter(group_, bucket.parts, bucket.writes);
    }
  }

 private:
  struct Bucket {
    std::vector<Tensors> parts;  // by member
    Tensors writes;
  };
  int group_;
  Packing packing_;
  std::map<c10::ScalarType, Bucket> buckets_;
};

}  // namespace

at::Tensor take_box(const at::Tensor& tensor, const Region& box) {
  at::Tensor view = tensor;
  for (std::size_t d = 0; d < box.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d);
    if (box[d].size() != tensor.size(dim)) {
      view = view.narrow(dim, box[d].begin, box[d].size());
    }
  }
  return view;
}

std::unique_ptr<Collective> make_collective(const CollectiveSite& site,
                                            std::vector<at::Tensor> reads,
                                            std::vector<at::Tensor> writes) {
  const Instruction& i = site.instruction;
  if (i.axis != kAllDevices && site.stage.mesh.axes[i.axis].size == 1) {
    return std::make_unique<LocalCopy>(std::move(reads), std::move(writes));
  }
  if (i.collective == CollectiveKind::all_reduce && i.from.reduction == Reduction::log_sum_exp) {
    return std::make_unique<LogSumExp>(site, reads, std::move(writes));
  }
  if (i.collective == CollectiveKind::all_reduce) {
    return std::make_unique<AllReduce>(site.group, reads, writes);
  }
  WEFT_CHECK(i.axis != kAllDevices && i.collective != CollectiveKind::slice);
  if (i.collective == CollectiveKind::reduce_scatter) {
    return std::make_unique<ReduceScatter>(site, std::move(reads), std::move(writes));
  }
  return std::make_unique<Exchanged>(site, std::move(reads), std::move(writes));
}

}  // namespace weft
