// Placement changes as tensor traffic. Which pieces go where stands in program/exchange.h; this
// file finds them in memory. A piece that is one run of memory is sent and received where it lies,
// another one goes through a packed buffer.
#include "weft/kernels/torch_headers.h"

#include "weft/runtime/collectives.h"

#include <map>

#include "weft/base/error.h"
#include "weft/program/exchange.h"
#include "weft/runtime/communicator.h"
#include "weft/runtime/dtypes.h"

namespace weft {
namespace {

using Tensors = std::vector<at::Tensor>;

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

class AllReduce final : public Collective {
 public:
  AllReduce(int group, Tensors reads, Tensors writes)
      : group_(group), reads_(std::move(reads)), writes_(std::move(writes)) {
    std::map<c10::ScalarType, std::vector<std::size_t>> by_dtype;
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      by_dtype[added_as(reads_[i])].push_back(i);
    }
    for (const auto& [dtype, operands] : by_dtype) {
      const bool in_place = operands.size() == 1 && reads_[operands[0]].scalar_type() == dtype;
      std::int64_t elements = 0;
      for (const std::size_t i : operands) {
        elements += reads_[i].numel();
      }
      buckets_.push_back(
          {.operands = operands,
           .flat = in_place ? at::Tensor() : at::empty({elements}, at::TensorOptions(dtype))});
    }
  }

  void run(Communicator& communicator) override {
    for (const Bucket& bucket : buckets_) {
      if (!bucket.flat.defined()) {
        const std::size_t i = bucket.operands[0];
        copy_unless_there(writes_[i], reads_[i]);
        communicator.all_reduce(group_, writes_[i]);
        continue;
      }
      for_each_part(bucket, [&](const at::Tensor& part, std::size_t i) { part.copy_(reads_[i]); });
      communicator.all_reduce(group_, bucket.flat);
      for_each_part(bucket, [&](const at::Tensor& part, std::size_t i) { writes_[i].copy_(part); });
    }
  }

 private:
  struct Bucket {
    std::vector<std::size_t> operands;
    at::Tensor flat;  // undefined: a single tensor, reduced where it lies
  };

  static c10::ScalarType added_as(const at::Tensor& tensor) {
    const c10::ScalarType dtype = tensor.scalar_type();
    const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
    return half ? at::kFloat : dtype;
  }

  template <typename Function>
  void for_each_part(const Bucket& bucket, const Function& function) {
    std::int64_t begin = 0;
    for (const std::size_t i : bucket.operands) {
      const std::int64_t n = reads_[i].numel();
      function(bucket.flat.narrow(0, begin, n).view(reads_[i].sizes()), i);
      begin += n;
    }
  }

  int group_;
  Tensors reads_;
  Tensors writes_;
  std::vector<Bucket> buckets_;
};

// all_gather, reduce_scatter, all_to_all.
class Exchanged final : public Collective {
 public:
  Exchanged(const CollectiveSite& site, Tensors reads, Tensors writes)
      : group_(site.group),
        members_(site.stage.mesh.axes[site.instruction.axis].size),
        send_(members_),
        recv_(members_) {
    for (std::size_t i = 0; i < reads.size(); ++i) {
      operands_.push_back({.exchange = exchange_of(site.stage, site.instruction,
                                                   static_cast<int>(i), site.at, site.samples),
                           .read = std::move(reads[i]),
                           .write = std::move(writes[i])});
      prepare(operands_.back());
    }
  }

  void run(Communicator& communicator) override {
    for (const Copy& copy : pack_) {
      copy.to.copy_(copy.from);
    }
    communicator.exchange(group_, send_, recv_);
    for (const Copy& copy : unpack_) {
      copy.to.copy_(copy.from);
    }
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      finish_own(operands_[i], i);
    }
  }

 private:
  struct Operand {
    Exchange exchange;
    at::Tensor read;
    at::Tensor write;
  };
  struct Copy {
    at::Tensor to;
    at::Tensor from;
  };

  // The piece itself if it is one run, else a buffer, with a note to fill or empty it.
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

  static at::Tensor sent_piece(const Operand& o, int member) {
    return take_box(o.read, cut(o.exchange.read, o.exchange.send_dim, o.exchange.send[member]));
  }
  static at::Tensor received_piece(const Operand& o, int member) {
    return take_box(o.write, cut(o.exchange.write, o.exchange.recv_dim, o.exchange.recv[member]));
  }

  void prepare(const Operand& o) {
    for (int m = 0; m < members_; ++m) {
      at::Tensor out;
      at::Tensor in;
      if (m != o.exchange.self) {
        out = run_or_buffer(sent_piece(o, m), pack_, true);
        in = o.exchange.recv_dim < 0 ? at::empty(o.write.sizes(), o.write.options())
                                     : run_or_buffer(received_piece(o, m), unpack_, false);
      }
      send_[m].push_back(std::move(out));
      recv_[m].push_back(std::move(in));
    }
  }

  void finish_own(const Operand& o, std::size_t index) {
    const at::Tensor own = sent_piece(o, o.exchange.self);
    if (o.exchange.recv_dim >= 0) {
      copy_unless_there(received_piece(o, o.exchange.self), own);
      return;
    }
    // ((part 0 + part 1) + part 2) + …; the sum grows in the buffer of part 0, because the own part
    // may lie in the memory of the result and must stay until its turn.
    if (o.write.numel() == 0) {
      return;
    }
    if (o.exchange.self == 0) {
      copy_unless_there(o.write, own);
      for (int m = 1; m < members_; ++m) {
        o.write.add_(recv_[m][index]);
      }
      return;
    }
    const at::Tensor sum = recv_[0][index];
    for (int m = 1; m < members_; ++m) {
      const at::Tensor part = m == o.exchange.self ? own : recv_[m][index];
      at::Tensor target = m + 1 == members_ ? o.write : sum;
      at::add_out(target, sum, part);
    }
  }

  int group_;
  int members_;
  std::vector<Operand> operands_;
  std::vector<Copy> pack_;
  std::vector<Copy> unpack_;
  std::vector<Tensors> send_;  // by member, operand
  std::vector<Tensors> recv_;
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
  if (i.collective == CollectiveKind::all_reduce) {
    return std::make_unique<AllReduce>(site.group, std::move(reads), std::move(writes));
  }
  WEFT_CHECK(i.axis != kAllDevices && i.collective != CollectiveKind::slice);
  return std::make_unique<Exchanged>(site, std::move(reads), std::move(writes));
}

}  // namespace weft
