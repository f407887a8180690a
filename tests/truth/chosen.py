#!/usr/bin/env python3
"""Whether the chosen plan is really the fastest: it and the recipes, run for real.

    tests/truth/chosen.py build/release/bin [--seconds 300] [--fresh 240] [--only WORD] [-o table.md]

For each pair of a model and a cluster (this machine as one or two devices, and emulated ones as in here.py) `weft plan`
chooses a plan and `weft compare` names the best recipe of each kind. All that are predicted to take at most 1.4 times as
long as the plan are trained in turn. The speed of a shared machine drifts by more than plans differ: so the plan and a
recipe are compared round by round, and the middle ratio counts. A recipe is run until it is known whether the plan is
within 3 % of it (the 95 % interval of the middle ratio lies on one side), five times at least, and no longer once the pair
took `--seconds`. The machine is profiled again where its profile is older than `--fresh` seconds. Goals: the plan is the
fastest or within 3 % of it, and its step is within 8 % of the predicted one (median over the pairs). Nothing else should
run.
"""
import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time

import here

# cluster, model, batch, further options
CASES = [
    ("real:1", here.GPT, 8, []),
    ("real:1", here.MLP, 256, []),
    ("real:2", here.GPT, 16, []),
    ("real:2", here.WIDE, 8, ["--memory", "80MiB"]),
    ("real:2", here.LLAMA, 16, []),
    ("cores:4", here.GPT, 16, []),
    ("cores:4", here.GPT, 16, ["--memory", "80MiB"]),
    ("cores:8", here.WIDE, 32, []),
    ("sheet:4", here.GPT, 16, []),
    ("sheet:4", here.LLAMA, 16, ["--memory", "120MiB"]),
    ("sheet:8", here.GPT, 32, ["--memory", "80MiB"]),
    ("sheet:8", here.MLP, 512, []),
]
WITHIN = 1.03  # times the fastest recipe: as good as the fastest
FEWEST = 5  # rounds
SURE = 1.96 / 2  # of a 95 % interval: ranks on each side of the middle are so many roots of their number
FAR = 1.4  # times the predicted step of the plan: not run, predictions are not that wrong


def contenders(bin_folder, task, folder):
    """(name, plan file, predicted seconds): weft's plan, then recipes that are not far behind it."""
    plan = os.path.join(folder, "weft.json")
    chosen = json.loads(here.run(bin_folder, "plan", *task, "-o", plan, "--json"))
    result = [("weft", plan, chosen["step_seconds"], chosen["recipe"])]
    for row in json.loads(here.run(bin_folder, "compare", *task, "--json")):
        if row["name"] == "weft" or not row["fits"] or row["step_seconds"] > FAR * chosen["step_seconds"]:
            continue
        path = os.path.join(folder, f"{len(result)}.json")
        here.run(bin_folder, "plan", *task, "--recipe", row["recipe"], "-o", path, "-q")
        same = read(path) == read(plan)  # the plan is this recipe: it takes as long as itself
        result.append((row["name"], plan if same else path, row["step_seconds"], row["recipe"]))
    return result


def read(path):
    with open(path) as file:
        return file.read()


def middle_interval(ratios):
    """Where the middle of such ratios lies, 95 times in 100 (by the ranks of a sign test)."""
    ordered, low = sorted(ratios), max(0, math.floor(len(ratios) / 2 - SURE * math.sqrt(len(ratios))))
    return ordered[low], ordered[-1 - low]


def measure(bin_folder, plan, others, steps, seconds):
    """Steps of the plan, and of each other plan, by round. What is known runs no longer; the rest takes turns, another
    one first each time, so that a busy moment hits all alike."""
    took = {path: [] for path in (plan, *others)}
    turns, end = list(took), time.monotonic() + seconds

    def is_known(path):
        low, high = middle_interval(ratios(took, plan, path))
        return high <= WITHIN or low > WITHIN or time.monotonic() > end

    while len(took[plan]) < FEWEST or turns != [plan]:
        for path in turns:
            took[path].append(here.train(bin_folder, path, steps, 1)[1])
        turns = turns[1:] + turns[:1]
        if len(took[plan]) >= FEWEST:
            turns = [path for path in turns if path == plan or not is_known(path)]
    return took


def ratios(took, plan, other):
    return [a / b for a, b in zip(took[plan], took[other])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--fresh", type=float, default=240, help="seconds after which the machine is profiled again")
    parser.add_argument("--seconds", type=float, default=300, help="for the runs of a pair")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", default="", help="cases whose cluster or model has this word in it")
    parser.add_argument("-o", "--output", help="write the table there too")
    options = parser.parse_args()
    lines = [here.table_row(["devices", "model", "options", "plan", "predicted", "measured", "error", "fastest recipe", "measured", "ratio", "rounds"]),
             here.table_row(["---"] * 11)]
    print("\n".join(lines), flush=True)
    errors, worst = [], []
    with tempfile.TemporaryDirectory() as folder:
        for cluster, model, batch, more in CASES:
            if options.only not in cluster and options.only not in model:
                continue
            profile = here.profile_of(options.bin, 1 if cluster == "real:1" else 2, folder, options.fresh)
            task = [model, "--cluster", here.cluster_file(cluster, profile, folder), "--batch", str(batch), "--dtype", "f32", *more]
            rows = contenders(options.bin, task, folder)
            name, path, predicted, recipe = rows[0]
            others = dict.fromkeys(row[1] for row in rows if row[1] != path)
            took = measure(options.bin, path, others, options.steps, options.seconds)
            middle = {other: statistics.median(ratios(took, path, other)) for other in took}
            best = max(rows[1:] or rows, key=lambda row: middle[row[1]])
            measured = statistics.median(took[path])
            errors.append(abs(measured - predicted) / measured)
            worst.append(middle[best[1]])
            lines.append(here.table_row([cluster, model.split(",heads")[0], " ".join(more), recipe, f"{1e3 * predicted:.1f} ms",
                                         f"{1e3 * measured:.1f} ms", f"{100 * (predicted / measured - 1):+.1f} %", best[3],
                                         f"{1e3 * statistics.median(took[best[1]]):.1f} ms", f"{worst[-1]:.3f}", str(len(took[path]))]))
            print(lines[-1], flush=True)
    summary = (f"{len(worst)} pairs: {sum(ratio <= WITHIN for ratio in worst)} within 3 % of the fastest recipe or faster, worst "
               f"{max(worst):.3f}; step off by {100 * statistics.median(errors):.1f} % (median)")
    print("\n" + summary)
    if options.output:
        with open(options.output, "w") as out:
            out.write("\n".join(lines) + "\n\n" + summary + "\n")
    return 0 if max(worst) <= WITHIN and statistics.median(errors) <= 0.08 else 1


if __name__ == "__main__":
    sys.exit(main())
