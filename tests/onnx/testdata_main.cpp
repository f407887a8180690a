// Every model of Debian's libonnx-testdata against the outputs that stand beside it. Prints a
// table: passed, unsupported (by op), wrong. Fails if anything is wrong, or fewer pass than did
// before.
#include "weft/kernels/torch_headers.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/onnx/run_graph.h"
#include "weft/base/error.h"
#include "weft/base/file.h"

namespace weft {
namespace {

using onnx_import::FileTensor;
using onnx_import::ModelFile;

constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-5;
constexpr int kNodesThatPass = 770;  // of 932; raise it when more do

struct Verdict {
  enum class Kind { passed, unsupported, wrong } kind = Kind::passed;
  std::string why = {};
};

std::vector<std::string> sorted_entries(const std::filesystem::path& folder) {
  std::vector<std::string> entries;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    entries.push_back(entry.path().string());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<FileTensor> numbered(const std::string& folder, const std::string& stem) {
  std::vector<FileTensor> tensors;
  for (int i = 0;; ++i) {
    const std::string path = fmt::format("{}/{}_{}.pb", folder, stem, i);
    if (!std::filesystem::exists(path)) {
      return tensors;
    }
    tensors.push_back(onnx_import::parse_tensor(read_file(path), path));
  }
}

/// The file's inputs that are no initializers, in order.
std::vector<std::string> input_names(const ModelFile& file) {
  std::set<std::string> given;
  for (const FileTensor& tensor : file.graph.initializers) {
    given.insert(tensor.name);
  }
  std::vector<std::string> names;
  for (const auto& input : file.graph.inputs) {
    if (!given.contains(input.name)) {
      names.push_back(input.name);
    }
  }
  return names;
}

/// ONNX does not say how numbers are rounded to 16 bits: one unit in the last place may differ.
double tolerance(onnx_import::Element element) {
  return element == onnx_import::Element::bf16 ? 1.0 / 128 : kRelative;
}

bool close(const at::Tensor& actual, const at::Tensor& expected, double relative,
           std::string& why) {
  if (actual.sizes() != expected.sizes()) {
    why = fmt::format("shape [{}], not [{}]", fmt::join(actual.sizes(), ","),
                      fmt::join(expected.sizes(), ","));
    return false;
  }
  const at::Tensor a = actual.to(at::kDouble);
  const at::Tensor e = expected.to(at::kDouble);
  if (at::allclose(a, e, relative, kAbsolute, true)) {
    return true;
  }
  why = fmt::format("largest difference {:.3g}", (a - e).abs().max().item<double>());
  return false;
}

/// Imports with as many inputs as possible left to run time.
OnnxModel import_with(const ModelFile& file, const std::vector<std::string>& names,
                      const std::vector<FileTensor>& inputs, const OpTable& ops,
                      OnnxOptions& options, OnnxRefusal& refusal) {
  for (int attempt = 0;; ++attempt) {
    refusal = {};
    OnnxModel model = import_onnx(file, options, ops, refusal);
    const std::size_t before = options.constants.size();
    for (std::size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
      const bool named = refusal.must_be_constant.contains(names[i]);
      const bool derived = refusal.must_be_constant.contains("") &&
                           (attempt > 1 || !onnx_import::is_real(inputs[i].element));
      if (named || derived) {
        options.constants[names[i]] = onnx_import::decode(inputs[i]);
      }
    }
    if (refusal.empty() || (options.constants.size() == before && attempt > 1)) {
      return model;
    }
  }
}

// Debian's files of bfloat16 numbers call them uint16.
void call_by_declared_types(std::vector<FileTensor>& tensors,
                            const std::vector<onnx_import::FileValue>& declared) {
  for (std::size_t i = 0; i < tensors.size() && i < declared.size(); ++i) {
    if (declared[i].element == onnx_import::Element::bf16 &&
        tensors[i].element == onnx_import::Element::u16) {
      tensors[i].element = onnx_import::Element::bf16;
    }
  }
}

bool draws_numbers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& n) { return n.op == "dropout"; });
}

Verdict run_set(const ModelFile& file, const std::string& folder, const OpTable& ops) {
  std::vector<FileTensor> inputs = numbered(folder, "input");
  std::vector<FileTensor> expected = numbered(folder, "output");
  call_by_declared_types(inputs, file.graph.inputs);
  call_by_declared_types(expected, file.graph.outputs);
  const std::vector<std::string> names = input_names(file);
  OnnxOptions options;
  options.for_training = false;
  for (std::size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
    options.sizes[names[i]] = inputs[i].dims;
  }
  OnnxRefusal refusal;
  const OnnxModel model = import_with(file, names, inputs, ops, options, refusal);
  if (!refusal.empty()) {
    return {Verdict::Kind::unsupported, refusal.nodes.begin()->first};
  }
  if (draws_numbers(model.forward)) {
    return {Verdict::Kind::unsupported, "Dropout: random numbers of another generator"};
  }
  std::map<std::string, at::Tensor> tensors;
  for (std::size_t i = 0; i < names.size() && i < inputs.size(); ++i) {
    const bool fed = std::ranges::any_of(model.forward.values, [&](const Value& value) {
      return value.kind == ValueKind::input && value.name == names[i];
    });
    if (fed) {
      tensors[names[i]] = tensor_of(inputs[i]);
    }
  }
  const std::vector<at::Tensor> outputs = run_forward(model, ops, tensors);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::string why;
    const auto want = onnx_import::decode(expected[i]);
    if (i >= outputs.size() || !close(outputs[i], tensor_of(want), tolerance(want.element), why)) {
      return {Verdict::Kind::wrong, fmt::format("output {}: {}", i, why)};
    }
  }
  return {};
}

Verdict run_model(const std::string& folder, const OpTable& ops) {
  ModelFile file;
  try {
    file = onnx_import::parse_model(read_file(folder + "/model.onnx"), folder, "model.onnx");
    for (const std::string& entry : sorted_entries(folder)) {
      if (std::filesystem::is_directory(entry)) {
        const Verdict verdict = run_set(file, entry, ops);
        if (verdict.kind != Verdict::Kind::passed) {
          return verdict;
        }
      }
    }
  } catch (const Error& error) {
    return {error.blame() == Blame::input ? Verdict::Kind::unsupported : Verdict::Kind::wrong,
            error.what()};
  } catch (const std::exception& error) {
    return {Verdict::Kind::wrong, std::string(error.what()).substr(0, 300)};
  }
  return {};
}

struct Suite {
  int passed = 0;
  int unsupported = 0;
  int wrong = 0;
};

Suite run_suite(const std::string& folder, bool verbose, std::map<std::string, int>& by_reason) {
  const OpTable ops = builtin_ops();
  Suite suite;
  for (const std::string& model : sorted_entries(folder)) {
    const Verdict verdict = run_model(model, ops);
    const std::string name = std::filesystem::path(model).filename().string();
    switch (verdict.kind) {
      case Verdict::Kind::passed:
        ++suite.passed;
        break;
      case Verdict::Kind::unsupported:
        ++suite.unsupported;
        ++by_reason[verdict.why.substr(0, 100)];
        if (verbose) {
          fmt::print("unsupported {}: {}\n", name, verdict.why);
        }
        break;
      case Verdict::Kind::wrong:
        ++suite.wrong;
        fmt::print("WRONG {}: {}\n", name, verdict.why);
        break;
    }
  }
  return suite;
}

int run(const std::string& root, bool verbose) {
  if (!std::filesystem::is_directory(root)) {
    fmt::print("skipped: there is no {} (Debian package libonnx-testdata)\n", root);
    return 0;
  }
  at::set_num_threads(1);
  std::map<std::string, int> by_reason;
  bool good = true;
  std::string table =
      fmt::format("{:<20}{:>8}{:>13}{:>7}\n", "models", "passed", "unsupported", "wrong");
  for (const char* name : {"node", "pytorch-converted", "pytorch-operator", "simple"}) {
    const Suite suite = run_suite(root + "/" + name, verbose, by_reason);
    table +=
        fmt::format("{:<20}{:>8}{:>13}{:>7}\n", name, suite.passed, suite.unsupported, suite.wrong);
    good = good && suite.wrong == 0;
    if (std::string_view(name) == "node" && suite.passed < kNodesThatPass) {
      fmt::print("only {} of the node tests pass, {} did\n", suite.passed, kNodesThatPass);
      good = false;
    }
  }
  fmt::print("\nunsupported, by reason:\n");
  for (const auto& [reason, count] : by_reason) {
    fmt::print("{:>5}  {}\n", count, reason);
  }
  fmt::print("\n{}", table);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const std::string root = argc > 1 ? argv[1] : "/usr/share/libonnx-testdata/data";
  return weft::run(root, argc > 2);
}
