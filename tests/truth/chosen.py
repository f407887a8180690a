#!/usr/bin/env python3
"""Whether the chosen plan is really the fastest: it and the recipes, run for real.

    tests/truth/chosen.py build/release/bin [--rounds 7] [--fresh 240] [--only WORD] [-o table.md]

For each pair of a model and a cluster (this machine as one or two devices, and emulated ones as in here.py) `weft plan`
chooses a plan and `weft compare` names the best recipe of each kind. All that are predicted to take at most 1.4 times as
long as the plan are trained in turn, `--rounds` times, short ones up to 31 times; the middle run counts. The speed of a shared
machine drifts by more than plans differ: so a plan and a recipe are compared round by round (the middle ratio counts),
and the machine is profiled again where its profile is older than `--fresh` seconds. Goals: the plan is the fastest or
within 3 % of it, and its step is within 8 % of the predicted one (median over the pairs). Nothing else should run.
"""
import argparse
import json
import os
import statistics
import sys
import tempfile

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
ENOUGH_S = 20  # of steps of a plan, for a median that busy moments do not move
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


def measure(bin_folder, files, steps, rounds):
    """Steps of each plan by round; they take turns, another one first each time, so that a busy moment hits all alike."""
    seconds = {path: [] for path in files}
    for first in range(rounds):
        for path in files[first % len(files):] + files[:first % len(files)]:
            seconds[path].append(here.train(bin_folder, path, steps, 1)[1])
    return seconds


def ratio_of(took, plan, other):
    return statistics.median(a / b for a, b in zip(took[plan], took[other]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--fresh", type=float, default=240, help="seconds after which the machine is profiled again")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", default="", help="cases whose cluster or model has this word in it")
    parser.add_argument("-o", "--output", help="write the table there too")
    options = parser.parse_args()
    lines = [here.table_row(["devices", "model", "options", "plan", "predicted", "measured", "error", "fastest recipe", "measured", "ratio"]),
             here.table_row(["---"] * 10)]
    print("\n".join(lines), flush=True)
    errors, ratios = [], []
    with tempfile.TemporaryDirectory() as folder:
        for cluster, model, batch, more in CASES:
            if options.only not in cluster and options.only not in model:
                continue
            profile = here.profile_of(options.bin, 1 if cluster == "real:1" else 2, folder, options.fresh)
            task = [model, "--cluster", here.cluster_file(cluster, profile, folder), "--batch", str(batch), "--dtype", "f32", *more]
            rows = contenders(options.bin, task, folder)
            often = min(31, int(ENOUGH_S / (options.steps * rows[0][2]))) | 1  # odd
            took = measure(options.bin, list(dict.fromkeys(row[1] for row in rows)), options.steps, max(options.rounds, often))
            name, path, predicted, recipe = rows[0]
            best = max(rows[1:] or rows, key=lambda row: ratio_of(took, path, row[1]))
            measured = statistics.median(took[path])
            errors.append(abs(measured - predicted) / measured)
            ratios.append(ratio_of(took, path, best[1]))
            lines.append(here.table_row([cluster, model.split(",heads")[0], " ".join(more), recipe, f"{1e3 * predicted:.1f} ms",
                                         f"{1e3 * measured:.1f} ms", f"{100 * (predicted / measured - 1):+.1f} %", best[3],
                                         f"{1e3 * statistics.median(took[best[1]]):.1f} ms", f"{ratios[-1]:.3f}"]))
            print(lines[-1], flush=True)
    summary = (f"{len(ratios)} pairs: {sum(ratio <= 1.03 for ratio in ratios)} within 3 % of the fastest recipe or faster, worst "
               f"{max(ratios):.3f}; step off by {100 * statistics.median(errors):.1f} % (median)")
    print("\n" + summary)
    if options.output:
        with open(options.output, "w") as out:
            out.write("\n".join(lines) + "\n\n" + summary + "\n")
    return 0 if max(ratios) <= 1.03 and statistics.median(errors) <= 0.08 else 1


if __name__ == "__main__":
    sys.exit(main())
