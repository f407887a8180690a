#!/usr/bin/env python3
"""One training step with weft and with PyTorch eager, in turns, in one run: time, memory, time outside kernels.

f32, AdamW, one process, the same threads. Rounds of both alternate, so that both see the same machine; the first steps
of each round are dropped and the median counts. Where a case has several ways to write the model in PyTorch, the
fastest of them, and the leanest, count.

Memory is the most bytes of tensors at a time: weft's allocator counts them, PyTorch's profiler reports every
allocation. The growth of the resident set (over that of the same program with a tiny model) is shown beside it.

    vs_pytorch.py BIN [CASE …] [--rounds 3] [--threads N] [--cpu]

--cpu compares processor time instead of wall time: with one thread and a busy machine the better measure.
"""
import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, Dict, Optional

import pytorch_models

MIB = 1 << 20
TINY_MODEL = "gpt:layers=1,hidden=8,heads=1,vocab=8,seq=4"


@dataclasses.dataclass
class Case:
    model: str  # weft's
    batch: int
    units: int  # tokens or images a step
    pytorch: Dict[str, Callable]  # name of the variant -> model, see pytorch_models
    faster: float  # wanted: PyTorch's time / weft's
    memory: Optional[float] = None  # wanted at most: weft's bytes / PyTorch's
    outside: Optional[float] = None  # wanted at most: share of the step outside kernels
    steps: int = 6
    drop: int = 2


def gpt_case(layers, hidden, heads, vocab, seq, batch, **wanted):
    sizes = (layers, hidden, heads, vocab, seq, batch)
    return Case(model=f"gpt:layers={layers},hidden={hidden},heads={heads},vocab={vocab},seq={seq},tied=0,gelu=tanh",
                batch=batch, units=batch * seq,
                pytorch={"q,k,v apart": pytorch_models.gpt(*sizes, fused=False),
                         "qkv fused": pytorch_models.gpt(*sizes, fused=True)}, **wanted)


CASES = {
    "gpt": gpt_case(6, 384, 6, 8192, 256, 8, faster=1.25, memory=0.75, outside=0.03),
    "tiny": gpt_case(1, 64, 4, 64, 16, 1, faster=1.7, steps=300, drop=50),
    "llama": Case(model="llama:layers=6,hidden=384,heads=6,ffn=1024,vocab=8192,seq=256", batch=8, units=8 * 256,
                  pytorch={"eager": pytorch_models.llama(6, 384, 6, 1024, 8192, 256, 8)}, faster=1.2),
    "bert": Case(model="bert:layers=6,hidden=384,heads=6,vocab=8192,seq=256", batch=8, units=8 * 256,
                 pytorch={"eager": pytorch_models.bert(6, 384, 6, 8192, 256, 8)}, faster=1.2),
    "resnet18": Case(model="resnet:depths=2/2/2/2,sizes=64/128/256/512,block=basic,image=64,classes=1000", batch=16, units=16,
                     pytorch={"contiguous": pytorch_models.resnet18(64, 16, 1000, False),
                              "channels last": pytorch_models.resnet18(64, 16, 1000, True)}, faster=1.15),
}


# ---- PyTorch, in a process of its own


class Training:
    """One step after the other, as people write it."""

    def __init__(self, torch, case, variant):
        torch.manual_seed(0)
        self.torch = torch
        self.module, self.inputs = case.pytorch[variant](torch)
        self.optimizer = torch.optim.AdamW(self.module.parameters(), lr=3e-4)

    def step(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.module(*batch)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def kept_bytes(self):
        """Parameters and states: what lives from step to step."""
        tensors = list(self.module.parameters()) + list(self.module.buffers())
        tensors += [t for s in self.optimizer.state.values() for t in s.values() if self.torch.is_tensor(t)]
        return sum(t.numel() * t.element_size() for t in tensors)

    def peak_bytes(self):
        """The most bytes of tensors in a step: what is kept, and the running sum of all that is taken and given back."""
        for _ in range(2):
            self.step(self.inputs())
        self.optimizer.zero_grad(set_to_none=True)  # so that the sum begins with what is kept
        batch = self.inputs()
        with self.torch.autograd.profiler.profile(profile_memory=True, use_kineto=True) as profile:
            self.step(batch)
        events = [e for e in profile.kineto_results.events() if e.name() == "[memory]"]
        total = most = 0
        for event in sorted(events, key=lambda e: e.start_us()):
            total += event.nbytes()
            most = max(most, total)
        return self.kept_bytes() + most


def pytorch_child(case, variant, steps, threads, memory):
    import resource  # pylint: disable=import-outside-toplevel
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(threads)
    torch.mm(torch.ones(64, 64), torch.ones(64, 64))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    training = Training(torch, case, variant)
    if memory:
        print(json.dumps({"bytes": training.peak_bytes()}))
        return
    wall, cpu = [], []
    for _ in range(steps):
        batch = training.inputs()
        begin, begin_cpu = time.perf_counter(), time.process_time()
        training.step(batch)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps({"wall": wall, "cpu": cpu, "resident": grown * 1024}))


def run_pytorch(name, variant, options, memory=False):
    case = CASES[name]
    env = dict(os.environ, OMP_NUM_THREADS=str(options.threads))
    words = [sys.executable, os.path.abspath(__file__), options.bin, name, "--child", variant, "--steps",
             str(options.steps or case.steps), "--threads", str(options.threads)] + ["--memory"] * memory
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout)


# ---- weft


def make_plan(model, batch, options, path):
    subprocess.run([os.path.join(options.bin, "weft"), "plan", model, "--cluster", "local:1", "--batch", str(batch),
                    "--recipe", "micro-batches=1", "-o", path, "-q"], check=True)
    return path


def run_worker(plan, steps, options, more=()):
    """(seconds of each step, processor seconds of all, resident bytes at most)"""
    env = dict(os.environ, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0",
               OMP_NUM_THREADS=str(options.threads))
    words = [os.path.join(options.bin, "weft-worker"), plan, "--data", "synthetic", "--steps", str(steps), "--threads",
             str(options.threads), *more]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
        out = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"weft-worker failed: exit code {process.returncode}")
    seconds = [float(line.split()[-2]) for line in out.splitlines() if line.startswith("step ")]
    return seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def run_weft(plan, case, options):
    steps = options.steps or case.steps
    wall, cpu, resident = run_worker(plan, steps, options)
    result = {"wall": wall, "resident": resident}
    if options.cpu:  # the worker reports wall time only: what more steps cost is theirs
        result["cpu"] = [(run_worker(plan, 2 * steps, options)[1] - cpu) / steps]
    return result


def counted_bytes(plan, options):
    done = subprocess.run([os.path.join(options.bin, "weft"), "train", "--plan", plan, "--data", "synthetic", "--steps",
                           "2", "--json"], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["peak_memory_bytes"]["measured"][0]


def outside_kernels(plan, case, options, folder):
    """The share of a step that no kernel of the measured timeline covers."""
    trace = os.path.join(folder, "trace.json")
    seconds = run_worker(plan, min(options.steps or case.steps, 20), options, ["--trace", trace])[0][-1]
    with open(trace) as file:
        loaded = json.load(file)
    events = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
    return 1 - sum(e["dur"] for e in events if e["ph"] == "X") / 1e6 / seconds


# ---- the comparison


def dropped(results, case, options):
    key = "cpu" if options.cpu else "wall"
    return [s for r in results for s in (r[key][case.drop:] if len(r[key]) > case.drop else r[key])]


def show(name, case, seconds, bytes_, resident):
    median = statistics.median(seconds)
    print(f"  {name:20} {1e3 * median:9.2f} ms/step {case.units / median:9.0f} /s   "
          f"({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f} ms)   tensors {bytes_ / MIB:7.1f} MiB, "
          f"resident +{resident / MIB:.0f} MiB")
    return median


def verdict(what, value, wanted, at_least):
    good = value >= wanted if at_least else value <= wanted
    print(f"  {what} {value:.3f}, wanted {'at least' if at_least else 'at most'} {wanted}: "
          f"{'yes' if good else 'NO'}")
    return good


def compare(name, options, folder):
    case = CASES[name]
    plan = make_plan(case.model, case.batch, options, os.path.join(folder, "plan.json"))
    tiny = make_plan(TINY_MODEL, 1, options, os.path.join(folder, "tiny.json"))
    base = run_worker(tiny, 1, options)[2]
    weft, pytorch = [], {variant: [] for variant in case.pytorch}
    for _ in range(options.rounds):
        weft.append(run_weft(plan, case, options))
        for variant, results in pytorch.items():
            results.append(run_pytorch(name, variant, options))
    print(f"{name}: {case.model} batch {case.batch}, f32, AdamW, threads {options.threads}, "
          f"{'processor' if options.cpu else 'wall'} time, load {os.getloadavg()[0]:.1f}")
    ours_bytes = counted_bytes(plan, options)
    ours = show("weft", case, dropped(weft, case, options), ours_bytes, max(r["resident"] for r in weft) - base)
    theirs, their_bytes = [], []
    for variant, results in pytorch.items():
        their_bytes.append(run_pytorch(name, variant, options, memory=True)["bytes"])
        theirs.append(show("pytorch " + variant, case, dropped(results, case, options), their_bytes[-1],
                           max(r["resident"] for r in results)))
    good = verdict("times as fast as PyTorch:", min(theirs) / ours, case.faster, True)
    if case.memory:
        good &= verdict("tensor bytes / PyTorch's:", ours_bytes / min(their_bytes), case.memory, False)
    if case.outside:
        good &= verdict("share outside kernels:", outside_kernels(plan, case, options, folder), case.outside, False)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of " + ", ".join(CASES) + "; all by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="a round; 0: as the case says")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--cpu", action="store_true", help="compare processor time")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        pytorch_child(CASES[options.cases[0]], options.child, options.steps, options.threads, options.memory)
        return 0
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"no case {', '.join(unknown)}; known are {', '.join(CASES)}")
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(name, options, folder) for name in options.cases or CASES]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
