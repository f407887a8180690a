#!/usr/bin/env python3
"""--dtype bf16: the loss follows that of f32, alone and under recipes, and master weights keep updates that are smaller than the
last bit of a bf16 number."""
import json
import os
import subprocess
import sys
import tempfile

import torch

from stored import read_ranks

BIN = sys.argv[1]
MODEL = "gpt:layers=2,hidden=64,heads=4,vocab=256,seq=32"
TOLERANCE = 0.005  # of the loss, in every step; one bf16 number is known to 0.004


def train(folder, dtype, steps, lr, recipe="micro-batches=2", cluster="local:1"):
    log = os.path.join(folder, "log.jsonl")
    out = subprocess.run([os.path.join(BIN, "weft"), "train", MODEL, "--cluster", cluster, "--batch", "8", "--dtype", dtype,
                          "--recipe", recipe, "--data", "synthetic", "--steps", str(steps), "--lr", str(lr), "--clip", "1", "--log",
                          log, "--save", os.path.join(folder, "save"), "--weight-decay", "0", "--json"], check=True,
                         capture_output=True, text=True).stdout
    with open(log) as file:
        return [json.loads(line)["loss"] for line in file], json.loads(out)


def main():
    good = []

    def check(ok, what):
        good.append(bool(ok))
        print(f"{'ok  ' if ok else 'FAIL'} {what}")

    with tempfile.TemporaryDirectory() as folder:
        want, wide = train(folder, "f32", 40, 3e-3)
    for recipe, cluster in (("micro-batches=2", "local:1"), ("dp=2,zero=1", "local:2"), ("dp=2,zero=3", "local:2"),
                            ("tp=2,micro-batches=2", "local:2"), ("pp=2,micro-batches=2", "local:2")):
        with tempfile.TemporaryDirectory() as folder:
            losses, out = train(folder, "bf16", 40, 3e-3, recipe, cluster)
        worst = max(abs(a - b) / b for a, b in zip(losses, want))
        check(worst <= TOLERANCE and losses[-1] < losses[0] - 0.5,
              f"{recipe}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, f32 {want[-1]:.4f}, largest relative error {worst:.1e}")
        memory = out["peak_memory_bytes"]
        check(all(m <= p for m, p in zip(memory["measured"], memory["predicted"])), f"{recipe}: memory {memory}")
    states = []
    for steps in (1, 2, 40):
        with tempfile.TemporaryDirectory() as folder:
            train(folder, "bf16", steps, 1e-5)
            states.append(read_ranks(folder))
    wte = next(n for n in states[0] if "wte" in n and n + ".master" in states[0])
    for state in states:
        rounded = all(torch.equal(t, state[n + ".master"].bfloat16()) for n, t in state.items() if n + ".master" in state)
        check(rounded and state[wte].dtype == torch.bfloat16, "parameters are rounded masters")
    first, second, last = states
    lost = (first[wte] == second[wte]).float().mean().item()
    kept = (first[wte + ".master"] != second[wte + ".master"]).float().mean().item()
    moved = (first[wte] != last[wte]).float().mean().item()
    check(lost > 0.7 and kept > 0.9, f"a step moves {kept:.2f} of the masters; {lost:.2f} of the bf16 numbers stay")
    check(moved > 0.5, f"40 such steps move {moved:.2f} of the bf16 numbers")
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
