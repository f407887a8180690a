#!/usr/bin/env python3
"""The planner's plan against every recipe, Galvatron's space and Alpa's space, and how far it can be from the best possible.

    bench/never_worse.py build/release/bin [--only TEXT] [--jobs 2] [--time-limit S] [--markdown FILE] [--details FILE]

A case is a model, a cluster, a batch and a memory budget. `weft compare --spaces` searches a plan, simulates
the recipes, and solves the two spaces under the same cost model, judged by the same simulator. The table has
the ratio of the plan's step to the best of each (at most 1: never worse), the gap to the bound, and the
seconds that the search alone took (`weft plan`). "none fits": the space has no plan within memory.
"""

import argparse
import concurrent.futures
import json
import math
import subprocess
import sys

# model, cluster, batch, further options
CASES = [
    # GPT
    ("gpt2-small", "1x1xA100-80GB", 8, "--seq 1024"),
    ("gpt2-small", "8xA100-80GB", 64, "--seq 1024"),
    ("gpt2-small", "6xRTX4090", 48, "--seq 1024"),
    ("gpt2-medium", "2x2xT4", 16, "--seq 1024"),
    ("gpt2-large", "12xRTX4090", 48, "--seq 1024"),
    ("gpt2-xl", "8xV100-16GB", 32, "--seq 1024"),
    ("gpt2-xl", "2x4xV100-16GB", 32, "--seq 1024"),
    ("gpt2-xl", "4xRTX4090", 16, "--seq 1024 --memory 12GiB"),
    ("gpt3-1.3b", "8xA100-40GB", 128, ""),
    ("gpt3-1.3b", "4x4xT4", 64, ""),
    ("gpt-2.6b", "8xV100-16GB", 64, ""),
    ("gpt-2.6b", "2x8xV100-16GB", 128, ""),
    ("gpt3-6.7b", "8xA100-40GB", 64, ""),
    ("gpt3-6.7b", "8xA100-80GB", 64, ""),
    ("gpt3-6.7b", "3x8xV100-32GB", 96, ""),
    ("gpt3-13b", "8xA100-80GB", 64, ""),
    ("gpt-15b", "4x8xV100-16GB", 256, ""),
    ("gpt-39b", "8x8xA100-80GB", 512, ""),
    ("gpt-39b", "8x8xA100-40GB", 512, ""),
    ("gpt3-175b", "128x8xA100-80GB", 1536, ""),
    ("gpt3-175b", "16x8xH100-SXM", 256, ""),
    # Llama
    ("llama3.2-1b", "4xL4", 16, "--seq 2048"),
    ("llama2-7b", "8xA100-40GB", 64, ""),
    ("llama2-7b", "8xRTX4090", 32, ""),
    ("llama2-7b", "6xA100-80GB", 48, ""),
    ("llama2-13b", "2x8xA100-40GB", 128, ""),
    ("llama3-8b", "8xH100-SXM", 32, ""),
    ("llama2-70b", "8x8xA100-80GB", 256, ""),
    ("llama2-70b", "4x8xH100-SXM", 128, ""),
    ("qwen2-0.5b", "12xT4", 48, "--seq 1024"),
    # BERT
    ("bert-base", "4xP100", 64, ""),
    ("bert-large", "8xRTX-TITAN", 64, ""),
    ("bert-large", "2x4xT4", 64, ""),
    ("bert-huge-32", "8xRTX-TITAN", 64, "--memory 8GiB"),
    ("bert-huge-32", "8xRTX-TITAN", 64, "--memory 16GiB"),
    ("bert-huge-48", "2x8xRTX-TITAN", 128, "--memory 12GiB"),
    # T5
    ("t5-base", "4xV100-16GB", 32, ""),
    ("t5-large-32", "8xRTX-TITAN", 64, "--memory 8GiB"),
    ("t5-large-48", "8xRTX-TITAN", 64, "--memory 16GiB"),
    ("t5-large", "24xV100-16GB", 96, ""),
    # ViT
    ("vit-base", "2xT4", 64, ""),
    ("vit-large", "8xV100-16GB", 256, ""),
    ("vit-huge-32", "8xRTX-TITAN", 128, "--memory 8GiB"),
    ("vit-huge-48", "8xRTX-TITAN", 256, "--memory 12GiB"),
    ("vit-huge", "6xRTX4090", 96, ""),
    # Swin
    ("swin-tiny", "4xT4", 64, ""),
    ("swin-base", "8xV100-16GB", 256, ""),
    ("swin-huge-32", "8xRTX-TITAN", 128, "--memory 8GiB"),
    ("swin-huge-48", "8xRTX-TITAN", 128, "--memory 16GiB"),
    # MoE
    ("moe-380m", "8xV100-16GB", 64, ""),
    ("moe-1.3b", "8xV100-32GB", 64, ""),
    ("moe-2.4b", "2x8xV100-16GB", 128, ""),
    ("moe-10b", "4x8xV100-32GB", 256, ""),
    ("mixtral-8x7b", "8x8xA100-80GB", 128, "--seq 4096"),
    # Wide-ResNet and ResNet
    ("resnet50", "4xV100-16GB", 256, ""),
    ("wide-resnet-250m", "4xV100-16GB", 256, ""),
    ("wide-resnet-1b", "4xV100-16GB", 256, ""),
    ("wide-resnet-2b", "8xV100-16GB", 512, ""),
    ("wide-resnet-4b", "2x8xV100-16GB", 1024, ""),
    # UNet
    ("unet-small", "4xV100-16GB", 64, ""),
    ("unet-small", "8xT4", 64, ""),
    ("unet-small", "2x4xRTX4090", 128, ""),
]


SPACES = ["recipes", "Galvatron's space", "Alpa's space"]
WORSE = 1.0005  # what counts as worse


def run(command, time_limit):
    done = subprocess.run(command, capture_output=True, text=True, timeout=time_limit)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done


def best_of(rows):
    return min((r for r in rows if r["fits"]), key=lambda r: r["step_seconds"], default=None)


def measure(weft, case, time_limit):
    """The plan and the best row of each space; None if nothing fits; text if it failed."""
    model, cluster, batch, options = case
    task = [model, "--cluster", cluster, "--batch", str(batch), "--dtype", "bf16", *options.split(), "--json"]
    try:
        planned = run([weft, "plan", *task], time_limit)
        if planned.returncode == 3:
            return None
        rows = json.loads(run([weft, "compare", *task, "--spaces"], time_limit).stdout)
    except subprocess.TimeoutExpired:
        return f"more than {time_limit} s"
    except RuntimeError as error:
        return str(error)
    spaces = {name: best_of([r for r in rows if r["name"] == name]) for name in SPACES[1:]}
    spaces["recipes"] = best_of([r for r in rows if r["name"] not in ("weft", *SPACES)])
    return {"plan": json.loads(planned.stdout), "spaces": spaces}


def row(case, found):
    start = "| " + " | ".join(map(str, case)) + " | "
    if found is None or isinstance(found, str):
        return start + (found or "nothing fits") + " | " * 6 + "|"
    plan = found["plan"]
    ratios = [f"{r:.4f}" if r else "none fits" for r in map(found["ratios"].get, SPACES)]
    return (f"{start}{plan['step_seconds']:.4g} s | {' | '.join(ratios)} | {100 * found['gap']:.1f} % | "
            f"{plan['search_seconds']:.1f} s |")


def add_ratios(found):
    step = found["plan"]["step_seconds"]
    found["gap"] = step / found["plan"]["bound_seconds"] - 1
    found["ratios"] = {name: step / best["step_seconds"] if best else None for name, best in found["spaces"].items()}


def summary(all_found):
    lines = [f"{len(all_found)} cases."]
    for name in SPACES:
        ratios = [f["ratios"][name] for f in all_found if f["ratios"][name]]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            lines.append(f"Ratio to {name}: geometric mean {mean:.3f}, worst {max(ratios):.4f}, worse in "
                         f"{sum(r > WORSE for r in ratios)} of {len(ratios)}.")
    gaps = sorted(f["gap"] for f in all_found)
    lines.append(f"Gap: median {100 * gaps[len(gaps) // 2]:.1f} %, 90th percentile {100 * gaps[int(0.9 * len(gaps))]:.1f} %.")
    return " ".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--only", default="", help="cases whose text has this")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--time-limit", type=float, default=1200, help="seconds for a command")
    parser.add_argument("--markdown", help="write the table here")
    parser.add_argument("--details", help="write all plans' rows here, as JSON")
    arguments = parser.parse_args()
    cases = [case for case in CASES if arguments.only in " ".join(map(str, case))]
    lines = ["| model | cluster | batch | options | step | recipes | Galvatron | Alpa | gap | search |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    good, details, failed = [], [], False
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        found_in_order = pool.map(lambda c: measure(f"{arguments.bin}/weft", c, arguments.time_limit), cases)
        for case, found in zip(cases, found_in_order):
            if isinstance(found, dict):
                add_ratios(found)
                good.append(found)
                failed |= any(r and r > WORSE for r in found["ratios"].values())
                details.append({"case": case, **found})
            failed |= isinstance(found, str)
            lines.append(row(case, found))
            print(lines[-1], flush=True)
    if good:
        lines += ["", summary(good)]
        print(lines[-1])
    for path, text in ((arguments.markdown, "\n".join(lines) + "\n"), (arguments.details, json.dumps(details, indent=1))):
        if path:
            with open(path, "w") as file:
                file.write(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
