// A UNet that removes noise from images: blocks of two 3×3 convolutions at ever smaller sides, then
// back up, where each side gets what left the same side on the way down. Trained on the squared
// difference to the clean image.
#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/frontend/family.h"
#include "weft/frontend/network.h"

namespace weft {

namespace {

struct UNet {
  Ints sizes;
  std::int64_t groups = 0;
  std::int64_t image = 0;
  std::int64_t channels = 0;
};

UNet parse(Settings& s, const ModelOptions& options) {
  refuse_sequence("unet", options);
  UNet m;
  m.sizes = s.sizes("sizes", kMaxWidth);
  require(m.sizes.size() <= 12, "model unet: {} sides are more than 12", m.sizes.size());
  m.groups = s.size("groups", kMaxWidth);
  for (const std::int64_t size : m.sizes) {
    require(size % m.groups == 0, "model unet: {} features are not a multiple of groups={}", size,
            m.groups);
  }
  m.image = s.size("image", kMaxImage);
  const std::int64_t shrink = std::int64_t{1} << (m.sizes.size() - 1);
  require(m.image % shrink == 0, "model unet: image={} is not a multiple of {}", m.image, shrink);
  m.channels = s.size("channels", kMaxWidth);
  return m;
}

class UNetBuilder {
 public:
  UNetBuilder(const UNet& model, Network& net) : m_(model), net_(net) {}

  ValueId build() {
    ValueId x = net_.samples("x", {kBatch, m_.image, m_.image, m_.channels});
    std::vector<ValueId> kept;
    for (std::size_t i = 0; i < m_.sizes.size(); ++i) {
      net_.layer(fmt::format("down.{}", i));
      if (i > 0) {
        kept.push_back(x);
        x = net_.max_pool(x, "pool", {});
      }
      x = convolutions(x, m_.sizes[i]);
    }
    for (std::size_t i = m_.sizes.size() - 1; i-- > 0;) {
      net_.layer(fmt::format("up.{}", i));
      x = net_.build().emit("upsample", {x}, {{"scale", Ints{2, 2}}}, "upsample");
      x = net_.conv(x, "conv", {.to = m_.sizes[i], .kernel = 3, .padding = 1, .bias = true});
      x = convolutions(net_.concat({kept[i], x}, 3, "joined"), m_.sizes[i]);
    }
    net_.layer("head");
    x = net_.conv(x, "conv", {.to = m_.channels, .kernel = 1, .bias = true});
    return net_.squared_error(x);
  }

 private:
  ValueId convolutions(ValueId x, std::int64_t to) {
    for (const std::string i : {"0", "1"}) {
      x = net_.conv(x, "conv." + i,
                    {.to = to,
                     .kernel = 3,
                     .padding = 1,
                     .bias = true,
                     .parallel = i == "0" ? Parallel::column : Parallel::row});
      x = net_.activation(net_.group_norm(x, "norm." + i, m_.groups), "silu", "act." + i);
    }
    return x;
  }

  const UNet& m_;
  Network& net_;
};

Model build(Settings settings, const ModelOptions& options, const OpTable& ops) {
  const UNet sizes = parse(settings, options);
  return written<UNetBuilder>(settings, sizes, options, ops);
}

}  // namespace

Family unet_family() {
  return {.name = "unet",
          .keys = {{"sizes", "64/128/256/512", "features at each side; the side halves"},
                   {"groups", "32", "of the group norms"},
                   {"image", "64", "pixels of a side"},
                   {"channels", "3", "numbers of a pixel"}},
          .build = build};
}

}  // namespace weft
