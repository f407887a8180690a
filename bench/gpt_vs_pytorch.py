#!/usr/bin/env python3
"""One training step of a GPT with weft and with PyTorch eager, in turns, in one run.

6 layers x 384, seq 256, batch 8, vocab 8192, untied head, gelu tanh, AdamW, f32, one process, the same threads. Rounds
of both alternate, so that both see the same machine; the first steps of each round are dropped. Wanted: weft at least
as fast. PyTorch runs twice: with separate q, k, v linears and with one fused linear; the faster one counts.

    gpt_vs_pytorch.py BIN [--rounds 3] [--steps 6] [--drop 2] [--threads N]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

LAYERS, HIDDEN, HEADS, VOCAB, SEQ, BATCH = 6, 384, 6, 8192, 256, 8
MODEL = f"gpt:layers={LAYERS},hidden={HIDDEN},heads={HEADS},vocab={VOCAB},seq={SEQ},tied=0,gelu=tanh"


def make_gpt(torch, fused):
    """A plain GPT-2 as people write it."""
    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
            if fused:
                self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
            else:
                self.q, self.k, self.v = (nn.Linear(HIDDEN, HIDDEN) for _ in range(3))
            self.proj = nn.Linear(HIDDEN, HIDDEN)
            self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

        def forward(self, x, mask):
            y = self.ln_1(x)
            parts = self.qkv(y).split(HIDDEN, dim=2) if fused else (self.q(y), self.k(y), self.v(y))
            q, k, v = (p.view(BATCH, SEQ, HEADS, HIDDEN // HEADS).transpose(1, 2) for p in parts)
            scores = (q @ k.transpose(-2, -1)) * (HIDDEN // HEADS) ** -0.5
            a = functional.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v
            x = x + self.proj(a.transpose(1, 2).contiguous().view(BATCH, SEQ, HIDDEN))
            return x + self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQ, HIDDEN)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.ln_f, self.head = nn.LayerNorm(HIDDEN), nn.Linear(HIDDEN, VOCAB, bias=False)
            self.register_buffer("mask", torch.ones(SEQ, SEQ, dtype=torch.bool).triu(1))
            self.register_buffer("positions", torch.arange(SEQ))

        def forward(self, tokens, labels):
            x = self.wte(tokens) + self.wpe(self.positions)
            for block in self.blocks:
                x = block(x, self.mask)
            return functional.cross_entropy(self.head(self.ln_f(x)).view(-1, VOCAB), labels.view(-1))

    return Gpt()


def pytorch_child(fused, steps, threads):
    """Runs in a process of its own, like weft's worker; prints seconds of each step."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = make_gpt(torch, fused)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    times = []
    for _ in range(steps):
        tokens = torch.randint(VOCAB, (BATCH, SEQ + 1))
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = model(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
        loss.backward()
        optimizer.step()
        loss.item()
        times.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": times, "threads": torch.get_num_threads()}))


def run_pytorch(fused, options):
    env = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    words = [sys.executable, os.path.abspath(__file__), options.bin, "--pytorch-child", "fused" if fused else "apart",
             "--steps", str(options.steps), "--threads", str(options.threads)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True, env=env).stdout)["seconds"]


def make_plan(options, folder):
    plan = os.path.join(folder, "plan.json")
    subprocess.run([os.path.join(options.bin, "weft"), "plan", MODEL, "--cluster", "local:1", "--batch", str(BATCH),
                    "--recipe", "micro-batches=1", "-o", plan, "-q"], check=True)
    return plan


def run_weft(plan, options, folder):
    """`weft train` gives its one worker all cores; with fewer threads the worker is started by itself."""
    if options.threads == os.cpu_count():
        log = os.path.join(folder, "log.jsonl")
        subprocess.run([os.path.join(options.bin, "weft"), "train", "--plan", plan, "--data", "synthetic", "--steps",
                        str(options.steps), "--log", log, "-q"], check=True)
        with open(log) as file:
            return [json.loads(line)["seconds"] for line in file]
    env = dict(os.environ, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0",
               OMP_NUM_THREADS=str(options.threads))
    done = subprocess.run([os.path.join(options.bin, "weft-worker"), plan, "--data", "synthetic", "--steps",
                           str(options.steps), "--threads", str(options.threads)], check=True, capture_output=True,
                          text=True, env=env)
    return [float(line.split()[-2]) for line in done.stdout.splitlines() if line.startswith("step ")]


def show(name, seconds):
    median = statistics.median(seconds)
    print(f"{name:22} {1e3 * median:8.1f} ms/step {BATCH * SEQ / median:9.0f} tokens/s   "
          f"(of {len(seconds)}: {1e3 * min(seconds):.1f} to {1e3 * max(seconds):.1f} ms)")
    return median


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--drop", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pytorch-child", choices=["fused", "apart"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pytorch_child:
        pytorch_child(options.pytorch_child == "fused", options.steps, options.threads)
        return 0
    times = {"weft": [], "pytorch q,k,v apart": [], "pytorch qkv fused": []}
    with tempfile.TemporaryDirectory() as folder:
        plan = make_plan(options, folder)
        for _ in range(options.rounds):
            times["weft"] += run_weft(plan, options, folder)[options.drop:]
            times["pytorch q,k,v apart"] += run_pytorch(False, options)[options.drop:]
            times["pytorch qkv fused"] += run_pytorch(True, options)[options.drop:]
    print(f"{MODEL} batch {BATCH}, f32, AdamW, {options.threads} threads each, load {os.getloadavg()[0]:.1f}")
    medians = {name: show(name, seconds) for name, seconds in times.items()}
    ratio = min(medians[name] for name in medians if name != "weft") / medians["weft"]
    print(f"weft is {ratio:.2f}x as fast as PyTorch's faster one (wanted: at least 1.0)")
    return 0 if ratio >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
