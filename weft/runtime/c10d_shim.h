#pragma once

// All of c10d that weft uses, and what differs between libtorch 1.13 and 2.x. Include
// torch_headers.h first; gloo_channel.cpp is the only source that includes this.
//
//               1.13                                    2.x
//   Gloo        a ProcessGroup                          a Backend, which ProcessGroup wraps
//   its options ProcessGroup::Options                   Backend::Options
//   Work        c10d::Work                              c10d::Work
//
// weft calls Gloo's class itself and never through a base, so that only the name of the base of its
// options differs, and names no optional.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace weft::c10d_shim {

using Gloo = c10d::ProcessGroupGloo;
using GlooOptions = c10d::ProcessGroupGloo::Options;
using Work = c10::intrusive_ptr<c10d::Work>;
using Milliseconds = std::chrono::milliseconds;

}  // namespace weft::c10d_shim
