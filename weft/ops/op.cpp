#include "weft/ops/op.h"

#include "weft/ops/all_ops.h"

namespace weft {

OpTable builtin_ops() {
  using Make = OpDef (*)();
  static constexpr Make kMakers[] = {
      ops::linear,
      ops::linear_input_grad,
      ops::linear_weight_grad,
      ops::matmul,
      ops::embedding,
      ops::embedding_weight_grad,
      ops::layer_norm,
      ops::layer_norm_backward,
      ops::softmax,
      ops::softmax_backward,
      ops::attention,
      ops::attention_backward,
      ops::relu,
      ops::relu_backward,
      ops::gelu,
      ops::gelu_backward,
      ops::add,
      ops::mul,
      ops::scale,
      ops::sum_leading,
      ops::reshape,
      ops::transpose,
      ops::split,
      ops::concat,
      ops::cast,
      ops::dropout,
      ops::dropout_backward,
      ops::label_scores,
      ops::label_scores_backward,
      ops::nll,
      ops::nll_backward,
      ops::constant,
      ops::accumulate,
      ops::sum_squares,
      ops::clip_scale,
      ops::adamw,
      ops::sgd,
      ops::arg_max,
      ops::binary,
      ops::binary_backward,
      ops::cumsum,
      ops::expand,
      ops::gather,
      ops::gather_backward,
      ops::gather_elements,
      ops::gather_elements_backward,
      ops::gather_nd,
      ops::gather_nd_backward,
      ops::iota,
      ops::log_softmax,
      ops::log_softmax_backward,
      ops::mask,
      ops::one_hot,
      ops::pad,
      ops::pad_backward,
      ops::reduce,
      ops::reduce_backward,
      ops::roll,
      ops::scatter_elements,
      ops::scatter_nd,
      ops::slice,
      ops::slice_backward,
      ops::top_k,
      ops::trilu,
      ops::unary,
      ops::unary_backward,
      ops::where,

      ops::balance_loss,
      ops::balance_loss_backward,
      ops::moe_combine,
      ops::moe_combine_backward,
      ops::moe_dispatch,
      ops::moe_dispatch_backward,
      ops::moe_route,
      ops::moe_route_backward,
      ops::relative_buckets,
      ops::window_index,
      ops::window_mask,
      ops::avg_pool,
      ops::avg_pool_backward,
      ops::batch_norm,
      ops::batch_norm_grad_sums,
      ops::batch_norm_inference,
      ops::batch_norm_inference_backward,
      ops::batch_norm_input_grad,
      ops::batch_norm_moments,
      ops::batch_norm_sums,
      ops::conv,
      ops::conv_input_grad,
      ops::conv_transpose,
      ops::conv_weight_grad,
      ops::ema,
      ops::group_norm,
      ops::group_norm_backward,
      ops::max_pool,
      ops::max_pool_backward,
      ops::upsample,
      ops::upsample_backward,
      ops::adafactor,
      ops::adafactor_average,
      ops::adafactor_moment,
      ops::adafactor_norm,
      ops::adafactor_row_mean,
      ops::adam,
      ops::lion,
      ops::gated,
      ops::gated_backward,
      ops::rms_norm,
      ops::rms_norm_backward,
      ops::rotary,
  };
  OpTable table;
  for (const Make make : kMakers) {
    OpDef def = make();
    const std::string name = def.name;
    const bool is_new = table.emplace(name, std::move(def)).second;
    WEFT_CHECK(is_new);
  }
  return table;
}

const OpDef& find_op(const OpTable& ops, std::string_view name) {
  const auto it = ops.find(name);
  require(it != ops.end(), "there is no op '{}'; docs/spec/ops.md lists the ops", name);
  return it->second;
}

OpCall call_of(const Graph& graph, const Node& node) {
  OpCall call;
  call.attrs = node.attrs;
  for (const ValueId id : node.inputs) {
    call.inputs.push_back(graph.values.at(static_cast<std::size_t>(id)).type);
  }
  for (const ValueId id : node.outputs) {
    call.outputs.push_back(graph.values.at(static_cast<std::size_t>(id)).type);
  }
  return call;
}

Factors factors_of(const OpTable& ops, const Graph& graph, const Node& node) {
  const OpCall call = call_of(graph, node);
  return lay_out(find_op(ops, node.op).factors(call), call.inputs, call.outputs);
}

}  // namespace weft
