// The loss of a model whose file ends with its outputs.
//
//   cross-entropy:NAME   logits [b,c], [b,s,c], or of an image [b,c,h,w]; labels [b], [b,s],
//   [b,h,w] mse:NAME             the mean of (y - targets)^2 sum:NAME             the sum of all
//   elements: for a file that computes its loss itself
//
// A step may run as several micro-batches, whose losses are added up: means are sums times 1 over
// the number of the whole step.
#include "weft/onnx/loss.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/onnx/emit.h"
#include "weft/onnx/importer.h"
#include "weft/ops/cross_entropy.h"
#include "weft/ops/rules.h"

namespace weft::onnx_import {

namespace {

Ints all_dims(int rank) {
  Ints dims;
  for (int d = 0; d < rank; ++d) {
    dims.push_back(d);
  }
  return dims;
}

ValueId cross_entropy(Importer& importer, Operand& output) {
  require(output.rank() >= 2 && output.rank() <= 4 && is_real(output.element),
          "--loss cross-entropy:{}: it is {}, not logits such as [batch, classes]", output.name,
          format_shape(output.shape));
  Builder& b = importer.build();
  const ValueId logits =
      output.rank() == 4 ? importer.channels_last(output) : importer.plain(output);
  Shape shape = b.type(logits).shape;
  importer.model().classes = shape.back().size;
  importer.model().vocabulary = shape.back().size;
  shape.pop_back();
  const ValueId labels = b.input("labels", {shape, DType::i64});
  return ops::cross_entropy(b, logits, labels, importer.inv_count(), "loss");
}

// sample_share / samples of the micro-batch = 1 / samples of the step; the first is what the
// runtime fills in for any number of micro-batches, so the sum is divided by the features of a
// sample here and by the samples through inv_count.
ValueId mean_squares(Importer& importer, Operand& output) {
  require(output.rank() >= 1 && is_real(output.element),
          "--loss mse:{}: it is {}, not a batch of numbers", output.name,
          format_shape(output.shape));
  Builder& b = importer.build();
  const bool image = output.rank() == 4 && output.channels_last >= 0;
  const ValueId y = image ? importer.channels_last(output) : importer.plain(output);
  const TensorType type = b.type(y);
  const ValueId targets = b.input("targets", type);
  const ValueId squares = unary(b, "square", binary(b, "sub", y, targets));
  const ValueId sum = reduce(b, "sum", squares, all_dims(type.rank()), false);
  const DType wide = ops::sum_dtype(type.dtype);
  const auto features = static_cast<double>(bind(type, 1).elements());
  return b.emit("mul",
                {with_number(b, "mul", cast(b, sum, wide), 1 / features), importer.inv_count()});
}

ValueId sum_of(Importer& importer, Operand& output) {
  require(is_real(output.element), "--loss sum:{}: it holds {}", output.name,
          element_name(output.element));
  Builder& b = importer.build();
  const ValueId y = importer.plain(output);
  const DType wide = ops::sum_dtype(b.type(y).dtype);
  return cast(b, reduce(b, "sum", y, all_dims(output.rank()), false), wide);
}

}  // namespace

void append_loss(Importer& importer, const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const std::string name = colon == std::string::npos ? "" : text.substr(colon + 1);
  require(kind == "cross-entropy" || kind == "mse" || kind == "sum",
          "--loss {}: known are cross-entropy:NAME, mse:NAME and sum:NAME, where NAME is an output "
          "of the model",
          text);
  Operand* output = importer.find(name);
  require(output != nullptr, "--loss {}: the model has no output '{}'; its outputs are {}", text,
          name, fmt::join(importer.output_names(), ", "));
  importer.build().graph().loss = kind == "mse"   ? mean_squares(importer, *output)
                                  : kind == "sum" ? sum_of(importer, *output)
                                                  : cross_entropy(importer, *output);
}

}  // namespace weft::onnx_import
