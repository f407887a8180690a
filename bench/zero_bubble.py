#!/usr/bin/env python3
"""Zero-bubble schedules against 1F1B on four emulated stages with 8 micro-batches, in one run.

The devices come out of a data sheet and are emulated (every kernel takes what the cost model says), so the clock on the
wall shows the schedules alone. Linear layers dominate: forward, input gradients and weight gradients take about the same
time. Rounds alternate; the median counts.

    zero_bubble.py BIN [--rounds 3]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MODEL = "mlp:inputs=512,hidden=512,layers=15,outputs=512"
STAGES, MICRO_BATCHES, BATCH = 4, 8, 256
SCHEDULES = ("1f1b", "zb-h1", "zb-h2")
WANTED = 1.08
CLUSTER = {
    "emulate": True,
    "hosts": [{"name": "box", "devices": [{"type": "sheet", "count": STAGES, "flops": {"f32": "2GFLOP/s"}, "memory": "2GiB",
                            "memory_bandwidth": "10GB/s", "efficiency": 0.8, "launch": "20us"}],
               "links": [{"between": "devices", "bandwidth": "1GB/s", "latency": "50us"}]}]}


def run(options, *words):
    done = subprocess.run([os.path.join(options.bin, "weft"), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(options, plan):
    answer = json.loads(run(options, "train", "--plan", plan, "--data", "synthetic", "--steps", str(options.steps), "--json"))
    return answer["step_seconds"]["predicted"], answer["step_seconds"]["measured"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="a round")
    options = parser.parse_args()
    seconds = {schedule: [] for schedule in SCHEDULES}
    predicted = {}
    with tempfile.TemporaryDirectory() as folder:
        cluster = os.path.join(folder, "cluster.json")
        with open(cluster, "w") as file:
            json.dump(CLUSTER, file)
        plans = {}
        for schedule in SCHEDULES:
            plans[schedule] = os.path.join(folder, schedule + ".json")
            run(options, "plan", MODEL, "--cluster", cluster, "--batch", str(BATCH), "--dtype", "f32", "--optimizer", "sgd",
                "--recipe", f"pp={STAGES},micro-batches={MICRO_BATCHES},schedule={schedule}", "-o", plans[schedule], "-q")
        for _ in range(options.rounds):
            for schedule, plan in plans.items():
                predicted[schedule], measured = measure(options, plan)
                seconds[schedule].append(measured)
    print(f"{MODEL} batch {BATCH} on {STAGES} emulated stages, {MICRO_BATCHES} micro-batches")
    base = statistics.median(seconds["1f1b"])
    for schedule, all_of_it in seconds.items():
        measured = statistics.median(all_of_it)
        print(f"  {schedule:6} {1e3 * measured:9.2f} ms/step, predicted {1e3 * predicted[schedule]:9.2f}; "
              f"{base / measured:.3f} times as fast as 1f1b")
    ratio = base / min(statistics.median(s) for name, s in seconds.items() if name != "1f1b")
    print(f"  wanted at least {WANTED}: {'yes' if ratio >= WANTED else 'NO'}")
    return 0 if ratio >= WANTED else 1


if __name__ == "__main__":
    sys.exit(main())
