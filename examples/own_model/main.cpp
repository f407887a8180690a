// A small language model of one's own, planned for two devices of this machine and trained.
#include <fmt/core.h>

#include "weft/api/weft.h"

namespace {

constexpr std::int64_t kVocabulary = 64;
constexpr std::int64_t kSequence = 16;
constexpr std::int64_t kHidden = 32;

/// y = x + down(silu(up(norm(x)))) behind causal attention. `column` and `row` tell planners which
/// side of a weight may be split over devices.
weft::ValueId block(weft::Network& net, weft::ValueId x) {
  using weft::Parallel;
  const weft::ValueId a = net.rms_norm(x, "norm_1");
  const auto heads = [&](const char* name) {
    const weft::ValueId y = net.linear(a, name, {.to = kHidden, .parallel = Parallel::column});
    return net.split_heads(y, 4, std::string(name) + "_heads");
  };
  const weft::ValueId q = heads("q");
  const weft::ValueId k = heads("k");
  const weft::ValueId v = heads("v");
  weft::ValueId y = net.attention(q, k, v, -1, "attention", {.causal = true});
  y = net.linear(net.join_heads(y, "joined"), "o", {.to = kHidden, .parallel = Parallel::row});
  x = net.add(x, y, "add_1");
  y = net.rms_norm(x, "norm_2");
  y = net.linear(y, "up", {.to = 4 * kHidden, .parallel = Parallel::column});
  y = net.activation(y, "silu", "act");
  y = net.linear(y, "down", {.to = kHidden, .parallel = Parallel::row});
  return net.add(x, y, "add_2");
}

weft::Model build_model() {
  weft::OwnModel own("own_model");
  weft::Network& net = own.net();
  weft::ValueId x = net.tokens(kSequence);
  net.layer("embed");
  x = net.embedding(x, "tokens", kVocabulary, kHidden);
  x = net.add_positions(x, "positions", kSequence);
  for (int i = 0; i < 2; ++i) {
    net.layer(fmt::format("h.{}", i));
    x = block(net, x);
  }
  net.layer("head");
  x = net.linear(net.rms_norm(x, "norm"), "logits", {.to = kVocabulary, .bias = false});
  return own.finish(net.cross_entropy(x));
}

}  // namespace

int main() try {
  const weft::Model model = build_model();
  const weft::Choice choice = weft::make_choice(model, {.cluster = "local:2", .batch = 8});
  fmt::print("{}\n", weft::plan_text(choice.candidate, choice.figures));
  weft::train(model, choice.candidate.plan, {.data = "synthetic", .steps = 20, .lr = 0.01},
              [](const weft::StepReport& s) { fmt::print("step {} loss {}\n", s.step, s.loss); });
  return 0;
} catch (const weft::Error& error) {
  fmt::print(stderr, "own_model: {}\n", error.what());
  return 1;
}
