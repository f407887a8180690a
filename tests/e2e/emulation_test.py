#!/usr/bin/env python3
"""Emulated clusters: the same numbers as on one device, at the pace of the emulated devices.

Slow devices run in real time, so the step must take what the simulator says; fast ones are slowed down by a stated
factor. Memory is held to the device's size.
"""
import json
import os
import subprocess
import sys
import tempfile

BIN = sys.argv[1]
GPT = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16,dropout=0.1,tied=1"

LARGER = "gpt:layers=2,hidden=256,heads=4,vocab=512,seq=128"


def cluster(devices, links, emulate):
    return {"emulate": emulate,
            "hosts": [{"name": "a", "devices": devices,
                       "links": [{"between": "devices", "bandwidth": links[0], "latency": links[1]}]}]}


def slow(count, emulate=True):
    """A step of the model takes some tenths of a second on these."""
    return cluster([{"type": "slow", "count": count, "flops": {"f32": 4e8}, "memory": "64MiB",
                     "memory_bandwidth": "200MB/s", "launch": "200us"}], ("20MB/s", "2ms"), emulate)


def weft(*words):
    return subprocess.run([os.path.join(BIN, "weft"), *words], capture_output=True, text=True)


def run(*words):
    done = weft(*words)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    return done.stdout


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def verify(folder, file, recipe, *more, model=GPT):
    path, plan = os.path.join(folder, "cluster.json"), os.path.join(folder, "plan.json")
    with open(path, "w") as out:
        json.dump(file, out)
    run("plan", model, "--cluster", path, "--batch", "14", "--dtype", "f32", "--recipe", recipe, "-o", plan, "-q")
    return json.loads(run("verify", plan, "--steps", "4", "--json", *more))


def check_pace(result, name):
    predicted, measured = result["step_seconds"]["predicted"], result["step_seconds"]["measured"]
    lag = result["emulation"]["lag_seconds"]
    check(result["equal"], f"{name}: not the numbers of one device")
    check(measured >= 0.97 * predicted, f"{name}: {measured} s a step, faster than the devices could: {predicted}")
    # Other work on the machine delays; what is not delay must be about as predicted. How near is printed.
    check(measured - lag <= 2 * predicted, f"{name}: {measured} s a step with a lag of {lag}, predicted {predicted}")
    print(f"{name}: {1e3 * predicted:.0f} ms predicted, {1e3 * measured:.0f} ms measured, lag {1e3 * lag:.1f} ms, "
          f"slow-down {result['emulation']['slow_down']:.3g}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for count, recipe in [(1, "micro-batches=2"), (2, "dp=2"), (2, "tp=2"), (2, "pp=2,micro-batches=4"),
                              (4, "dp=2,pp=2,zero=1,micro-batches=4")]:
            result = verify(folder, slow(count), recipe)
            check(result["emulation"]["slow_down"] == 1, f"{recipe}: slow devices run in real time")
            check_pace(result, recipe)
        trace = os.path.join(folder, "trace.json")
        fast = cluster([{"type": "A100-80GB", "count": 2}], ("300GB/s", "5us"), True)
        result = verify(folder, fast, "dp=2,zero=3", "--trace", trace, model=LARGER)
        check(result["emulation"]["slow_down"] > 2, "an A100 is faster than this machine")
        check_pace(result, "A100")
        with open(trace) as file:
            step_s = json.load(file)["otherData"]["step_s"]
        check(0.5 < step_s / result["step_seconds"]["measured"] < 2, "the trace is in emulated time")
        result = verify(folder, slow(2, "cpu-time"), "dp=2", "--slow-down", "5")
        check(result["equal"] and result["emulation"]["slow_down"] == 5, "cpu-time with a slow-down of 5")
        tiny = slow(2)
        tiny["hosts"][0]["devices"][0]["memory"] = "100KiB"
        path = os.path.join(folder, "cluster.json")
        with open(path, "w") as out:
            json.dump(tiny, out)
        done = weft("train", GPT, "--cluster", path, "--batch", "8", "--data", "synthetic", "--steps", "1", "--dtype", "f32")
        check(done.returncode == 3, f"a device of 100 KiB holds no plan: exit {done.returncode}")
        done = weft("verify", os.path.join(folder, "plan.json"), "--slow-down", "0.5")
        check(done.returncode == 2 and "--slow-down" in done.stderr, "a slow-down below 1 makes no sense")
    print("emulation: all is well")


main()
