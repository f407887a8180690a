#!/usr/bin/env python3
"""Data parallelism with two processes of one thread each: weft against PyTorch's DistributedDataParallel, in one run.

f32, AdamW, the batch split between the two. Rounds of both alternate; the first steps of each round are dropped and the
median counts. DDP is given its faster settings (gradients as views of the buckets) and the faster way to write the
model.

    vs_ddp.py BIN [CASE …] [--rounds 3] [--comm shm|gloo] [--overlap]

--overlap also prints, from weft's measured timeline, how much of the communication ran while the same rank computed.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import pytorch_models
from vs_pytorch import CASES

RANKS = 2
NAMES = ("gpt", "tiny")
HALVES = {  # the part of the batch that one process trains
    "gpt": {"q,k,v apart": pytorch_models.gpt(6, 384, 6, 8192, 256, 4, fused=False),
            "qkv fused": pytorch_models.gpt(6, 384, 6, 8192, 256, 4, fused=True)},
    "tiny": {"q,k,v apart": pytorch_models.gpt(1, 64, 4, 64, 16, 1, fused=False)},
}
BATCH = {"gpt": 8, "tiny": 2}


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def start_ranks(words, more=None):
    """Two processes as torchrun would start them; what rank 0 and the others print."""
    port = free_port()
    processes = []
    for rank in range(RANKS):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1", **(more or {}))
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env))
    outputs = [process.communicate()[0] for process in processes]
    if any(process.returncode for process in processes):
        raise SystemExit(f"{' '.join(words)} failed")
    return outputs


def pytorch_child(name, variant, steps):
    import torch  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(0)
    module, inputs = HALVES[name][variant](torch)
    parallel = torch.nn.parallel.DistributedDataParallel
    # Masks and positions are the same everywhere; Gloo cannot send booleans.
    parallel._set_params_and_buffers_to_ignore_for_model(module, [name for name, _ in module.named_buffers()])
    module = parallel(module, gradient_as_bucket_view=True, broadcast_buffers=False)
    optimizer = torch.optim.AdamW(module.parameters(), lr=3e-4)
    seconds = []
    for _ in range(steps):
        batch = inputs()
        torch.distributed.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=False)
        loss = module(*batch)
        loss.backward()
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - begin)
    if int(os.environ["RANK"]) == 0:
        print(json.dumps(seconds))


def run_pytorch(name, variant, steps):
    outputs = start_ranks([sys.executable, os.path.abspath(__file__), "-", name, "--child", variant, "--steps",
                           str(steps)])
    return json.loads(outputs[0])


def make_plan(name, options, folder):
    path = os.path.join(folder, name + ".json")
    subprocess.run([os.path.join(options.bin, "weft"), "plan", CASES[name].model, "--cluster", f"local:{RANKS}", "--batch",
                    str(BATCH[name]), "--recipe", f"dp={RANKS},micro-batches=1", "-o", path, "-q"], check=True)
    return path


def run_weft(plan, steps, options, more=()):
    words = [os.path.join(options.bin, "weft-worker"), plan, "--data", "synthetic", "--steps", str(steps), "--threads", "1",
             *more]
    outputs = start_ranks(words, {"WEFT_COMM": options.comm} if options.comm else None)
    return [float(line.split()[-2]) for out in outputs for line in out.splitlines() if line.startswith("step ")]


def covered(span, others):
    """The length of the part of a span that the others, which do not overlap, cover."""
    return sum(max(0, min(span[1], end) - max(span[0], begin)) for begin, end in others)


def overlap(plan, options, folder):
    """By lane: seconds of communication, and the part of it during which the same device computed."""
    trace = os.path.join(folder, "trace.json")
    run_weft(plan, 3, options, ["--trace", trace])
    with open(trace) as file:
        loaded = json.load(file)
    events = [e for e in (loaded["traceEvents"] if isinstance(loaded, dict) else loaded) if e["ph"] == "X"]
    lanes = {}
    for e in events:
        lanes.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for device in sorted({pid for pid, _ in lanes}):
        compute = lanes.get((device, 0), [])
        for lane in sorted(tid for pid, tid in lanes if pid == device and tid > 0):
            spans = lanes[(device, lane)]
            spent = sum(end - begin for begin, end in spans)
            hidden = sum(covered(span, compute) for span in spans)
            print(f"  device {device}, lane {lane}: {len(spans)} events, {spent / 1e3:.1f} ms, "
                  f"{hidden / 1e3:.1f} ms of it while it computed")


def compare(name, options, folder):
    case = CASES[name]
    steps = options.steps or case.steps
    plan = make_plan(name, options, folder)
    weft, pytorch = [], {variant: [] for variant in HALVES[name]}
    for _ in range(options.rounds):
        weft += run_weft(plan, steps, options)[case.drop:]
        for variant, results in pytorch.items():
            results += run_pytorch(name, variant, steps)[case.drop:]
    print(f"{name}: {case.model} batch {BATCH[name]} on {RANKS} processes of one thread, load {os.getloadavg()[0]:.1f}")
    ours = statistics.median(weft)
    print(f"  {'weft dp=2 ' + options.comm:24} {1e3 * ours:9.2f} ms/step   ({1e3 * min(weft):.2f} to {1e3 * max(weft):.2f})")
    theirs = []
    for variant, seconds in pytorch.items():
        theirs.append(statistics.median(seconds))
        print(f"  {'DDP ' + variant:24} {1e3 * theirs[-1]:9.2f} ms/step   "
              f"({1e3 * min(seconds):.2f} to {1e3 * max(seconds):.2f})")
    good = min(theirs) / ours >= case.faster
    print(f"  times as fast as DDP: {min(theirs) / ours:.3f}, wanted at least {case.faster}: {'yes' if good else 'NO'}")
    if options.overlap:
        overlap(plan, options, folder)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("cases", nargs="*", metavar="CASE", help="of " + ", ".join(NAMES) + "; gpt by default")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=0, help="a round; 0: as the case says")
    parser.add_argument("--comm", default="", help="force shm or gloo")
    parser.add_argument("--overlap", action="store_true", help="print what of the communication was hidden")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        pytorch_child(options.cases[0], options.child, options.steps)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(name, options, folder) for name in options.cases or ["gpt"]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
