// VGG: stages of 3×3 convolutions with a max pool behind each, then three linears. Tensors have
// torchvision's names ("features.0.weight"), where activations and pools count too.
#include <fmt/format.h>

#include <cmath>

#include "weft/base/error.h"
#include "weft/frontend/depths.h"
#include "weft/frontend/family.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

constexpr std::int64_t kSide = 7;  // of the image in front of the classifier

struct Vgg {
  Ints depths;
  Ints sizes;
  bool norm = false;
  std::int64_t image = 0;
  std::int64_t channels = 0;
  std::int64_t classes = 0;
  std::int64_t inner = 0;
  double dropout = 0;
};

Vgg parse(Settings& s, const ModelOptions& options) {
  refuse_sequence("vgg", options);
  Vgg m;
  m.depths = read_depths(s);
  m.sizes = s.sizes("sizes", kMaxWidth);
  require(m.depths.size() == m.sizes.size(), "model vgg: {} stages have depths, {} sizes",
          m.depths.size(), m.sizes.size());
  m.norm = s.flag("norm");
  m.image = s.size("image", kMaxImage);
  require(m.depths.size() <= 14, "model vgg: {} stages are more than 14", m.depths.size());
  const std::int64_t shrink = std::int64_t{1} << m.depths.size();
  require(m.image % shrink == 0, "model vgg: image={} is not a multiple of {}", m.image, shrink);
  const std::int64_t side = m.image / shrink;
  require(side % kSide == 0 || kSide % side == 0,
          "model vgg: image={} leaves {} pixels in front of the classifier, which pools to {}",
          m.image, side, kSide);
  m.channels = s.size("channels", kMaxWidth);
  m.classes = s.size("classes", kMaxVocabulary);
  m.inner = s.size("inner", kMaxWidth);
  m.dropout = s.share("dropout");
  return m;
}

class VggBuilder {
 public:
  VggBuilder(const Vgg& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    ValueId x = net_.samples("x", {kBatch, m_.image, m_.image, m_.channels});
    std::int64_t number = 0;  // in torchvision's list of modules
    for (std::size_t stage = 0; stage < m_.depths.size(); ++stage) {
      net_.layer(fmt::format("stage.{}", stage), "features.");
      for (std::int64_t i = 0; i < m_.depths[stage]; ++i) {
        x = net_.conv(x, fmt::format("{}", number++),
                      {.to = m_.sizes[stage],
                       .kernel = 3,
                       .padding = 1,
                       .bias = true,
                       .parallel = i % 2 == 0 ? Parallel::column : Parallel::row});
        if (m_.norm) {
          x = net_.batch_norm(x, fmt::format("{}", number++));
        }
        x = net_.activation(x, "relu", fmt::format("{}.act", number++));
      }
      x = net_.max_pool(x, fmt::format("{}.pool", number++), {});
    }
    return classify(pooled(x));
  }

 private:
  /// To 7×7, as torchvision's adaptive mean does where sides divide.
  ValueId pooled(ValueId x) {
    net_.layer("head", "");
    const std::int64_t side = net_.shape(x)[1].size;
    const std::int64_t c = net_.features(x);
    if (side > kSide) {
      const std::int64_t k = side / kSide;
      x = net_.reshape(x, {kBatch, kSide, k, kSide, k, c}, "avgpool.windows");
      x = net_.mean(x, {2, 4}, "avgpool");
    } else if (side < kSide) {
      const std::int64_t k = kSide / side;
      x = net_.reshape(x, {kBatch, side, 1, side, 1, c}, "avgpool.pixels");
      x = net_.expand(x, {kBatch, side, k, side, k, c}, "avgpool.copies");
      x = net_.reshape(x, {kBatch, kSide, kSide, c}, "avgpool");
    }
    // The files' first linear takes channels first.
    x = net_.transpose(x, {0, 3, 1, 2}, "channels_first");
    return net_.reshape(x, {kBatch, c * kSide * kSide}, "flat");
  }

  ValueId classify(ValueId x) {
    net_.layer("head", "classifier.");
    const double std_dev = 0.01;
    x = net_.linear(x, "0", {.to = m_.inner, .parallel = Parallel::column, .std_dev = std_dev});
    x = net_.dropout(net_.activation(x, "relu", "1"), m_.dropout, "2");
    x = net_.linear(x, "3", {.to = m_.inner, .parallel = Parallel::row, .std_dev = std_dev});
    x = net_.dropout(net_.activation(x, "relu", "4"), m_.dropout, "5");
    return net_.cross_entropy(net_.linear(x, "6", {.to = m_.classes, .std_dev = std_dev}));
  }

  const Vgg& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const Vgg sizes = parse(settings, options);
  return written<VggBuilder>(settings, sizes, options, ops);
}

}  // namespace

Family vgg_family() {
  return {.name = "vgg",
          .keys = {{"depths", "2/2/4/4/4", "convolutions of each stage"},
                   {"sizes", "64/128/256/512/512", "features of each stage"},
                   {"norm", "0", "0|1: a batch norm behind each convolution"},
                   {"image", "224", "pixels of a side"},
                   {"channels", "3", "numbers of a pixel"},
                   {"classes", "1000", "labels there are"},
                   {"inner", "4096", "features of the classifier"},
                   {"dropout", "0", "of the classifier"}},
          .build = build};
}

}  // namespace weft
