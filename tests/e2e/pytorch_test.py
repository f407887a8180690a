#!/usr/bin/env python3
"""Loss and gradients of a tiny GPT equal PyTorch's from the same weights (f64 and f32)."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from stored import read_ranks

BIN = sys.argv[1]
LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH = 2, 32, 4, 64, 16, 6


def gpt_loss(p, tokens, labels, tied, approximate):
    x = F.embedding(tokens, p["embed/wte.weight"]) + p["embed/wpe.weight"]
    batch = tokens.shape[0]
    mask = torch.full((SEQ, SEQ), float("-inf"), dtype=x.dtype).triu(1)

    def heads(y):
        return y.view(batch, SEQ, HEADS, HIDDEN // HEADS).transpose(1, 2)

    for i in range(LAYERS):
        def w(name):
            return p[f"h.{i}/{name}"]
        y = F.layer_norm(x, (HIDDEN,), w("ln_1/w"), w("ln_1/b"))
        q, k, v = (heads(F.linear(y, w(f"attn/{n}/w"), w(f"attn/{n}/b"))) for n in "qkv")
        a = torch.softmax(q @ k.transpose(-1, -2) / (HIDDEN // HEADS) ** 0.5 + mask, -1) @ v
        a = a.transpose(1, 2).reshape(batch, SEQ, HIDDEN)
        x = x + F.linear(a, w("attn/proj/w")) + w("attn/proj/b")
        y = F.layer_norm(x, (HIDDEN,), w("ln_2/w"), w("ln_2/b"))
        y = F.gelu(F.linear(y, w("mlp/up/w"), w("mlp/up/b")), approximate=approximate)
        x = x + F.linear(y, w("mlp/down/w")) + w("mlp/down/b")
    x = F.layer_norm(x, (HIDDEN,), p["head/ln_f/w"], p["head/ln_f/b"])
    logits = F.linear(x, p["embed/wte.weight"] if tied else p["head/logits/w"])
    return F.cross_entropy(logits.view(-1, VOCAB), labels.view(-1), ignore_index=-100)


def run_weft(folder, dtype, tied, gelu, data, steps=1, lr=0.0, clip=0.0):
    plan, dump = os.path.join(folder, "plan.json"), os.path.join(folder, "dump")
    model = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},vocab={VOCAB},seq={SEQ},tied={tied},gelu={gelu}"
    subprocess.run([os.path.join(BIN, "weft"), "plan", model, "--cluster", "local:1", "--batch", str(BATCH), "--dtype",
                    dtype, "--recipe", "micro-batches=2", "--clip", str(clip), "-o", plan, "-q"], check=True)
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    subprocess.run([os.path.join(BIN, "weft-worker"), plan, "--data", f"tokens:{data}", "--steps", str(steps), "--lr", str(lr),
                    "--dump", dump], check=True, env=env, stdout=subprocess.DEVNULL)
    with open(os.path.join(dump, "losses.json")) as file:
        return json.load(file)["losses"], dump


def make_data(path):
    """As many tokens as one batch takes, so that every step sees all of them, in whatever order."""
    stream = np.random.default_rng(7).integers(0, VOCAB, BATCH * SEQ + 1).astype(np.uint16)
    stream.tofile(path)
    tokens = torch.from_numpy(stream[:-1].astype(np.int64)).view(BATCH, SEQ)
    labels = torch.from_numpy(stream[1:].astype(np.int64)).view(BATCH, SEQ)
    return tokens, labels


def check_training(steps=30, lr=3e-3, clip=0.5):
    """The losses of a run with AdamW and clipping follow PyTorch's from the same weights."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.bin")
        tokens, labels = make_data(data)
        _, dump = run_weft(folder, "f64", 1, "tanh", data)
        parameters = {n: t.requires_grad_() for n, t in read_ranks(dump).items() if not n.endswith(".grad")}
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.bin")
        make_data(data)
        losses, _ = run_weft(folder, "f64", 1, "tanh", data, steps, lr, clip)
    optimizer = torch.optim.AdamW(parameters.values(), lr=lr, weight_decay=0.01)
    worst = 0.0
    for step in range(steps):
        optimizer.zero_grad()
        loss = gpt_loss(parameters, tokens, labels, True, "tanh")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), clip)
        optimizer.step()
        worst = max(worst, abs(loss.item() - losses[step]) / loss.item())
    good = worst <= 1e-6 and losses[-1] < losses[0] - 0.5
    print(f"{'ok  ' if good else 'FAIL'} {steps} steps of AdamW: loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"largest relative error {worst:.1e}")
    return good


def check(dtype, tied, gelu):
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.bin")
        tokens, labels = make_data(data)
        losses, dump = run_weft(folder, dtype, tied, gelu, data)
        loss = losses[0]
        stored = read_ranks(dump)
    parameters = {n: t.requires_grad_() for n, t in stored.items() if not n.endswith(".grad")}
    want = gpt_loss(parameters, tokens, labels, tied, "tanh" if gelu == "tanh" else "none")
    want.backward()
    every = torch.cat([t.grad.flatten() for t in parameters.values()]).norm().item()
    relative, absolute = (1e-9, 0.0) if dtype == "f64" else (1e-4, 1e-6 * every)
    worst, bad = 0.0, []
    for name, tensor in parameters.items():
        error = (stored[name + ".grad"] - tensor.grad).norm().item()
        norm = tensor.grad.norm().item()
        worst = max(worst, error / (norm + 1e-6 * every))
        # Key biases have a gradient of zero by symmetry: rounding is all there is.
        if error > relative * norm + absolute + (1e-12 * every if dtype == "f64" else 0):
            bad.append(f"{name}: off by {error:.2e} of {norm:.2e}")
    good = not bad and abs(loss - want.item()) <= (1e-9 if dtype == "f64" else 1e-5) * abs(want.item())
    print(f"{'ok  ' if good else 'FAIL'} {dtype} tied={tied} gelu={gelu}: loss {loss} want {want.item()}, "
          f"{len(parameters)} gradients, worst {worst:.1e}", *bad, sep="\n     " if bad else " ")
    return good


def main():
    good = [check(dtype, tied, gelu) for dtype in ("f64", "f32") for tied, gelu in ((1, "tanh"), (0, "erf"))]
    good.append(check_training())
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
