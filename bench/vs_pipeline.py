#!/usr/bin/env python3
"""A pipeline of two stages, 1F1B with 8 micro-batches: weft against one written by hand in PyTorch, in one run.

f32, AdamW, two processes of one thread. The hand-written one sends without waiting, receives what it needs next, and is
given the best cut between its stages. Rounds of both alternate; the first steps of each round are dropped and the median
counts.

    vs_pipeline.py BIN [--rounds 3]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import pytorch_models
from vs_ddp import start_ranks

LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH, MICRO_BATCHES = 6, 384, 6, 8192, 256, 8, 8
MODEL = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},vocab={VOCAB},seq={SEQ},tied=0,gelu=tanh"
CUTS = (3, 4, 5)  # blocks of the first stage
DROP = 2  # steps at the start of a round
WANTED = 1.15


class Stage:
    """One of the two stages of the hand-written pipeline."""

    def __init__(self, torch, rank, cut):
        self.torch, self.distributed, self.rank = torch, torch.distributed, rank
        torch.manual_seed(0)
        self.module, self.inputs = pytorch_models.gpt(LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH // MICRO_BATCHES,
                                                      fused=True)(torch)
        m = self.module
        self.blocks = m.blocks[:cut] if rank == 0 else m.blocks[cut:]
        parts = [m.wte, m.wpe, *self.blocks] if rank == 0 else [*self.blocks, m.ln_f, m.head]
        self.parameters = [p for part in parts for p in part.parameters()]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=3e-4)
        self.shape = (BATCH // MICRO_BATCHES, SEQ, HIDDEN)

    def forward(self, tokens, labels):
        """(what came in, what goes out) of a micro-batch: a hidden state, or the last stage's loss."""
        m = self.module
        if self.rank == 0:
            came = None
            x = m.wte(tokens) + m.wpe(m.positions)
        else:
            came = self.torch.empty(self.shape)
            self.distributed.recv(came, 0)
            x = came.requires_grad_()
        for block in self.blocks:
            x = block(x, m.mask)
        if self.rank == 1:
            logits = m.head(m.ln_f(x)).view(-1, VOCAB)
            return came, self.torch.nn.functional.cross_entropy(logits, labels.view(-1)) / MICRO_BATCHES
        self.sent.append((self.distributed.isend(x.detach(), 1), x))
        return came, x

    def backward(self, came, went):
        if self.rank == 1:
            went.backward()
            self.sent.append((self.distributed.isend(came.grad, 0), came))
        else:
            gradient = self.torch.empty(self.shape)
            self.distributed.recv(gradient, 1)
            went.backward(gradient)

    def step(self):
        self.sent = []
        batches = [self.inputs() for _ in range(MICRO_BATCHES)]
        self.distributed.barrier()
        begin = time.perf_counter()
        self.optimizer.zero_grad(set_to_none=False)
        ahead = 1 - self.rank  # forwards before the first backward
        waiting = []
        for batch in batches:
            waiting.append(self.forward(*batch))
            if len(waiting) > ahead:
                self.backward(*waiting.pop(0))
        while waiting:
            self.backward(*waiting.pop(0))
        for work, _ in self.sent:
            work.wait()
        self.optimizer.step()
        self.distributed.barrier()
        return time.perf_counter() - begin


def pytorch_child(cut, steps):
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    stage = Stage(torch, rank, cut)
    seconds = [stage.step() for _ in range(steps)]
    if rank == 0:
        print(json.dumps(seconds))


def run_pytorch(cut, steps):
    words = [sys.executable, os.path.abspath(__file__), "-", "--child", str(cut), "--steps", str(steps)]
    return json.loads(start_ranks(words)[0])


def run_weft(plan, options):
    words = [os.path.join(options.bin, "weft-worker"), plan, "--data", "synthetic", "--steps", str(options.steps),
             "--threads", "1"]
    return [float(line.split()[-2]) for out in start_ranks(words) for line in out.splitlines() if line.startswith("step ")]


def show(name, seconds):
    print(f"  {name:24} {1e3 * statistics.median(seconds):9.2f} ms/step   "
          f"({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})")


def compare(options, folder):
    plan = os.path.join(folder, "plan.json")
    subprocess.run([os.path.join(options.bin, "weft"), "plan", MODEL, "--cluster", "local:2", "--batch", str(BATCH),
                    "--recipe", f"pp=2,schedule=1f1b,micro-batches={MICRO_BATCHES}", "-o", plan, "-q"], check=True)
    weft, pytorch = [], {cut: [] for cut in CUTS}
    for _ in range(options.rounds):
        weft += run_weft(plan, options)[DROP:]
        for cut, results in pytorch.items():
            results += run_pytorch(cut, options.steps)[DROP:]
    print(f"{MODEL} batch {BATCH}, 2 stages, 1F1B, {MICRO_BATCHES} micro-batches, load {os.getloadavg()[0]:.1f}")
    show("weft", weft)
    for cut, seconds in pytorch.items():
        show(f"by hand, cut after {cut}", seconds)
    ratio = min(statistics.median(seconds) for seconds in pytorch.values()) / statistics.median(weft)
    print(f"  times as fast: {ratio:.3f}, wanted at least {WANTED}: {'yes' if ratio >= WANTED else 'NO'}")
    return ratio >= WANTED


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="a round")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        pytorch_child(options.child, options.steps)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return 0 if compare(options, folder) else 1


if __name__ == "__main__":
    sys.exit(main())
