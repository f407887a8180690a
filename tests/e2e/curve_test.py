#!/usr/bin/env python3
"""200 steps of a tiny GPT (AdamW, f64) and a tiny ResNet (SGD with momentum, f64) follow PyTorch's loss curve from the same
weights and data. The data is one batch, so that every step sees all samples, in whatever order."""
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

from checks import WEFT, WORKER, check, summary
from families import CASES, model_text
from stored import read_folder

STEPS, BATCH = 200, 8


def npy(path, array):
    np.save(path, array)
    return path


def run_worker(folder, model, dtype, data, steps, lr, words):
    """Losses of the steps and the folder of dumps."""
    plan, dump = os.path.join(folder, "plan.json"), os.path.join(folder, f"dump{steps}")
    subprocess.run([WEFT, "plan", model, "--cluster", "local:1", "--batch", str(BATCH), "--dtype", dtype, "--recipe",
                    "micro-batches=1", "-o", plan, "-q", *words], check=True)
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    subprocess.run([WORKER, plan, "--data", data, "--steps", str(steps), "--lr", str(lr), "--schedule", "constant", "--dump",
                    dump], check=True, env=env, stdout=subprocess.DEVNULL)
    with open(os.path.join(dump, "losses.json")) as file:
        return json.load(file)["losses"], dump


def follow(name, dtype, data, lr, words, make, folder):
    """weft's losses, PyTorch's losses, and the weights that both end with."""
    reference, settings = CASES[name]
    _, dump = run_worker(folder, model_text(name), dtype, data, 1, 0, words)
    gradients = read_folder(os.path.join(dump, "gradients"))
    weights = read_folder(os.path.join(dump, "weights"))
    parameters = {n: t.requires_grad_() for n, t in weights.items() if n in gradients}
    inputs = read_folder(os.path.join(dump, "inputs"))
    wide = next(iter(parameters.values())).dtype
    inputs = {n: t.to(wide) if t.is_floating_point() else t for n, t in inputs.items()}
    got, dump = run_worker(folder, model_text(name), dtype, data, STEPS, lr, words)
    optimizer = make(list(parameters.values()), lr)
    want = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = reference(parameters, inputs, settings)
        loss.backward()
        optimizer.step()
        want.append(loss.item())
    after = read_folder(os.path.join(dump, "weights"))
    return got, want, {n: (after[n], t.detach()) for n, t in parameters.items()}


def compare(what, losses, tolerance, weights, weights_tolerance):
    got, want = losses
    worst = max(abs(a - b) / max(abs(b), abs(want[0]) * 1e-2) for a, b in zip(got, want))
    good = len(got) == STEPS and worst <= tolerance and want[-1] < 0.5 * want[0]
    check(f"{what}: {STEPS} losses {got[0]:.4f} -> {got[-1]:.6f}, largest relative error {worst:.1e}", good,
          f"{got[::20]}\n{want[::20]}")
    far = max((a - b).norm().item() / max(b.norm().item(), 1e-3) for a, b in weights.values())
    check(f"{what}: the weights at the end, largest relative error {far:.1e}", far <= weights_tolerance)


def main():
    generator = np.random.default_rng(11)
    with tempfile.TemporaryDirectory() as folder:
        settings = CASES["gpt"][1]
        tokens = os.path.join(folder, "tokens.bin")
        generator.integers(0, settings["vocab"], BATCH * settings["seq"] + 1).astype(np.uint16).tofile(tokens)
        got, want, weights = follow("gpt", "f64", "tokens:" + tokens, 2e-3, ["--optimizer", "adamw"],
                                    lambda p, lr: torch.optim.AdamW(p, lr, weight_decay=0.01), folder)
        compare("GPT with AdamW in f64", (got, want), 1e-6, weights, 1e-4)
    with tempfile.TemporaryDirectory() as folder:
        side, classes = CASES["resnet"][1]["image"], CASES["resnet"][1]["classes"]
        images = npy(os.path.join(folder, "x.npy"), generator.integers(0, 256, (BATCH, side, side, 3)).astype(np.uint8))
        labels = npy(os.path.join(folder, "y.npy"), (np.arange(BATCH) % classes).astype(np.int64))
        got, want, weights = follow("resnet", "f64", f"images:{images},{labels}", 2e-2,
                                    ["--optimizer", "sgd", "--momentum", "0.9"],
                                    lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9), folder)
        compare("ResNet with SGD and momentum in f64", (got, want), 1e-6, weights, 1e-4)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
