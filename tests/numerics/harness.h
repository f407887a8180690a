#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/numerics/op_case.h"
#include "weft/kernels/run_kernel.h"
#include "weft/ops/op.h"

namespace weft {

using Tensors = std::vector<at::Tensor>;

[[nodiscard]] std::vector<std::int64_t> sizes(const TensorType& type);

/// While it lives ATen has this many threads. Small calls gain nothing from two, and lose much on a
/// busy machine.
class Threads {
 public:
  explicit Threads(int count);
  ~Threads();
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

/// All the lists of op_case.h, batch symbols bound to 4.
[[nodiscard]] std::vector<OpCase> all_cases();
/// "linear f64[4,3] f64[5,3] note": for SCOPED_TRACE.
[[nodiscard]] std::string describe(const OpCase& c);
/// The same case in f32, dtype attributes included.
[[nodiscard]] OpCase in_f32(const OpCase& c);
/// The same case with as many inputs in bf16 as the op takes so; the others, which hold statistics
/// and sums, are f32. Nothing if it takes none.
[[nodiscard]] std::optional<OpCase> in_bf16(const OpTable& ops, const OpCase& c);

/// The call of a case with the outputs that the shape rule gives.
[[nodiscard]] OpCall call_of_case(const OpTable& ops, const OpCase& c);
/// Fixed random inputs: standard normal numbers and integers below int_limit, but where an op needs
/// others (a variance is not negative, a step counts from 1) those.
[[nodiscard]] Tensors inputs_of_case(const OpCase& c);
[[nodiscard]] at::Tensor random_tensor(const TensorType& type, std::uint64_t seed);
/// Random numbers of a kernel that stands alone; regions are left empty, so local is whole.
[[nodiscard]] KernelEnv test_env();

[[nodiscard]] Tensors clones(const Tensors& tensors);
/// Runs on copies, so that in-place ops leave `inputs` alone.
[[nodiscard]] Tensors run_case(const OpTable& ops, const OpCase& c, const Tensors& inputs);

/// The largest difference relative to the largest number of `expected` (but at least to `floor`);
/// infinite if shapes differ.
[[nodiscard]] double relative_error(const at::Tensor& actual, const at::Tensor& expected,
                                    double floor = 1e-3);

/// How many outputs a loss may use: what a kernel gives besides (lse, mean, rstd) serves its
/// gradient only.
[[nodiscard]] std::size_t differentiable_outputs(const OpCall& call, const std::string& op);

/// Inputs that gradients ignore: whole numbers, those of flat functions, and what is no function of
/// parameters (inv_count of nll).
[[nodiscard]] bool has_no_gradient(const OpCase& c, std::size_t input);

/// Ops whose gradient is that of several nodes together, so that only a test of these can check it:
/// batch norm (vision_test.cpp).
[[nodiscard]] bool is_part_of_composition(const std::string& op);

/// A libtorch composition of an op's definition that shares no code with its kernel. Null if there
/// is none.
using Reference = Tensors (*)(const OpCall& call, const Tensors& inputs);
using References = std::map<std::string, Reference>;
void add_generic_references(References& table);
void add_vision_references(References& table);
[[nodiscard]] Reference find_reference(const std::string& op);
void add_attention_references(std::map<std::string, Reference>& table);

/// x with the dropout of test_env(): element i is kept if the i-th random number is at least p.
[[nodiscard]] at::Tensor dropped(const at::Tensor& x, double p);

/// Of the optimizers besides adamw and sgd: references, and inputs that must not be any numbers.
[[nodiscard]] std::map<std::string, Reference> training_references();
void set_training_inputs(const OpCase& c, Tensors& inputs);

}  // namespace weft
