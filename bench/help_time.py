#!/usr/bin/env python3
"""Median wall time of `weft --help`; wanted: below 20 ms."""
import os
import statistics
import subprocess
import sys
import time

WANTED_MS = 20
RUNS = 41


def main():
    weft = os.path.join(sys.argv[1] if len(sys.argv) > 1 else "build/release/bin", "weft")
    times = []
    for _ in range(RUNS + 3):
        begin = time.perf_counter()
        subprocess.run([weft, "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(1e3 * (time.perf_counter() - begin))
    times = sorted(times[3:])  # the first ones read the binary from disk
    median = statistics.median(times)
    print(f"weft --help: median {median:.1f} ms of {RUNS} runs ({times[0]:.1f} to {times[-1]:.1f}), wanted < {WANTED_MS}")
    return 0 if median < WANTED_MS else 1


if __name__ == "__main__":
    sys.exit(main())
