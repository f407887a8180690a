// Layers of experts under the recipes: the losses of several steps, and so the gradients between
// them, are those of one device. Slots are over the whole micro-batch on all devices, whoever holds
// them, so the same choices are dropped everywhere.
#include <gtest/gtest.h>

#include "train.h"
#include "weft/autodiff/differentiate.h"
#include "weft/ops/builder.h"
#include "weft/ops/cross_entropy.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

constexpr std::int64_t kBatchSize = 5;  // no multiple of anything
constexpr std::int64_t kTokens = 4;
constexpr std::int64_t kHidden = 6;
constexpr std::int64_t kInner = 8;
constexpr std::int64_t kExperts = 4;
constexpr std::int64_t kClasses = 3;
constexpr std::int64_t kChoices = 2;
constexpr std::int64_t kCapacity = 2;  // enough for choices that are balanced, so some are dropped

class MoeModel {
 public:
  explicit MoeModel(const OpTable& ops) : b_(graph_, ops) {
    share_ = b_.emit("constant", {}, {{"value", 0.5}, {"dtype", std::string("f64")}}, "in/share");
  }

  Graph make() {
    const ValueId x = b_.input("x", {{kBatch, kTokens, kHidden}, DType::f64});
    const ValueId labels = b_.input("labels", {{kBatch, kTokens}, DType::i64});
    const ValueId inv_count = b_.input("inv_count", {{}, DType::f64});
    ValueId y = b_.emit("linear", {x, weight("in/w", {kHidden, kHidden})}, {}, "in/linear");
    y = experts(y, "h.0");
    y = experts(y, "h.1");
    y = b_.emit("linear", {y, weight("head/w", {kClasses, kHidden})}, {}, "head/linear");
    const ValueId entropy = ops::cross_entropy(b_, y, labels, inv_count, "head/entropy");
    graph_.loss = b_.emit("add", {entropy, balance_}, {}, "head/loss");
    return graph_;
  }

 private:
  ValueId weight(const std::string& name, Shape shape) {
    return b_.parameter(name, {std::move(shape), DType::f64},
                        {.kind = Init::Kind::normal, .std_dev = 0.5});
  }

  ValueId experts(ValueId x, const std::string& layer) {
    const ValueId logits =
        b_.emit("linear", {x, weight(layer + "/router", {kExperts, kHidden})}, {}, layer + "/gate");
    const ValueId probs = b_.emit("softmax", {logits}, {}, layer + "/probs");
    const std::vector<ValueId> route =
        b_.emit_all("moe_route", {probs},
                    {{"k", kChoices}, {"capacity", kCapacity}, {"normalise", std::int64_t{1}}},
                    layer + "/route");
    const ValueId slots = b_.emit(
        "moe_dispatch", {x, route[1], route[2]},
        {{"experts", kExperts}, {"capacity", kCapacity}, {"parallel", std::string("experts")}},
        layer + "/dispatch");
    const Attrs transposed{{"transpose_b", std::int64_t{1}}};
    const ValueId up =
        b_.emit("matmul", {slots, weight(layer + "/up/w", {kExperts, kInner, kHidden})}, transposed,
                layer + "/up");
    const ValueId act = b_.emit("gelu", {up}, {{"tanh", std::int64_t{1}}}, layer + "/act");
    const ValueId down =
        b_.emit("matmul", {act, weight(layer + "/down/w", {kExperts, kHidden, kInner})}, transposed,
                layer + "/down");
    const ValueId mixed =
        b_.emit("moe_combine", {down, route[1], route[2], route[0]}, {}, layer + "/combine");
    const ValueId balance = b_.emit("balance_loss", {probs, route[3], share_},
                                    {{"weight", 0.1}, {"k", kChoices}}, layer + "/balance");
    balance_ = balance_ < 0 ? balance : b_.emit("add", {balance_, balance}, {}, layer + "/losses");
    return b_.emit("add", {x, mixed}, {}, layer + "/residual");
  }

  Graph graph_;
  Builder b_;
  ValueId share_ = -1;
  ValueId balance_ = -1;
};

struct Job {
  OpTable ops = builtin_ops();
  Graph forward = MoeModel(ops).make();
  Task task;
  Graph training;

  Job() {
    task.cluster = parse_cluster("1x4xA100-80GB");
    task.batch = kBatchSize;
    task.dtype = DType::f64;
    task.optimizer.name = "sgd";
    task.optimizer.weight_decay = 0.1;
    task.memory_budget_bytes.assign(4, std::int64_t{1} << 40);
    training = training_graph(forward, task.optimizer, ops);
  }

  [[nodiscard]] Plan plan(const std::string& recipe) const {
    const RecipePlan made = recipe_plan(parse_recipe(recipe), task, forward, ops);
    require(made.plan.has_value(), "{}: {}", recipe, made.why_not);
    return *made.plan;
  }

  [[nodiscard]] std::vector<double> train(const Plan& plan) const {
    return weft::train(training, plan, ops,
                       {.tokens = kTokens, .features = kHidden, .classes = kClasses},
                       {.steps = 4, .learning_rate = 0.05});
  }
};

const NodeRule* find_rule(const Plan& plan, const std::string& node) {
  return rule_for(plan.stages[0], node);
}

TEST(MoePlan, RecipesGiveTheNumbersOfOneDevice) {
  const Job job;
  const std::vector<double> one = job.train(job.plan("dp=1,micro-batches=2"));
  EXPECT_LT(one.back(), one.front());
  for (const std::string recipe :
       {"dp=2,micro-batches=2", "dp=2,zero=3,micro-batches=2", "tp=2,micro-batches=2",
        "dp=2,tp=2,micro-batches=2", "pp=2,micro-batches=2"}) {
    SCOPED_TRACE(recipe);
    expect_equal(job.train(job.plan(recipe)), one);
  }
}

TEST(MoePlan, ReplicasHoldSlotsAndTensorDevicesHoldExperts) {
  const Job job;
  const Plan plan = job.plan("dp=2,tp=2,micro-batches=2");
  EXPECT_EQ(find_rule(plan, "h.0/dispatch")->split.at("dp"), "c");
  EXPECT_EQ(find_rule(plan, "h.0/dispatch")->split.at("tp"), "e");
  EXPECT_EQ(find_rule(plan, "h.0/up")->split.at("dp"), "m");
  EXPECT_EQ(find_rule(plan, "h.0/up")->split.at("tp"), "b");
  EXPECT_EQ(find_rule(plan, "h.0/combine")->split.at("dp"), "c");
  EXPECT_EQ(find_rule(plan, "h.0/combine")->split.at("tp"), "e");
}

// A plan may do otherwise: tokens in parts fill slots that are then summed, experts over the
// replicas.
TEST(MoePlan, OtherSplitsOfTheSlotsGiveTheSameNumbers) {
  const Job job;
  const std::vector<double> one = job.train(job.plan("dp=1,micro-batches=2"));
  for (const auto& [dispatch, product] :
       std::vector<std::pair<std::string, std::string>>{{"b", "b"}, {"e", "b"}, {"k", "m"}}) {
    SCOPED_TRACE("dispatch split by " + dispatch + ", products by " + product);
    Plan plan = job.plan("dp=2,micro-batches=2");
    std::vector<NodeRule>& rules = plan.stages[0].nodes;
    for (const std::string node : {"/up", "/act", "/down"}) {
      const std::string letter = node == "/act" && product == "m" ? "s" : product;
      rules.insert(rules.begin(), {"h.*" + node, {{"dp", letter}}});
    }
    rules.insert(rules.begin(), {"h.*/dispatch", {{"dp", dispatch}}});
    rules.insert(rules.begin(), {"h.*/combine", {{"dp", product == "b" ? "e" : "c"}}});
    expect_equal(job.train(plan), one);
  }
}

}  // namespace
}  // namespace weft
