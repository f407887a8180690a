#!/usr/bin/env python3
"""--eval-every measures PyTorch's loss on the held-out samples, without dropout, under every recipe, within the memory that
was promised."""
import json
import math
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

import pytorch_test as reference
from pytorch_test import BATCH, BIN, HEADS, HIDDEN, LAYERS, SEQ, VOCAB, gpt_loss
from stored import read_ranks

SAMPLES, HELD_OUT = 20, 4
MODEL = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},vocab={VOCAB},seq={SEQ},tied=1,gelu=tanh"


def train(data, recipe, cluster, dropout, lr):
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.jsonl")
        out = subprocess.run(
            [os.path.join(BIN, "weft"), "train", f"{MODEL},dropout={dropout}", "--cluster", cluster, "--batch", str(BATCH),
             "--dtype", "f64", "--recipe", recipe, "--data", f"tokens:{data}", "--steps", "3", "--lr", str(lr), "--log", log,
             "--eval-every", "2", "--held-out", str(HELD_OUT / SAMPLES), "--json"],
            check=True, capture_output=True, text=True).stdout
        with open(log) as file:
            lines = [json.loads(line) for line in file]
    return [line for line in lines if "eval_loss" in line], json.loads(out)


def main():
    good = []

    def check(ok, what):
        good.append(bool(ok))
        print(f"{'ok  ' if ok else 'FAIL'} {what}")

    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.bin")
        stream = np.random.default_rng(3).integers(0, VOCAB, SAMPLES * SEQ + 1).astype(np.uint16)
        stream.tofile(data)
        with tempfile.TemporaryDirectory() as inner:
            _, dump = reference.run_weft(inner, "f64", 1, "tanh", data)  # a learning rate of 0
            weights = {n: t for n, t in read_ranks(dump).items() if not n.endswith(".grad")}
        first = (SAMPLES - HELD_OUT) * SEQ
        tokens = torch.from_numpy(stream[first:-1].astype(np.int64)).view(HELD_OUT, SEQ)
        labels = torch.from_numpy(stream[first + 1:].astype(np.int64)).view(HELD_OUT, SEQ)
        want = gpt_loss(weights, tokens, labels, True, "tanh").item()
        for dropout in (0, 0.3):
            lines, _ = train(data, "micro-batches=2", "local:1", dropout, 0.0)
            errors = [abs(line["eval_loss"] - want) / want for line in lines]
            check([line["step"] for line in lines] == [2, 3] and max(errors) <= 1e-9,
                  f"held-out loss with dropout {dropout}: {[line['eval_loss'] for line in lines]}, PyTorch {want}")
            check(math.isclose(lines[0]["perplexity"], math.exp(lines[0]["eval_loss"])), "perplexity")
        alone, _ = train(data, "micro-batches=2", "local:1", 0, 0.01)
        for recipe in ("dp=2", "dp=2,zero=3", "tp=2", "pp=2,micro-batches=3", "dp=2,zero=1,recompute=block"):
            lines, out = train(data, recipe, "local:2", 0, 0.01)
            worst = max(abs(a["eval_loss"] - b["eval_loss"]) / b["eval_loss"] for a, b in zip(lines, alone))
            check(len(lines) == len(alone) and worst <= 1e-9, f"{recipe}: as one device, worst relative error {worst:.1e}")
            memory = out["peak_memory_bytes"]
            check(all(m <= p for m, p in zip(memory["measured"], memory["predicted"])), f"{recipe}: memory {memory}")
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
