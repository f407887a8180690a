#!/usr/bin/env python3
"""Predicted against measured step time and peak memory, on this machine.

    tests/truth/here.py build/release/bin [--profiles DIR] [--runs 5] [--only WORD] [--quick] [-o table.md]

It runs `weft profile` first, for the machine as one device and as two (a device has its share of the cores), and keeps
what it wrote in --profiles if that is given. Then it trains with many plans: on at most two real devices, and on up to
eight emulated ones that are cores of this machine (`"emulate": "cpu-time"`: a kernel takes the processor time that it
really took) or devices out of a data sheet (`"emulate": true`: a kernel takes what the cost model says, so only
schedules, links and memory are put to the test). Each plan runs `--runs` times; the middle one counts. It prints a table
and ends with 1 if the goals are missed: median error of the step at most 8 %, 90th percentile 15 %, memory 1 %.

Nothing else should run on the machine: real devices share it with whatever does.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

GPT = "gpt:layers=4,hidden=256,heads=8,vocab=1024,seq=128"
WIDE = "gpt:layers=2,hidden=512,heads=8,vocab=2048,seq=64"
LLAMA = "llama:layers=4,hidden=192,heads=6,vocab=512,seq=96"
MLP = "mlp:inputs=784,hidden=1024,layers=4,outputs=10"
# cluster, model, batch, recipe
CASES = [
    ("real:1", GPT, 8, "micro-batches=2"),
    ("real:1", WIDE, 8, ""),
    ("real:1", LLAMA, 8, "recompute=block"),
    ("real:1", MLP, 256, ""),
    ("real:2", GPT, 8, "dp=2"),
    ("real:2", GPT, 8, "dp=2,zero=3"),
    ("real:2", GPT, 8, "tp=2"),
    ("real:2", GPT, 16, "pp=2,micro-batches=8"),
    ("real:2", WIDE, 8, "dp=2,zero=1"),
    ("real:2", LLAMA, 16, "pp=2,micro-batches=4,schedule=gpipe"),
    ("cores:2", GPT, 8, "dp=2"),
    ("cores:2", LLAMA, 8, "tp=2"),
    ("cores:4", GPT, 16, "pp=4,micro-batches=8"),
    ("cores:4", GPT, 16, "dp=4,zero=1"),
    ("cores:4", GPT, 16, "dp=2,tp=2"),
    ("cores:4", WIDE, 16, "dp=4,zero=3"),
    ("cores:4", LLAMA, 16, "dp=2,pp=2,micro-batches=4"),
    ("cores:8", GPT, 16, "dp=2,tp=2,pp=2,micro-batches=4"),
    ("cores:8", GPT, 32, "dp=8"),
    ("cores:8", WIDE, 32, "dp=4,pp=2,zero=1,micro-batches=4"),
    ("sheet:4", GPT, 16, "pp=4,micro-batches=8"),
    ("sheet:4", GPT, 16, "dp=4,zero=3,recompute=block"),
    ("sheet:8", GPT, 16, "dp=2,tp=2,pp=2,micro-batches=4,zero=1"),
    ("sheet:8", LLAMA, 32, "dp=8,zero=1"),
    ("sheet:8", WIDE, 16, "tp=4,pp=2,micro-batches=4"),
    ("sheet:8", MLP, 512, "dp=4,tp=2"),
]
LINKS = [{"between": "devices", "bandwidth": "200MB/s", "latency": "300us"}]


def run(bin_folder, *words):
    done = subprocess.run([os.path.join(bin_folder, "weft"), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def profile_of(bin_folder, devices, folder, most_age_s=float("inf")):
    """This machine as so many devices; measured if the folder does not have it yet, or only an older one."""
    path = os.path.join(folder, f"profile-{devices}.json")
    if not os.path.exists(path) or time.time() - os.path.getmtime(path) > most_age_s:
        os.makedirs(folder, exist_ok=True)
        run(bin_folder, "profile", "-o", path, "--devices", str(devices), "-q")
    with open(path) as file:
        return json.load(file)


def cluster_file(name, profile, folder):
    """The file of a cluster such as real:2, cores:4, sheet:8."""
    kind, count = name.split(":")
    host = json.loads(json.dumps(profile["hosts"][0]))  # a copy
    device = host["devices"][0]
    device["count"] = int(count)
    if kind == "sheet":
        host["devices"] = [{"type": "sheet", "count": int(count), "flops": {"f32": 20e9}, "memory": "2GiB",
                            "memory_bandwidth": "4GB/s", "efficiency": 0.7, "launch": "20us"}]
    else:
        host["devices"] = [device]
    file = {"hosts": [host]}
    if kind != "real":
        host["links"] = LINKS
        host.pop("collectives", None)
        file["emulate"] = "cpu-time" if kind == "cores" else True
    path = os.path.join(folder, name.replace(":", "-") + ".json")
    with open(path, "w") as out:
        json.dump(file, out)
    return path


def train(bin_folder, plan, steps, runs):
    results = [json.loads(run(bin_folder, "train", "--plan", plan, "--data", "synthetic", "--steps", str(steps), "--json"))
               for _ in range(runs)]
    measured = statistics.median(r["step_seconds"]["measured"] for r in results)
    memory = max(abs(want - got) / want
                 for r in results
                 for want, got in zip(r["peak_memory_bytes"]["predicted"], r["peak_memory_bytes"]["measured"]))
    emulation = results[0].get("emulation", {})
    lag = max(r.get("emulation", {}).get("lag_seconds", 0) for r in results)
    return results[0]["step_seconds"]["predicted"], measured, memory, emulation.get("slow_down", 1), lag


def table_row(cells):
    return "| " + " | ".join(cells) + " |"


def quantile(numbers, share):
    return sorted(numbers)[min(len(numbers) - 1, int(share * len(numbers)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--profiles", help="folder with what weft profile wrote; what is missing is measured now")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--only", default="", help="cases whose cluster or recipe has this word in it")
    parser.add_argument("--quick", action="store_true", help="one run of every third case")
    parser.add_argument("-o", "--output", help="write the table there too")
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in case[0] or options.only in case[3]]
    if options.quick:
        cases, options.runs = cases[::3], 1
    lines = [table_row(["devices", "model", "recipe", "predicted", "measured", "error", "memory", "slow-down", "lag"]),
             table_row(["---"] * 9)]
    print("\n".join(lines), flush=True)
    errors, memories = [], []
    with tempfile.TemporaryDirectory() as folder:
        for cluster, model, batch, recipe in cases:
            profile = profile_of(options.bin, 1 if cluster == "real:1" else 2, options.profiles or folder)
            plan = os.path.join(folder, "plan.json")
            run(options.bin, "plan", model, "--cluster", cluster_file(cluster, profile, folder), "--batch", str(batch),
                "--dtype", "f32", "--recipe", recipe or "dp=1", "-o", plan, "-q")
            predicted, measured, memory, slow_down, lag = train(options.bin, plan, options.steps, options.runs)
            errors.append(abs(measured - predicted) / measured)
            memories.append(memory)
            lines.append(table_row([cluster, model.split(",heads")[0], recipe or "one device", f"{1e3 * predicted:.1f} ms",
                                    f"{1e3 * measured:.1f} ms", f"{100 * (predicted / measured - 1):+.1f} %",
                                    f"{100 * memory:.2f} %", f"{slow_down:.3g}", f"{100 * lag / measured:.1f} %"]))
            print(lines[-1], flush=True)
    median, p90, memory = statistics.median(errors), quantile(errors, 0.9), max(memories)
    summary = (f"{len(errors)} plans: step time off by {100 * median:.1f} % (median), {100 * p90:.1f} % (90th percentile); "
               f"peak memory at most {100 * memory:.2f} %")
    print("\n" + summary)
    if options.output:
        with open(options.output, "w") as out:
            out.write("\n".join(lines) + "\n\n" + summary + "\n")
    return 0 if median <= 0.08 and p90 <= 0.15 and memory <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
