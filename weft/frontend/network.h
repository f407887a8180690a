#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "weft/ops/builder.h"
#include "weft/store/stored_part.h"

namespace weft {

/// How a layer's weights are split when it is spread over devices: outputs (column), inputs (row;
/// its result is a sum over devices), rows of a vocabulary (as column, in any number of parts), or
/// not at all.
enum class Parallel { none, column, row, vocabulary };

struct LinearOptions {
  std::int64_t to = 0;  // features of the result
  bool bias = true;
  Parallel parallel = Parallel::none;
  double std_dev = 0.02;
};

struct AttentionOptions {
  bool causal = false;
  double scale = 0;  // 0: 1/sqrt(features of a head)
  double dropout = 0;
  std::int64_t window = 0;  // 0: none
};

struct PoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

struct ConvOptions {
  std::int64_t to = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t groups = 1;
  bool bias = false;
  Parallel parallel = Parallel::none;  // column or row
};

/// Writes a model layer by layer: nodes, parameters, and where each parameter lies in files of
/// weights. All families are written with it, and so is a model of a user's own:
///
///   Network net(graph, ops, DType::f32);
///   ValueId x = net.tokens(128);
///   net.layer("embed");
///   x = net.embedding(x, "wte", 50257, 768);
///   …
///
/// A name such as "attn.q" in layer "h.0" makes node "h.0/attn.q", parameters
/// "h.0/attn.q.weight" and "h.0/attn.q.bias", and stored tensors "<prefix>attn.q.weight", ….
class Network {
 public:
  Network(Graph& graph, const OpTable& ops, DType dtype) : build_(graph, ops), dtype_(dtype) {}

  // ---- where we are
  /// What follows belongs to this layer; its stored names begin with `prefix` ("model.layers.0.").
  void layer(const std::string& name, std::string prefix);
  /// The same with the prefix "<name>.".
  void layer(const std::string& name) { layer(name, name + "."); }
  [[nodiscard]] Builder& build() { return build_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape(ValueId value) const { return build_.type(value).shape; }
  /// The last dim.
  [[nodiscard]] std::int64_t features(ValueId value) const;

  // ---- inputs
  ValueId tokens(std::int64_t sequence) { return ids("tokens", {kBatch, sequence}); }
  ValueId ids(const std::string& name, Shape shape);
  /// Floating samples, such as images [B,h,w,c].
  ValueId samples(const std::string& name, Shape shape);

  // ---- parameters
  /// A parameter that is one tensor of the files, of the same shape and name.
  ValueId parameter(const std::string& name, Shape shape, Init init, bool trained = true);
  /// A parameter of which `store` below says where it lies.
  ValueId unstored(const std::string& name, Shape shape, Init init, bool trained = true);
  void store(StoredPart part) { stored_.push_back(std::move(part)); }
  [[nodiscard]] std::vector<StoredPart> take_stored() { return std::move(stored_); }
  /// Tensors of the files that count steps (Model::stored_counts).
  [[nodiscard]] std::vector<std::string> take_stored_counts() { return std::move(counts_); }
  [[nodiscard]] const std::string& prefix() const { return prefix_; }
  /// The name of a parameter of this layer.
  [[nodiscard]] std::string path(const std::string& name) const;

  // ---- layers; each is named by its last part of a path
  ValueId embedding(ValueId ids, const std::string& name, std::int64_t rows, std::int64_t features,
                    double std_dev = 0.02);
  /// Rows of a vocabulary's table that exists already.
  ValueId lookup(ValueId table, ValueId tokens, const std::string& name);
  ValueId linear(ValueId x, const std::string& name, const LinearOptions& options);
  /// With a weight (and bias) that exist already. A bias behind split inputs is added after the
  /// sum.
  ValueId linear_with(ValueId x, ValueId weight, ValueId bias, const std::string& name,
                      Parallel parallel);
  ValueId layer_norm(ValueId x, const std::string& name, double eps = 1e-5);
  ValueId rms_norm(ValueId x, const std::string& name, double eps = 1e-6);
  /// Adds a table of positions to [B,s,h]: rows `begin` … of a parameter with `positions` rows.
  ValueId add_positions(ValueId x, const std::string& name, std::int64_t positions,
                        std::int64_t begin = 0);
  /// q[B,s,h,d], k[B,t,g,d], v[B,t,g,e] -> [B,s,h,e]; `bias` [n,h,s,t] or -1.
  ValueId attention(ValueId q, ValueId k, ValueId v, ValueId bias, const std::string& name,
                    const AttentionOptions& options);
  /// gelu | gelu_tanh | relu | silu | tanh | …
  ValueId activation(ValueId x, std::string_view function, const std::string& name);
  ValueId dropout(ValueId x, double p, const std::string& name);
  ValueId conv(ValueId x, const std::string& name, const ConvOptions& options);
  ValueId max_pool(ValueId x, const std::string& name, const PoolOptions& options);
  ValueId group_norm(ValueId x, const std::string& name, std::int64_t groups, double eps = 1e-5);
  /// With running statistics, as PyTorch's.
  ValueId batch_norm(ValueId x, const std::string& name, double eps = 1e-5, double momentum = 0.1);

  // ---- plain ops
  ValueId add(ValueId a, ValueId b, const std::string& name);
  ValueId mul(ValueId a, ValueId b, const std::string& name);
  ValueId reshape(ValueId x, const Shape& shape, const std::string& name);
  ValueId transpose(ValueId x, Ints perm, const std::string& name);
  /// Broadcasts as numpy does.
  ValueId expand(ValueId x, const Shape& shape, const std::string& name);
  ValueId concat(std::vector<ValueId> parts, std::int64_t dim, const std::string& name);
  /// Over dims that are not batched; they vanish.
  ValueId mean(ValueId x, Ints dims, const std::string& name);
  /// Rows [begin, begin + count) of a matrix; the matrix itself if these are all.
  ValueId rows(ValueId x, std::int64_t begin, std::int64_t count, const std::string& name);
  /// "B,16,64" -> "B,16,heads,d"
  ValueId split_heads(ValueId x, std::int64_t heads, const std::string& name);
  ValueId join_heads(ValueId x, const std::string& name);

  // ---- losses; each makes the inputs it needs
  /// Mean over labels that are not ignored, of the whole step. Input "labels" has the shape of the
  /// logits without the last dim.
  ValueId cross_entropy(ValueId logits);
  /// Mean of the squares over the whole step. Input "targets" has the shape of `x`.
  ValueId squared_error(ValueId x);
  /// The input "sample_share": this micro-batch's share of the step.
  ValueId sample_share();

 private:
  ValueId running(const std::string& name, const Shape& shape, Init init);

  ValueId share_ = -1;
  Builder build_;
  DType dtype_;
  std::string layer_;
  std::string prefix_;
  std::vector<StoredPart> stored_;
  std::vector<std::string> counts_;
};

}  // namespace weft
