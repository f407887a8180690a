#!/usr/bin/env python3
"""The planner's plan against the best of every recipe, and how far it can be from the best possible.

    bench/never_worse.py build/release/bin [--only TEXT] [--markdown FILE]

A case is a model, a cluster, a batch and a memory budget. `weft compare` searches a plan and simulates
the recipes; the table has the ratio of the plan's step to the best recipe's (at most 1: never worse),
the gap to the bound, and the seconds that the search alone took (`weft plan`).
"""

import argparse
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


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done


def measure(weft, case):
    model, cluster, batch, options = case
    task = [model, "--cluster", cluster, "--batch", str(batch), "--dtype", "bf16", *options.split(), "--json"]
    planned = run([weft, "plan", *task])
    if planned.returncode == 3:
        return None
    plan = json.loads(planned.stdout)
    rows = json.loads(run([weft, "compare", *task]).stdout)
    recipes = [r for r in rows if r["name"] != "weft" and r["fits"]]
    best = min(recipes, key=lambda r: r["step_seconds"], default=None)
    return {"plan": plan, "best": best, "gap": plan["step_seconds"] / plan["bound_seconds"] - 1}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("--only", default="", help="cases whose text has this")
    parser.add_argument("--markdown", help="write the table here")
    arguments = parser.parse_args()
    lines = ["| model | cluster | batch | options | step | plan | best recipe | ratio | gap | search |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    ratios, gaps, worse = [], [], []
    for case in CASES:
        if arguments.only not in " ".join(map(str, case)):
            continue
        found = measure(f"{arguments.bin}/weft", case)
        if found is None:
            lines.append(f"| {case[0]} | {case[1]} | {case[2]} | {case[3]} | nothing fits | | | | | |")
            print(lines[-1], flush=True)
            continue
        plan, best = found["plan"], found["best"]
        ratio = plan["step_seconds"] / best["step_seconds"] if best else float("nan")
        if best:
            ratios.append(ratio)
            if ratio > 1.0005:
                worse.append(case)
        gaps.append(found["gap"])
        lines.append(f"| {case[0]} | {case[1]} | {case[2]} | {case[3]} | {plan['step_seconds']:.4g} s | {plan['recipe']} | "
                     f"{best['recipe'] if best else 'none fits'} | {ratio:.3f} | {100 * found['gap']:.1f} % | {plan['search_seconds']:.1f} s |")
        print(lines[-1], flush=True)
    gaps.sort()
    if gaps:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")
        lines.append("")
        lines.append(f"{len(gaps)} cases; ratio to the best recipe: geometric mean {mean:.3f}, worst {max(ratios, default=0):.3f}, worse in "
                     f"{len(worse)}; gap: median {100 * gaps[len(gaps) // 2]:.1f} %, 90th percentile {100 * gaps[int(0.9 * len(gaps))]:.1f} %.")
        print(lines[-1])
    if arguments.markdown:
        with open(arguments.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
