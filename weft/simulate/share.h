#pragma once

#include <span>
#include <vector>

namespace weft {

/// `flows` of an exchange go through the resource.
struct Use {
  int resource = 0;
  double flows = 0;
};

/// An exchange that moves data: the resources of its pattern and the most bytes/s that each of its
/// flows could take alone.
struct Flow {
  std::span<const Use> uses = {};
  double most = 0;
  double rate = 0;  // the answer
};

/// Max-min fair rates: nobody can have more without somebody with less, or as little, having less.
/// Scratch space is kept between calls.
class FairShare {
 public:
  explicit FairShare(const std::vector<double>& capacity);
  void operator()(std::span<Flow> flows);

 private:
  const std::vector<double>& capacity_;
  std::vector<double> left_;   // bytes/s, by resource; valid for those in `used_`
  std::vector<double> count_;  // flows that still grow
  std::vector<int> used_;
};

}  // namespace weft
