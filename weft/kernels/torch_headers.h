#pragma once

// The first include of every source that uses libtorch, and its precompiled header. clang 14 in
// C++20 mode cannot parse ATen unless ivalue.h comes first.
#include <ATen/core/ivalue.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
