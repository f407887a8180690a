#pragma once

namespace weft {

// What tables guess of collectives that run beside kernels: the share of their time that is seen.
// The simulator has the last word.

/// In a micro-batch, where nothing else is sent.
inline constexpr double kSeenBeside = 0.15;
/// The same where kernels wait for other collectives, which stand behind them.
inline constexpr double kSeenAmong = 0.6;
/// Of the reduction of gradients, once a step, where nothing else is sent; where kernels wait for
/// collectives all of it is seen.
inline constexpr double kSeenSync = 0.3;
/// The same where the backward passes that hide it are known: that much at least.
inline constexpr double kLeastSeenSync = 0.1;

}  // namespace weft
