// ResNet and Wide-ResNet: a stem, four stages of residual blocks, the mean over the image, a
// classifier. A basic block has two 3×3 convolutions; a bottleneck 1×1, 3×3, 1×1 with a quarter of
// the features inside (times `width` in a Wide-ResNet; Alpa's widens the 3×3's result alone). Every
// convolution has a batch norm behind it.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/frontend/depths.h"
#include "weft/frontend/family.h"
#include "weft/frontend/hf_config.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct ResNet {
  Ints depths;
  Ints sizes;
  std::int64_t stem = 0;
  double width = 1;
  double widen = 1;
  bool bottleneck = true;
  std::int64_t image = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
};

ResNet parse(Settings& s, const ModelOptions& options) {
  refuse_sequence("resnet", options);
  ResNet m;
  m.depths = read_depths(s);
  m.sizes = s.sizes("sizes", kMaxWidth);
  require(m.depths.size() == m.sizes.size(), "model resnet: {} stages have depths, {} sizes",
          m.depths.size(), m.sizes.size());
  m.stem = s.size("stem", kMaxWidth);
  m.width = s.positive("width");
  require(m.width >= 1.0 / 64 && m.width <= 1024, "model resnet: width={} is not of 1/64 to 1024",
          m.width);
  m.widen = s.positive("widen");
  require(m.widen >= 1 && m.widen <= 1024, "model resnet: widen={} is not of 1 to 1024", m.widen);
  m.bottleneck = s.choice("block", {"bottleneck", "basic"}) == "bottleneck";
  require(m.bottleneck || (m.width == 1 && m.widen == 1),
          "model resnet: width and widen need block=bottleneck");
  m.image = s.size("image", kMaxImage);
  m.channels = s.size("channels", kMaxWidth);
  m.classes = s.size("classes", kMaxVocabulary);
  return m;
}

class ResNetBuilder {
 public:
  ResNetBuilder(const ResNet& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    ValueId x = net_.samples("x", {kBatch, m_.image, m_.image, m_.channels});
    net_.layer("embedder", "resnet.embedder.");
    x = conv_norm(x, "embedder", {.to = m_.stem, .kernel = 7, .stride = 2, .padding = 3});
    x = net_.activation(x, "relu", "embedder.act");
    x = net_.max_pool(x, "pooler", {.kernel = 3, .stride = 2, .padding = 1});
    for (std::size_t stage = 0; stage < m_.depths.size(); ++stage) {
      for (std::int64_t i = 0; i < m_.depths[stage]; ++i) {
        net_.layer(fmt::format("stage{}.{}", stage, i),
                   fmt::format("resnet.encoder.stages.{}.layers.{}.", stage, i));
        x = block(x, m_.sizes[stage], stage > 0 && i == 0 ? 2 : 1);
      }
    }
    net_.layer("head", "");
    x = net_.mean(x, {1, 2}, "pooler");
    const double std_dev = 1.0 / std::sqrt(static_cast<double>(net_.features(x)));
    return net_.cross_entropy(
        net_.linear(x, "classifier.1", {.to = m_.classes, .std_dev = std_dev}));
  }

 private:
  ValueId conv_norm(ValueId x, const std::string& name, const ConvOptions& options) {
    return net_.batch_norm(net_.conv(x, name + ".convolution", options), name + ".normalization");
  }

  ValueId block(ValueId x, std::int64_t to, std::int64_t stride) {
    ValueId y = m_.bottleneck ? bottleneck(x, to, stride) : basic(x, to, stride);
    if (net_.features(x) != to || stride != 1) {
      x = conv_norm(x, "shortcut", {.to = to, .kernel = 1, .stride = stride});
    }
    return net_.activation(net_.add(y, x, "residual"), "relu", "act");
  }

  ValueId basic(ValueId x, std::int64_t to, std::int64_t stride) {
    x = conv_norm(
        x, "layer.0",
        {.to = to, .kernel = 3, .stride = stride, .padding = 1, .parallel = Parallel::column});
    x = net_.activation(x, "relu", "layer.0.act");
    return conv_norm(x, "layer.1",
                     {.to = to, .kernel = 3, .padding = 1, .parallel = Parallel::row});
  }

  ValueId bottleneck(ValueId x, std::int64_t to, std::int64_t stride) {
    const auto inner = static_cast<std::int64_t>(static_cast<double>(to / 4) * m_.width);
    const auto wide = static_cast<std::int64_t>(static_cast<double>(inner) * m_.widen);
    x = conv_norm(x, "layer.0", {.to = inner, .kernel = 1, .parallel = Parallel::column});
    x = net_.activation(x, "relu", "layer.0.act");
    x = conv_norm(
        x, "layer.1",
        {.to = wide, .kernel = 3, .stride = stride, .padding = 1, .parallel = Parallel::row});
    x = net_.activation(x, "relu", "layer.1.act");
    return conv_norm(x, "layer.2", {.to = to, .kernel = 1});
  }

  const ResNet& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const ResNet sizes = parse(settings, options);
  return written<ResNetBuilder>(settings, sizes, options, ops);
}

std::string describe(HfConfig& c, const std::string& /*type*/) {
  c.architectures({"ResNetForImageClassification", "ResNetModel"});
  c.only("downsample_in_first_stage", {false});
  c.only("downsample_in_bottleneck", {false});
  c.only("hidden_act", {"relu"});
  c.ignore({"out_features", "out_indices", "stage_names"});
  const std::string block = c.text("layer_type", "bottleneck");
  return fmt::format("resnet:depths={},sizes={},stem={},block={},image={},channels={},classes={}",
                     c.sizes("depths", "3/4/6/3"), c.sizes("hidden_sizes", "256/512/1024/2048"),
                     c.size({"embedding_size"}, 64), block, c.size({"image_size"}, 224),
                     c.size({"num_channels"}, 3), c.classes());
}

}  // namespace

Family resnet_family() {
  return {
      .name = "resnet",
      .keys = {{"depths", "3/4/6/3", "blocks of each stage"},
               {"sizes", "256/512/1024/2048", "features of each stage"},
               {"stem", "64", "features behind the first convolution"},
               {"width", "1", "factor of the features inside a bottleneck"},
               {"widen", "1", "factor of the features behind a bottleneck's 3x3 convolution alone"},
               {"block", "bottleneck", "bottleneck|basic"},
               {"image", "224", "pixels of a side"},
               {"channels", "3", "numbers of a pixel"},
               {"classes", "1000", "labels there are"}},
      .build = build,
      .hf_types = {"resnet"},
      .describe = describe};
}

}  // namespace weft
