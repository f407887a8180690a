#include "weft/kernels/torch_headers.h"

#include "tests/onnx/run_graph.h"

#include <cstring>

#include "weft/kernels/run_kernel.h"

namespace weft {

namespace {

at::Tensor from_bytes(const std::string& bytes, const Ints& dims, DType dtype) {
  at::Tensor tensor = at::empty(dims, at::TensorOptions(scalar_type_of(dtype)));
  WEFT_CHECK(static_cast<std::size_t>(tensor.nbytes()) == bytes.size());
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

Ints sizes_of(const Shape& shape) {
  Ints sizes;
  for (const Dim dim : shape) {
    sizes.push_back(dim.size);
  }
  return sizes;
}

}  // namespace

at::Tensor tensor_of(const onnx_import::FileTensor& tensor) {
  return from_bytes(onnx_import::tensor_bytes(tensor), tensor.dims,
                    onnx_import::dtype_of(tensor.element, DType::f32));
}

at::Tensor tensor_of(const onnx_import::Known& known) {
  const bool real = onnx_import::is_real(known.element);
  return from_bytes(onnx_import::encode(known, real ? DType::f64 : DType::i64), known.dims,
                    real ? DType::f64 : DType::i64);
}

std::vector<at::Tensor> run_forward(const OnnxModel& model, const OpTable& ops,
                                    const std::map<std::string, at::Tensor>& inputs) {
  const Graph& graph = model.forward;
  std::vector<at::Tensor> values(graph.values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    const Value& value = graph.values[v];
    if (value.kind == ValueKind::input) {
      values[v] = inputs.at(value.name);
    } else if (value.kind == ValueKind::parameter) {
      values[v] = from_bytes(initial_bytes(model.initial.at(value.name)),
                             sizes_of(value.type.shape), value.type.dtype);
    }
  }
  for (const Node& node : graph.nodes) {
    std::vector<at::Tensor> operands;
    for (const ValueId id : node.inputs) {
      operands.push_back(values[static_cast<std::size_t>(id)]);
    }
    const std::vector<at::Tensor> results =
        run_op(find_op(ops, node.op), call_of(graph, node), KernelEnv{}, operands);
    for (std::size_t i = 0; i < results.size(); ++i) {
      values[static_cast<std::size_t>(node.outputs[i])] = results[i];
    }
  }
  std::vector<at::Tensor> outputs;
  for (const OnnxOutput& output : model.outputs) {
    outputs.push_back(output.value < 0 ? tensor_of(output.known)
                                       : values[static_cast<std::size_t>(output.value)]);
  }
  return outputs;
}

}  // namespace weft
