#!/usr/bin/env python3
"""Every family under every kind of parallelism trains the same model as one device with the same micro-batches, and uses
the memory it said it would."""
import json
import os
import subprocess
import sys
import tempfile

from families import model_text

BIN = sys.argv[1]
RECIPES = [(2, "dp=2"), (2, "tp=2"), (2, "dp=2,zero=3"), (2, "pp=2,schedule=1f1b,recompute=block")]
FAMILIES = ["gpt moe", "llama", "mixtral", "qwen2-moe", "neox", "bert", "t5", "vit", "swin", "resnet", "resnet basic", "vgg",
            "unet"]
BATCH, MICRO_BATCHES = 5, 2  # 3 + 2 samples


def run(*words):
    done = subprocess.run([os.path.join(BIN, "weft"), *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def check(name, devices, recipe, folder):
    plan = os.path.join(folder, "plan.json")
    words = f"{recipe},micro-batches={MICRO_BATCHES}"
    code, _, said = run("plan", model_text(name), "--cluster", f"local:{devices}", "--batch", str(BATCH), "--recipe", words,
                        "--dtype", "f32", "--optimizer", "sgd", "-o", plan, "-q")
    if code == 0:
        code, out, said = run("verify", plan, "--steps", "3", "--json")
    if code not in (0, 1) or not code and not out:
        print(f"FAIL {name} {words}: exit {code}: {said.strip()[:300]}", flush=True)
        return False
    answer = json.loads(out)
    predicted, measured = answer["peak_memory_bytes"]["predicted"], answer["peak_memory_bytes"]["measured"]
    off = max(abs(p - m) / max(m, 1) for p, m in zip(predicted, measured))
    good = answer["equal"] and off <= 0.02
    print(f"{'ok  ' if good else 'FAIL'} {name} {words}: loss error {answer['loss_error']:.1e}, gradient error "
          f"{answer['gradient_error']['worst']:.1e} ({answer['gradient_error'].get('name')}), memory off by {100 * off:.2f} %", flush=True)
    return good


def main():
    names = sys.argv[2:] or FAMILIES
    with tempfile.TemporaryDirectory() as folder:
        good = [check(name, devices, recipe, folder) for name in names for devices, recipe in RECIPES]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
