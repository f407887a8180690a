#!/usr/bin/env python3
"""Every optimizer follows a reference (torch.optim, or the few lines of its paper) for some steps, alone and under
recipes that split gradients and states; --freeze leaves parameters alone; labels are smoothed as in PyTorch; one big batch
equals its micro-batches."""
import json
import os
import subprocess
import sys
import tempfile

import torch

import pytorch_test as reference
from pytorch_test import BATCH, BIN, HEADS, HIDDEN, LAYERS, SEQ, VOCAB, gpt_loss, make_data
from stored import read_ranks

STEPS, CLIP = 8, 0.5
MODEL = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},vocab={VOCAB},seq={SEQ},tied=1,gelu=tanh"


class Lion(torch.optim.Optimizer):
    """Algorithm 2 of Chen et al., 2023."""

    def __init__(self, parameters, lr, betas, weight_decay):
        super().__init__(parameters, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = (beta1 * m + (1 - beta1) * p.grad).sign()
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


class Adafactor(torch.optim.Optimizer):
    """transformers' Adafactor with scale_parameter=False, relative_step=False, without momentum."""

    def __init__(self, parameters, lr, weight_decay, eps=1e-30, threshold=1.0, decay=0.8):
        super().__init__(parameters, dict(lr=lr, weight_decay=weight_decay, eps=eps, threshold=threshold, decay=decay))
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            beta = 1 - self.t ** -group["decay"]
            for p in group["params"]:
                state, square = self.state[p], p.grad**2 + group["eps"]
                if p.dim() >= 2:
                    row = state.setdefault("row", torch.zeros_like(square.mean(-1)))
                    column = state.setdefault("column", torch.zeros_like(square.mean(-2)))
                    row.mul_(beta).add_(square.mean(-1), alpha=1 - beta)
                    column.mul_(beta).add_(square.mean(-2), alpha=1 - beta)
                    rows = (row / row.mean(-1, keepdim=True)).rsqrt().unsqueeze(-1)
                    update = rows * column.unsqueeze(-2).rsqrt() * p.grad
                else:
                    v = state.setdefault("v", torch.zeros_like(p))
                    v.mul_(beta).add_(square, alpha=1 - beta)
                    update = v.rsqrt() * p.grad
                rms = update.norm() / update.numel() ** 0.5
                update = update / max(1.0, (rms / group["threshold"]).item()) * group["lr"]
                p.add_(p, alpha=-group["weight_decay"] * group["lr"])
                p.sub_(update)


OPTIMIZERS = {
    "sgd": (0.05, ["--momentum", "0.8", "--weight-decay", "0.01"],
            lambda p, lr: torch.optim.SGD(p, lr, momentum=0.8, weight_decay=0.01)),
    "sgd nesterov": (0.05, ["--nesterov"], lambda p, lr: torch.optim.SGD(p, lr, momentum=0.9, nesterov=True)),
    "adam": (3e-3, ["--weight-decay", "0.02", "--beta2", "0.95", "--epsilon", "1e-6"],
             lambda p, lr: torch.optim.Adam(p, lr, (0.9, 0.95), 1e-6, 0.02)),
    "adamw": (3e-3, ["--beta1", "0.8"], lambda p, lr: torch.optim.AdamW(p, lr, (0.8, 0.999), weight_decay=0.01)),
    "lion": (1e-3, ["--weight-decay", "0.1"], lambda p, lr: Lion(p, lr, (0.9, 0.99), 0.1)),
    "adafactor": (3e-3, ["--weight-decay", "0.1"], lambda p, lr: Adafactor(p, lr, 0.1)),
}


def weft(*words):
    return subprocess.run([os.path.join(BIN, "weft"), *words], check=True, capture_output=True, text=True).stdout


def train(folder, data, words, steps, lr, recipe="micro-batches=2", cluster="local:1"):
    """Losses of the steps, from `weft train`'s log."""
    log = os.path.join(folder, "log.jsonl")
    weft("train", MODEL, "--cluster", cluster, "--batch", str(BATCH), "--dtype", "f64", "--recipe", recipe, "--clip",
         str(CLIP), "--data", f"tokens:{data}", "--steps", str(steps), "--lr", str(lr), "--log", log, "-q", *words)
    with open(log) as file:
        return [json.loads(line)["loss"] for line in file]


def first_weights(data):
    with tempfile.TemporaryDirectory() as folder:
        _, dump = reference.run_weft(folder, "f64", 1, "tanh", data)
        return {n: t for n, t in read_ranks(dump).items() if not n.endswith(".grad")}


def check_optimizer(name, weights, data, tokens, labels):
    lr, words, make = OPTIMIZERS[name]
    parameters = {n: t.clone().requires_grad_() for n, t in weights.items()}
    optimizer = make(list(parameters.values()), lr)
    want = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = gpt_loss(parameters, tokens, labels, True, "tanh")
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), CLIP)
        optimizer.step()
        want.append(loss.item())
    good = True
    words = ["--optimizer", name.split()[0], *words]
    recipes = [("local:1", "micro-batches=2"), ("local:1", "micro-batches=1")]
    if name in ("adafactor", "lion"):
        recipes += [("local:2", r) for r in ("dp=2,zero=1", "dp=2,zero=3", "tp=2", "pp=2,micro-batches=2")]
    for cluster, recipe in recipes:
        with tempfile.TemporaryDirectory() as folder:
            losses = train(folder, data, words, STEPS, lr, recipe, cluster)
        worst = max(abs(a - b) / b for a, b in zip(losses, want))
        ok = len(losses) == STEPS and worst <= 1e-6 and losses[-1] < losses[0]
        print(f"{'ok  ' if ok else 'FAIL'} {name} {recipe}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
              f"largest relative error {worst:.1e}")
        good = good and ok
    return good


def check_freeze(weights, data):
    """Frozen parameters stay, the others move; what is below the frozen part needs no backward pass."""
    good = True
    frozen = ["*wte*", "*wpe*", "h.0/*"]
    words = [w for pattern in frozen for w in ("--freeze", pattern)]
    want_losses = None
    for cluster, recipe in (("local:1", "micro-batches=2"), ("local:2", "pp=2,micro-batches=2"), ("local:2", "dp=2,zero=1"),
                            ("local:2", "dp=2,zero=3")):
        with tempfile.TemporaryDirectory() as folder:
            losses = train(folder, data, [*words, "--save", os.path.join(folder, "save")], 3, 1e-2, recipe, cluster)
            after = read_ranks(os.path.join(folder, "save"))
        want_losses = want_losses or losses
        ok = max(abs(a - b) / b for a, b in zip(losses, want_losses)) <= 1e-9 and losses[-1] < losses[0]
        print(f"{'ok  ' if ok else 'FAIL'} losses of {recipe}: {losses}")
        good = good and ok
        if "zero=3" in recipe:
            continue  # every rank saved a part of each parameter
        stays = [n for n, t in weights.items() if torch.equal(t, after[n])]
        want = [n for n in weights if "wte" in n or "wpe" in n or n.startswith("h.0/")]
        ok = sorted(stays) == sorted(want) and not any(n.startswith("h.0/") and n not in weights for n in after)
        print(f"{'ok  ' if ok else 'FAIL'} freeze under {recipe}: {len(stays)} of {len(weights)} parameters stayed")
        good = good and ok
    failed = subprocess.run([os.path.join(BIN, "weft"), "plan", MODEL, "--cluster", "local:1", "--batch", "2", "--freeze",
                             "h.0/ln_1/v"], capture_output=True, text=True)
    ok = failed.returncode == 2 and "h.0/ln_1/w" in failed.stderr
    print(f"{'ok  ' if ok else 'FAIL'} a pattern without a match: {failed.stderr.strip()}")
    return good and ok


def check_label_smoothing(weights, data, tokens, labels):
    plain = torch.nn.functional.cross_entropy
    reference.F.cross_entropy = lambda *words, **more: plain(*words, label_smoothing=0.1, **more)
    want = gpt_loss(weights, tokens, labels, True, "tanh").item()
    reference.F.cross_entropy = plain
    with tempfile.TemporaryDirectory() as folder:
        losses = train(folder, data, ["--label-smoothing", "0.1"], 2, 1e-2)
    ok = abs(losses[0] - want) <= 1e-12 and losses[1] < losses[0]
    print(f"{'ok  ' if ok else 'FAIL'} label smoothing: loss {losses[0]}, PyTorch {want}")
    return ok


def main():
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data.bin")
        tokens, labels = make_data(data)
        weights = first_weights(data)
        good = [check_optimizer(name, weights, data, tokens, labels) for name in OPTIMIZERS]
        good.append(check_freeze(weights, data))
        good.append(check_label_smoothing(weights, data, tokens, labels))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
