#include <algorithm>
#include <numeric>
#include <set>

#include "weft/base/divisors.h"
#include "weft/recipes/recipes.h"

namespace weft {
namespace {

constexpr int kLargestTp = 64;
constexpr int kFewDevices = 16;

int largest_host(const Cluster& cluster) {
  std::vector<int> devices(std::max<std::size_t>(cluster.hosts.size(), 1));
  for (const Device& device : cluster.devices) {
    ++devices[device.host];
  }
  return *std::max_element(devices.begin(), devices.end());
}

// How many devices a recipe may use: slow links can make a part of the cluster faster than all of
// it.
std::vector<int> device_counts(const Cluster& cluster) {
  const int all = static_cast<int>(cluster.devices.size());
  std::set<int> counts = {1, all};
  for (int count = 2; count < all && all <= kFewDevices; ++count) {
    counts.insert(count);
  }
  const auto first_host =
      std::ranges::count_if(cluster.devices, [](const Device& d) { return d.host == 0; });
  counts.insert(static_cast<int>(first_host));
  return {counts.begin(), counts.end()};
}

// What every degree of tp must divide: heads and the split sides of linears. 1 if nothing can be
// split.
std::int64_t splittable(const Graph& forward) {
  std::int64_t common = 0;
  bool hinted = false;
  for (const Node& node : forward.nodes) {
    if (node.role != Role::forward) {
      continue;
    }
    const auto length = [&](int input, int dim) {
      return forward.values[node.inputs[input]].type.shape[dim].size;
    };
    if (node.op == "attention") {
      common = std::gcd(common, length(1, 2));  // groups of heads that share keys
    } else if (node.op == "linear" && has_attr(node.attrs, "parallel")) {
      const std::string& hint = attr_text(node.attrs, "parallel");
      hinted = true;
      common = hint == "column" ? std::gcd(common, length(1, 0))
               : hint == "row"  ? std::gcd(common, length(1, 1))
                                : common;
    }
  }
  return hinted ? common : 1;
}

// Powers of two and a few multiples of pp. Those that leave every device of dp the same number of
// samples are taken if there are any; they need no uneven shards.
std::vector<int> micro_batch_counts(std::int64_t batch, int dp, int pp) {
  const std::int64_t most = batch / dp;
  std::set<std::int64_t> counts = {most};
  for (std::int64_t power = 1; power <= most; power *= 2) {
    for (const std::int64_t count : {power, power * pp, power * pp * 3}) {
      if (count <= most) {
        counts.insert(count);
      }
    }
  }
  std::vector<int> even;
  for (const std::int64_t count : counts) {
    if (batch % (count * dp) == 0) {
      even.push_back(static_cast<int>(count));
    }
  }
  return even.empty() ? std::vector<int>(counts.begin(), counts.end()) : even;
}

void add_variants(Recipe recipe, const Task& task, std::vector<Recipe>& recipes) {
  for (const int count : micro_batch_counts(task.batch, recipe.dp, recipe.pp)) {
    recipe.micro_batches = count;
    for (const int zero : {0, 1, 2, 3}) {
      recipe.zero = zero;
      for (const char* recompute : {"none", "block"}) {
        recipe.recompute = recompute;
        for (const char* schedule : {"1f1b", "gpipe"}) {
          recipe.schedule = schedule;
          const bool scheduled = recipe.pp > 1 && count > 1;
          const bool split = zero == 0 || recipe.dp > 1;
          if (split && (scheduled || recipe.schedule == "1f1b")) {
            recipes.push_back(recipe);
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<Recipe> all_recipes(const Task& task, const Graph& forward) {
  const int host = largest_host(task.cluster);
  const int layer_count = static_cast<int>(layers(forward).size());
  const std::int64_t common = splittable(forward);
  std::vector<Recipe> recipes;
  for (const int devices : device_counts(task.cluster)) {
    for (const int pp : divisors(devices)) {
      for (const int tp : divisors(devices / pp)) {
        const int dp = devices / pp / tp;
        if (pp <= layer_count && tp <= std::min(host, kLargestTp) && common % tp == 0 &&
            dp <= task.batch) {
          add_variants({.dp = dp, .tp = tp, .pp = pp}, task, recipes);
        }
      }
    }
  }
  return recipes;
}

}  // namespace weft
