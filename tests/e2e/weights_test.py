#!/usr/bin/env python3
"""Weights that were saved begin another run bit for bit, whole, in parts and in 16 bits, under any plan; files that do not
fit are refused with all that is wrong; frozen parameters stay and need no gradient and no state."""
import json
import os
import sys
import tempfile

import torch

from checks import check, run, summary
from families import model_text
from stored import read_file, write_file

BATCH = 4
FAMILIES = ["gpt", "llama", "t5", "resnet"]
COUNT = "num_batches_tracked"


def train(folder, model, *words, recipe="micro-batches=1", devices=1, steps=1):
    """A run's log lines, or what it said when it failed."""
    log = os.path.join(folder, "log.jsonl")
    done = run("train", model, "--cluster", f"local:{devices}", "--batch", str(BATCH), "--recipe", recipe, "--data",
               "synthetic", "--steps", str(steps), "--log", log, "-q", *words, timeout=300)
    if done.returncode != 0:
        return done
    with open(log) as file:
        return [json.loads(line) for line in file]


def saved(folder, step):
    return os.path.join(folder, f"step-{step:08}")


def again(folder, model, weights, **plan):
    """The first loss from these weights, and what is saved after a step with a rate of 0."""
    out = tempfile.mkdtemp(dir=folder)
    log = train(out, model, "--weights", weights, "--lr", "0", "--save", os.path.join(out, "save"), **plan)
    if not isinstance(log, list):
        return log.stderr, {}
    return log[0]["loss"], read_file(os.path.join(saved(os.path.join(out, "save"), 1), "model.safetensors"))


def same_bits(a, b):
    """All but running statistics, which a step with a rate of 0 moves too."""
    names = [n for n in a if "running" not in n and COUNT not in n]
    return a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in names)


def check_family(folder, name):
    """Saved, begun from again and saved: the same bits; the loss too, and near it under plans that sum in another order."""
    model, save = model_text(name), os.path.join(folder, name)
    train(folder, model, "--save", save, steps=3)
    weights = saved(save, 3)
    first = read_file(os.path.join(weights, "model.safetensors"))
    loss, after = again(folder, model, weights)
    repeat, _ = again(folder, model, weights)
    check(f"{name}: saved weights come back bit for bit", same_bits(first, after), sorted(first.keys() ^ after.keys()))
    check(f"{name}: and give the same loss", loss == repeat, f"{loss} {repeat}")
    for recipe in ("tp=2", "dp=2,zero=3"):
        other, after = again(folder, model, weights, recipe=recipe, devices=2)
        check(f"{name}: under {recipe} too", same_bits(first, after), other)
        check(f"{name}: with the loss of one device", isinstance(other, float) and abs(other - loss) <= 1e-5 * loss,
              f"{other} {loss}")
    counts = {n: t for n, t in first.items() if n.endswith(COUNT)}
    if name == "resnet":
        check("resnet: batch norms count their steps in i64 scalars",
              len(counts) == sum(n.endswith("running_mean") for n in first)
              and all(t.dtype == torch.int64 and t.shape == () and t.item() == 3 for t in counts.values()), counts)
    return weights, first, loss


def check_forms(folder, weights, first, loss):
    """16 bits, parts with an index, tensors nobody asked for, names without the base model's."""
    model = model_text("gpt")
    for dtype, name in ((torch.float16, "F16"), (torch.bfloat16, "BF16")):
        narrow = tempfile.mkdtemp(dir=folder)
        write_file(os.path.join(narrow, "model.safetensors"), {n: t.to(dtype) for n, t in first.items()})
        _, after = again(folder, model, narrow)
        check(f"a file of {name}", same_bits({n: t.to(dtype).float() for n, t in first.items()}, after))
    parts, names = tempfile.mkdtemp(dir=folder), sorted(first)
    index = {}
    for i in range(3):
        file = f"model-{i + 1:05}-of-00003.safetensors"
        held = {n: first[n] for n in names[i::3]}
        write_file(os.path.join(parts, file), held)
        index.update({n: file for n in held})
    with open(os.path.join(parts, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
    again_loss, after = again(folder, model, parts)
    check("three files and an index", same_bits(first, after) and again_loss == loss, again_loss)
    short = tempfile.mkdtemp(dir=folder)
    tensors = {n.removeprefix("transformer."): t for n, t in first.items()}
    tensors["h.0.attn.bias"] = torch.ones(1, 1, 16, 16)
    tensors["lm_head.weight"] = first["transformer.wte.weight"]
    write_file(os.path.join(short, "model.safetensors"), tensors)
    again_loss, after = again(folder, model, short)
    check("names of the base model, and masks nobody needs", same_bits(first, after) and again_loss == loss, again_loss)


def check_refused(folder, first):
    """Every tensor that is not there or has another shape is named at once."""
    wrong = dict(first)
    del wrong["transformer.h.0.ln_1.weight"], wrong["transformer.h.1.mlp.c_fc.bias"]
    wrong["transformer.wpe.weight"] = torch.zeros(3, 5)
    bad = tempfile.mkdtemp(dir=folder)
    write_file(os.path.join(bad, "model.safetensors"), wrong)
    done = train(folder, model_text("gpt"), "--weights", bad, "--lr", "0")
    texts = ["transformer.h.0.ln_1.weight", "transformer.h.1.mlp.c_fc.bias", "transformer.wpe.weight"]
    check("missing and misshapen tensors are all named", not isinstance(done, list) and done.returncode == 2
          and all(t in done.stderr for t in texts), done if isinstance(done, list) else done.stderr)
    done = train(folder, model_text("gpt"), "--weights", os.path.join(folder, "nothing"), "--lr", "0")
    check("a folder that is not there", not isinstance(done, list) and done.returncode == 1 and "nothing" in done.stderr,
          done if isinstance(done, list) else f"exit {done.returncode}: {done.stderr}")


def check_freeze(folder, weights, first):
    """Everything but the last norm is frozen: it alone moves, has a state, and memory falls."""
    model = model_text("gpt")
    frozen = ["--freeze", "embed/*", "--freeze", "h.*"]
    log = train(folder, model, "--weights", weights, "--lr", "0.01", "--save", os.path.join(folder, "frozen"), *frozen,
                steps=2)
    if not check("a run with frozen parameters", isinstance(log, list), log):
        return
    whole = train(folder, model, "--weights", weights, "--lr", "0.01", "--save", os.path.join(folder, "whole"), steps=2)
    after = read_file(os.path.join(saved(os.path.join(folder, "frozen"), 2), "model.safetensors"))
    moved = sorted(n for n in first if not torch.equal(first[n], after[n]))
    check("frozen parameters stay, the others move", moved == ["transformer.ln_f.bias", "transformer.ln_f.weight"], moved)
    bytes_of = lambda name: sum(os.path.getsize(os.path.join(root, f)) for root, _, files in os.walk(saved(os.path.join(
        folder, name), 2)) for f in files if f.startswith("rank-"))
    check("they have no state", bytes_of("frozen") < 0.45 * bytes_of("whole"), f"{bytes_of('frozen')} {bytes_of('whole')}")
    peaks = [max(line["peak_memory_bytes"]) if isinstance(line["peak_memory_bytes"], list) else line["peak_memory_bytes"]
             for line in (log[-1], whole[-1])]
    check("and the peak of memory falls", peaks[0] < peaks[1], peaks)


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = {name: check_family(folder, name) for name in FAMILIES}
        check_forms(folder, *results["gpt"])
        check_refused(folder, results["gpt"][1])
        check_freeze(folder, *results["gpt"][:2])
    return summary()


if __name__ == "__main__":
    sys.exit(main())
