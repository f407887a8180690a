#!/usr/bin/env python3
"""Every family: loss and all gradients of a tiny model equal a PyTorch module of the same definition (families.py), from
weights and in the names that weft stores; in f64 and f32."""
import json
import os
import subprocess
import sys
import tempfile

from families import CASES, model_text
from stored import read_folder

BIN = sys.argv[1]
BATCH = 4


def run_weft(folder, model, dtype):
    plan, dump = os.path.join(folder, "plan.json"), os.path.join(folder, "dump")
    subprocess.run([os.path.join(BIN, "weft"), "plan", model, "--cluster", "local:1", "--batch", str(BATCH), "--dtype",
                    dtype, "--recipe", "micro-batches=1", "-o", plan, "-q"], check=True)
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    subprocess.run([os.path.join(BIN, "weft-worker"), plan, "--data", "synthetic", "--steps", "1", "--lr", "0",
                    "--dump", dump], check=True, env=env, stdout=subprocess.DEVNULL)
    with open(os.path.join(dump, "losses.json")) as file:
        loss = json.load(file)["losses"][0]
    return loss, *(read_folder(os.path.join(dump, part)) for part in ("weights", "gradients", "inputs"))


def check(name, dtype):
    reference, settings = CASES[name]
    with tempfile.TemporaryDirectory() as folder:
        loss, weights, gradients, inputs = run_weft(folder, model_text(name), dtype)
    trained = {n: t.requires_grad_() for n, t in weights.items() if n in gradients}
    inputs = {n: t.to(next(iter(trained.values())).dtype) if t.is_floating_point() else t for n, t in inputs.items()}
    want = reference({**weights, **trained}, inputs, settings)
    want.backward()
    every = sum(t.grad.norm().item() ** 2 for t in trained.values()) ** 0.5
    relative, absolute = (1e-9, 1e-12 * every) if dtype == "f64" else (1e-4, 1e-6 * every)
    worst, bad = 0.0, []
    for tensor, parameter in trained.items():
        error, norm = (gradients[tensor] - parameter.grad).norm().item(), parameter.grad.norm().item()
        worst = max(worst, error / (norm + 1e-6 * every))
        if error > relative * norm + absolute:
            bad.append(f"{tensor}: off by {error:.2e} of {norm:.2e}")
    statistics = [n for n in weights if n not in gradients and "running" not in n and "num_batches" not in n]
    if statistics:
        bad.append(f"no gradient: {statistics}")
    good = not bad and abs(loss - want.item()) <= (1e-9 if dtype == "f64" else 1e-5) * abs(want.item())
    print(f"{'ok  ' if good else 'FAIL'} {name} {dtype}: loss {loss:.6f} want {want.item():.6f}, {len(trained)} gradients, "
          f"worst {worst:.1e}", *bad[:5], sep="\n     " if bad else " ", flush=True)
    return good


def main():
    names = sys.argv[2:] or CASES
    good = [check(name, dtype) for name in names for dtype in ("f64", "f32")]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
