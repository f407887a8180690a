#pragma once

#include <memory>
#include <span>
#include <vector>

#include "weft/kernels/kernel.h"
#include "weft/ops/op.h"

namespace c10 {
enum class ScalarType : std::int8_t;
}

namespace weft {

[[nodiscard]] c10::ScalarType scalar_type_of(DType dtype);
/// Throws Error{bug} for a type that weft does not have.
[[nodiscard]] DType dtype_of(c10::ScalarType type);

/// A kernel made ready for one call: ATen operators looked up, arguments laid out, and for each
/// step the temporaries that nobody needs after it. Copies share what they hold; one may run on
/// several threads at a time.
class PreparedKernel {
 public:
  struct Impl;
  explicit PreparedKernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The op's own list of ATen calls, else its coded kernel. `call` needs bound types, outputs
/// included. Throws Error{bug} if the op has no kernel or names an ATen operator that does not
/// exist.
[[nodiscard]] PreparedKernel prepare(const OpDef& def, const OpCall& call);

/// Runs it under c10::InferenceMode. Inputs must be contiguous and of the types of the call; the
/// outputs are checked to be. Outputs that alias an input (OpDef::aliases) share its storage. With
/// `out` (see KernelCall) outputs lie where it says: in inputs that the op may overwrite.
/// c10::Error passes through.
[[nodiscard]] std::vector<at::Tensor> run(const PreparedKernel& kernel, const KernelEnv& env,
                                          std::span<const at::Tensor> inputs,
                                          std::span<const at::Tensor> out = {});

/// prepare and run.
[[nodiscard]] std::vector<at::Tensor> run_op(const OpDef& def, const OpCall& call,
                                             const KernelEnv& env,
                                             std::span<const at::Tensor> inputs);

}  // namespace weft
