// Swin transformer: attention inside windows of the image, shifted by half a window in every second
// block so that neighbours meet; four patches become one between stages.
//
// A window is a sample of attention of its own: [B,H,W,c] -> [B·windows, window², c]. Scores get a
// learned number for each head and offset inside a window, and in shifted blocks a mask between
// pixels that were no neighbours before the image was rolled around its border.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/depths.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct Swin {
  std::int64_t image = 0;
  std::int64_t patch = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
  std::int64_t embed = 0;
  Ints depths;
  Ints heads;
  std::int64_t window = 0;
  double mlp_ratio = 4;
  bool qkv_bias = true;
  std::string act;
  double eps = 0;
  double dropout = 0;
  double attn_dropout = 0;
  double drop_path = 0;
};

void check(const Swin& m) {
  require(m.depths.size() == m.heads.size(), "model swin: {} stages have depths, {} heads",
          m.depths.size(), m.heads.size());
  require(m.image % m.patch == 0, "model swin: image={} is not a multiple of patch={}", m.image,
          m.patch);
  std::int64_t side = m.image / m.patch;
  std::int64_t width = m.embed;
  for (std::size_t i = 0; i < m.depths.size(); ++i) {
    const std::int64_t window = std::min(m.window, side);
    require(side % window == 0,
            "model swin: {} patches of stage {} are not a multiple of window={}", side, i, window);
    require(width % m.heads[i] == 0,
            "model swin: {} features of stage {} are not a multiple of {} heads", width, i,
            m.heads[i]);
    require(i + 1 == m.depths.size() || side % 2 == 0,
            "model swin: {} patches of stage {} cannot be halved", side, i);
    side /= 2;
    width *= 2;
  }
}

Swin parse(Settings& s, const ModelOptions& options) {
  refuse_sequence("swin", options);
  Swin m;
  m.image = s.size("image", kMaxImage);
  m.patch = s.size("patch", kMaxImage);
  m.channels = s.size("channels", kMaxWidth);
  m.classes = s.size("classes", kMaxVocabulary);
  m.embed = s.size("embed", kMaxWidth);
  m.depths = read_depths(s);
  m.heads = s.sizes("heads", kMaxWidth);
  m.window = s.size("window", kMaxImage);
  m.mlp_ratio = s.positive("mlp_ratio");
  require(m.mlp_ratio <= 1024, "model swin: mlp_ratio={} is above 1024", m.mlp_ratio);
  m.qkv_bias = s.flag("qkv_bias");
  m.act = s.choice("act", {"gelu", "gelu_tanh", "relu"});
  m.eps = s.small_number("eps");
  m.dropout = s.share("dropout");
  m.attn_dropout = s.share("attn_dropout");
  m.drop_path = s.share("drop_path");
  check(m);
  return m;
}

/// Where a block of attention lies: an image of side × side with `width` features.
struct Place {
  std::int64_t side = 0;
  std::int64_t width = 0;
  std::int64_t heads = 0;
  std::int64_t window = 0;
  std::int64_t shift = 0;
  double drop_path = 0;
};

class SwinBuilder {
 public:
  SwinBuilder(const Swin& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    ValueId x = embed(net_.samples("x", {kBatch, m_.image, m_.image, m_.channels}));
    std::int64_t side = m_.image / m_.patch;
    std::int64_t done = 0;
    std::int64_t all = 0;
    for (const std::int64_t depth : m_.depths) {
      all += depth;
    }
    for (std::size_t stage = 0; stage < m_.depths.size(); ++stage) {
      for (std::int64_t i = 0; i < m_.depths[stage]; ++i, ++done) {
        net_.layer(fmt::format("stage{}.{}", stage, i),
                   fmt::format("swin.encoder.layers.{}.blocks.{}.", stage, i));
        const std::int64_t window = std::min(m_.window, side);
        // Deeper blocks are left out more often.
        const double path = m_.drop_path * static_cast<double>(done) /
                            static_cast<double>(std::max<std::int64_t>(all - 1, 1));
        x = block(x, {.side = side,
                      .width = net_.features(x),
                      .heads = m_.heads[stage],
                      .window = window,
                      .shift = i % 2 == 1 && side > window ? window / 2 : 0,
                      .drop_path = path});
      }
      if (stage + 1 < m_.depths.size()) {
        x = merge(x, stage, side);
        side /= 2;
      }
    }
    return head(x, side);
  }

 private:
  ValueId embed(ValueId image) {
    net_.layer("embeddings", "swin.embeddings.");
    const ValueId x =
        net_.conv(image, "patch_embeddings.projection",
                  {.to = m_.embed, .kernel = m_.patch, .stride = m_.patch, .bias = true});
    return net_.dropout(net_.layer_norm(x, "norm", m_.eps), m_.dropout, "drop");
  }

  ValueId block(ValueId x, const Place& p) {
    ValueId y =
        windows_of(roll(net_.layer_norm(x, "layernorm_before", m_.eps), -p.shift, "roll"), p);
    y = image_of(attention(y, p), p);
    y = drop_path(roll(y, p.shift, "roll_back"), p, "attention.drop_path");
    x = net_.add(x, y, "attention.residual");
    y = net_.layer_norm(x, "layernorm_after", m_.eps);
    const auto inner = static_cast<std::int64_t>(static_cast<double>(p.width) * m_.mlp_ratio);
    y = net_.linear(y, "intermediate.dense", {.to = inner, .parallel = Parallel::column});
    y = net_.activation(y, m_.act, "intermediate.act");
    y = net_.linear(y, "output.dense", {.to = p.width, .parallel = Parallel::row});
    y = drop_path(net_.dropout(y, m_.dropout, "output.drop"), p, "output.drop_path");
    return net_.add(x, y, "output.residual");
  }

  ValueId roll(ValueId x, std::int64_t by, const std::string& name) {
    if (by == 0) {
      return x;
    }
    return net_.build().emit("roll", {x}, {{"dims", Ints{1, 2}}, {"shifts", Ints{by, by}}}, name);
  }

  ValueId windows_of(ValueId x, const Place& p) {
    const std::int64_t n = p.side / p.window;
    x = net_.reshape(x, {kBatch, n, p.window, n, p.window, p.width}, "grid");
    x = net_.transpose(x, {0, 1, 3, 2, 4, 5}, "by_window");
    return net_.reshape(x, {Dim(n * n, true), p.window * p.window, p.width}, "windows");
  }

  ValueId image_of(ValueId x, const Place& p) {
    const std::int64_t n = p.side / p.window;
    x = net_.reshape(x, {kBatch, n, n, p.window, p.window, p.width}, "grid_back");
    x = net_.transpose(x, {0, 1, 3, 2, 4, 5}, "by_row");
    return net_.reshape(x, {kBatch, p.side, p.side, p.width}, "image");
  }

  /// A sample's branch is left out with probability p, else scaled up.
  ValueId drop_path(ValueId x, const Place& p, const std::string& name) {
    if (p.drop_path == 0) {
      return x;
    }
    Builder& b = net_.build();
    const std::string dtype(dtype_name(net_.dtype()));
    ValueId keep = b.emit("constant", {}, {{"value", 1.0}, {"dtype", dtype}}, name + ".one");
    keep = net_.expand(keep, {kBatch, 1, 1, 1}, name + ".samples");
    keep = net_.dropout(keep, p.drop_path, name + ".keep");
    return net_.mul(x, net_.expand(keep, net_.shape(x), name + ".wide"), name);
  }

  /// [1 or windows, heads, s, s]
  ValueId score_bias(const Place& p) {
    Builder& b = net_.build();
    const std::string name = "attention.self.relative_position_bias";
    const std::int64_t s = p.window * p.window;
    const std::int64_t span = 2 * p.window - 1;
    const ValueId table = net_.parameter(name + "_table", {span * span, p.heads},
                                         {.kind = Init::Kind::normal, .std_dev = 0.02});
    const ValueId index = b.emit("window_index", {}, {{"size", p.window}}, name + ".index");
    ValueId bias = b.emit("embedding", {table, index}, {}, name);
    bias = net_.transpose(bias, {2, 0, 1}, name + ".by_head");
    bias = net_.reshape(bias, {1, p.heads, s, s}, name + ".all");
    if (p.shift == 0) {
      return bias;
    }
    const std::int64_t n = p.side / p.window;
    ValueId mask = b.emit("window_mask", {},
                          {{"height", p.side},
                           {"width", p.side},
                           {"window", p.window},
                           {"shift", p.shift},
                           {"dtype", std::string(dtype_name(net_.dtype()))}},
                          "attention.self.mask");
    mask = net_.reshape(mask, {n * n, 1, s, s}, "attention.self.mask.one_head");
    const Shape whole = {n * n, p.heads, s, s};
    return net_.add(net_.expand(bias, whole, name + ".windows"),
                    net_.expand(mask, whole, "attention.self.mask.heads"), name + ".masked");
  }

  ValueId attention(ValueId x, const Place& p) {
    std::vector<ValueId> qkv;
    for (const std::string part : {"query", "key", "value"}) {
      const std::string name = "attention.self." + part;
      const ValueId y =
          net_.linear(x, name, {.to = p.width, .bias = m_.qkv_bias, .parallel = Parallel::column});
      qkv.push_back(net_.split_heads(y, p.heads, name + "_heads"));
    }
    const ValueId out = net_.attention(qkv[0], qkv[1], qkv[2], score_bias(p),
                                       "attention.self.attention", {.dropout = m_.attn_dropout});
    const ValueId y =
        net_.linear(net_.join_heads(out, "attention.self.joined"), "attention.output.dense",
                    {.to = p.width, .parallel = Parallel::row});
    return net_.dropout(y, m_.dropout, "attention.output.drop");
  }

  /// Four neighbours become one patch: rows alternate fastest, as in the published files.
  ValueId merge(ValueId x, std::size_t stage, std::int64_t side) {
    net_.layer(fmt::format("merge.{}", stage),
               fmt::format("swin.encoder.layers.{}.downsample.", stage));
    const std::int64_t width = net_.features(x);
    x = net_.reshape(x, {kBatch, side / 2, 2, side / 2, 2, width}, "pairs");
    x = net_.transpose(x, {0, 1, 3, 4, 2, 5}, "by_place");
    x = net_.reshape(x, {kBatch, side / 2, side / 2, 4 * width}, "merged");
    return net_.linear(net_.layer_norm(x, "norm", m_.eps), "reduction",
                       {.to = 2 * width, .bias = false});
  }

  ValueId head(ValueId x, std::int64_t side) {
    net_.layer("head", "swin.");
    x = net_.layer_norm(x, "layernorm", m_.eps);
    net_.layer("head", "");
    x = net_.reshape(x, {kBatch, side * side, net_.features(x)}, "tokens");
    x = net_.mean(x, {1}, "pooled");
    return net_.cross_entropy(net_.linear(x, "classifier", {.to = m_.classes}));
  }

  const Swin& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Swin sizes = parse(settings, options);
  return written<SwinBuilder>(settings, sizes, options, ops);
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"SwinForImageClassification", "SwinModel"});
  c.only("use_absolute_embeddings", {false});
  c.ignore({"encoder_stride", "hidden_size", "num_layers", "path_norm", "out_features",
            "out_indices", "stage_names"});
  const std::int64_t image = c.size({"image_size"}, 224);
  const std::int64_t patch = c.size({"patch_size"}, 4);
  const std::int64_t channels = c.size({"num_channels"}, 3);
  const std::int64_t embed = c.size({"embed_dim"}, 96);
  const std::int64_t window = c.size({"window_size"}, 7);
  return fmt::format(
      "swin:image={},patch={},channels={},classes={},embed={},depths={},heads={},window={},"
      "mlp_ratio={},qkv_bias={},act={},eps={},dropout={},attn_dropout={},drop_path={}",
      image, patch, channels, c.classes(), embed, c.sizes("depths", "2/2/6/2"),
      c.sizes("num_heads", "3/6/12/24"), window, c.number("mlp_ratio", 4.0),
      c.flag("qkv_bias", true) ? 1 : 0, c.activation("hidden_act", "gelu"),
      c.number("layer_norm_eps", 1e-5), c.number("hidden_dropout_prob", 0.0),
      c.number("attention_probs_dropout_prob", 0.0), c.number("drop_path_rate", 0.1));
}

}  // namespace

Family swin_family() {
  return {.name = "swin",
          .keys = {{"image", "224", "pixels of a side"},
                   {"patch", "4", "pixels of a patch's side"},
                   {"channels", "3", "numbers of a pixel"},
                   {"classes", "1000", "labels there are"},
                   {"embed", "96", "features of a patch in the first stage; they double"},
                   {"depths", "2/2/6/2", "blocks of each stage"},
                   {"heads", "3/6/12/24", "attention heads of each stage"},
                   {"window", "7", "patches of a window's side"},
                   {"mlp_ratio", "4", "features inside the perceptron, over those outside"},
                   {"qkv_bias", "1", "0|1"},
                   {"act", "gelu", "gelu|gelu_tanh|relu"},
                   {"eps", "1e-05", "of norms"},
                   {"dropout", "0", "of embedding and residuals"},
                   {"attn_dropout", "0", "of attention"},
                   {"drop_path", "0", "of the last block's branches (stochastic depth)"}},
          .build = build,
          .hf_types = {"swin"},
          .describe = describe};
}

}  // namespace weft
