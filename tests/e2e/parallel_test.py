#!/usr/bin/env python3
"""Every kind of parallelism, alone and combined, trains the same model as one device.

Plans come from recipes; some are then changed by hand, as a user may do: unequal shards, a different mesh for each stage,
an order of micro-batches of one's own. Losses of 3 steps and all gradients are compared in f64; peak tensor bytes must be
within 2 % of the prediction.
"""
import json
import sys

from verified import check_all, is_planned, is_same

BIN = sys.argv[1]
GPT = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16,dropout=0.1,attn_dropout=0.1,tied=1"
LLAMA = "llama:layers=4,hidden=32,heads=8,kv_heads=4,vocab=64,seq=16,ffn=64"
WINDOW = LLAMA + ",window=5"
MOE = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,experts=4,active=2,capacity=1.5,balance=0.01"
T5 = "t5:layers=2,hidden=32,heads=4,vocab=64,seq=16"
BERT = "bert:layers=4,hidden=32,heads=4,vocab=64,seq=16"
RESNET = "resnet:depths=1/1/1/1,sizes=8/16/24/32,stem=8,image=16,classes=8"
VIT = "vit:layers=2,hidden=32,heads=4,image=16,patch=4,classes=8"
MLP = "mlp:inputs=24,hidden=32,layers=6,outputs=8,dropout=0.1"
BATCH, MICRO_BATCHES = 14, 4  # 4 + 4 + 3 + 3 samples


def splits(plan):
    for stage in plan["stages"]:
        for rule in stage["nodes"]:
            yield rule["split"]


def ratios(axis, **texts):
    """Factors that are split along an axis get units and ratios: b=":3:1" makes "b" into "b:3:1"."""
    def change(plan):
        for split in splits(plan):
            letter, ring, word = split.get(axis, "").partition("@")
            if letter in texts:
                split[axis] = letter + texts[letter] + ring + word
    return change


def several(*changes):
    def change(plan):
        for one in changes:
            one(plan)
    return change


def other_mesh(stage, devices, axes):
    """A stage runs on other devices; axes that it no longer has are left out of its rules."""
    def change(plan):
        names = [axis["name"] for axis in axes]
        plan["stages"][stage].update(devices=devices, axes=axes)
        for rule in plan["stages"][stage]["nodes"]:
            rule["split"] = {axis: text for axis, text in rule["split"].items() if axis in names}
        for rule in plan["stages"][stage]["weights"]:
            rule["modes"] = {axis: mode for axis, mode in rule["modes"].items() if axis in names}
    return change


def rule(nodes, split):
    """A rule in front of all others."""
    def change(plan):
        for stage in plan["stages"]:
            stage["nodes"].insert(0, {"nodes": nodes, "split": split})
    return change


def gradients(nodes, split):
    """Gradient nodes with a rule of their own, in every stage that has such layers."""
    def change(plan):
        for stage in plan["stages"]:
            stage["gradients"] = [{"nodes": nodes, "split": split}]
    return change


def listed(*orders):
    def change(plan):
        plan.update(schedule="listed", order=list(orders))
    return change


def recompute(*names):
    def change(plan):
        for stage in plan["stages"]:
            stage["recompute"] = list(names)
    return change


CASES = [
    # Each kind alone.
    (GPT, 2, "dp=2,zero=2", None),
    (GPT, 2, "tp=2,sp=1", None),
    (GPT, 2, "cp=2", None),
    (GPT, 2, "cp=2,attention=ulysses", None),
    (GPT, 2, "cp=2,attention=ring", None),
    (GPT, 3, "cp=3,attention=ring", ratios("cp", s=":2:0:1")),
    (MOE, 2, "dp=2,ep=2", None),
    (GPT, 2, "recompute=ops,dp=2", None),
    (GPT, 2, "dp=2", recompute("h.*/attn/*", "h.1")),
    (GPT, 2, "pp=2,chunks=2,schedule=interleaved", None),
    (GPT, 2, "pp=2,schedule=zb-h1", None),
    (GPT, 2, "pp=2,schedule=zb-h2", None),
    (GPT, 2, "pp=2,chunks=2,schedule=zb-v", None),
    (GPT, 2, "pp=2", listed("F0 F1 F2 B0 W0 F3 B1 B2 W1 B3 W2 W3", "F0 B0 F1 B1 F2 W0 B2 W1 F3 B3 W2 W3")),
    (MLP, 2, "dp=2", ratios("dp", b=":3:1")),
    (MLP, 3, "dp=3", ratios("dp", b=":2:0:1")),
    (GPT, 2, "dp=2,zero=3", ratios("dp", b=":1:3")),
    (GPT, 2, "tp=2", ratios("tp", h=":3:1", n="/8:3:1", k="/8:3:1", r="/8:3:1", s=":3:1")),
    (GPT, 2, "tp=2", ratios("tp", h=":0:1", n="/8:0:1", k="/8:0:1", r="/8:0:1", s=":1:0")),
    (LLAMA, 3, "tp=2", several(other_mesh(0, "0-2", [{"name": "tp", "size": 3}]),
                               ratios("tp", h=":2:1:1", n="/4:2:1:1", k="/4:2:1:1", r="/4:2:1:1"))),
    (GPT, 2, "tp=2", rule("embed/wte", {"tp": "v:5:3"})),
    (VIT, 2, "tp=2", rule("embeddings/position_embeddings.table", {"tp": "s"})),  # a view, gathered
    (MLP, 2, "dp=2", gradients("*/linear_weight_grad", {})),
    (GPT, 2, "dp=2,zero=1", gradients("h.*/linear_weight_grad", {"dp": "n"})),
    (MOE, 2, "dp=2,ep=2", ratios("ep", e=":3:1", b=":3:1")),
    # Combined.
    (GPT, 8, "dp=2,tp=2,pp=2,sp=1,zero=2,schedule=zb-h1", None),
    (GPT, 8, "dp=2,cp=2,pp=2,zero=3,recompute=block", None),
    (GPT, 4, "cp=2,tp=2,sp=1,attention=ulysses", None),
    (GPT, 4, "pp=4,schedule=zb-h2,recompute=ops", None),
    (GPT, 4, "tp=2,pp=2,chunks=2,schedule=interleaved", ratios("tp", s=":3:1")),
    (GPT, 4, "dp=2,pp=2,chunks=2,schedule=zb-v,zero=1", ratios("dp", b=":1:2")),
    (LLAMA, 8, "dp=2,tp=2,pp=2,sp=1,schedule=zb-h1,zero=1", None),
    (LLAMA, 4, "cp=4,zero=2", None),
    (LLAMA, 4, "cp=4,attention=ring,zero=3,recompute=block", None),
    (WINDOW, 4, "cp=4,attention=ring", None),
    (BERT, 4, "cp=2,tp=2,sp=1,attention=ring", None),
    (GPT, 8, "cp=2,tp=2,pp=2,attention=ring,schedule=zb-h1", None),
    (MOE, 4, "dp=2,ep=2,cp=2,attention=ring", None),
    (LLAMA, 4, "cp=2,tp=2,attention=ulysses,recompute=block", None),
    (MOE, 4, "dp=2,ep=2,tp=2,zero=1", None),
    (MOE, 4, "dp=2,ep=2,pp=2,schedule=zb-h1", None),
    (MOE, 4, "dp=2,ep=2,cp=2", None),
    (T5, 4, "dp=2,tp=2,sp=1", None),
    (T5, 4, "cp=2,pp=2,schedule=zb-h1", None),
    (BERT, 4, "tp=2,pp=2,sp=1,recompute=ops", None),
    (RESNET, 4, "dp=2,pp=2,schedule=zb-h1,zero=2", ratios("dp", b=":3:1")),
    (GPT, 4, "dp=2,tp=2,zero=3", several(ratios("dp", b=":1:2"), ratios("tp", h=":1:3", n="/8:1:3", k="/8:1:3", r="/8:1:3"))),
    (VIT, 4, "dp=2,tp=2,zero=3", rule("embeddings/position_embeddings.table", {"dp": "b", "tp": "s"})),
    (VIT, 4, "tp=2,pp=2,schedule=zb-h1", rule("embeddings/position_embeddings.table", {"tp": "b:3:1"})),
    (MLP, 4, "pp=2,dp=2", other_mesh(1, "2", [])),
    (GPT, 4, "pp=2,dp=2,zero=3", other_mesh(0, "0", [])),
    (GPT, 4, "dp=2,tp=2,zero=3", gradients("h.*/mlp/up.grad/linear_weight_grad", {"dp": "n", "tp": "n"})),
    (GPT, 4, "dp=2,pp=2,schedule=zb-h1", gradients("h.*/linear_weight_grad", {})),
]


def check(model, devices, recipe, change, path):
    words = f"{recipe},micro-batches={MICRO_BATCHES}"
    title = f"{model.split(':')[0]} {words}" + (" changed by hand" if change else "")
    optimizer = ["--optimizer", "sgd"] if model is RESNET else ["--clip", "0.5"]
    if not is_planned(BIN, title, model, "--cluster", f"local:{devices}", "--batch", str(BATCH), *optimizer, "--recipe", words,
                      "--dtype", "f64", "-o", path):
        return False
    if change:
        with open(path) as file:
            plan = json.load(file)
        change(plan)
        with open(path, "w") as file:
            json.dump(plan, file)
    return is_same(BIN, title, path, "--steps", "3")


def main():
    chosen = sys.argv[2:]
    return check_all(check, [case for i, case in enumerate(CASES) if not chosen or str(i) in chosen])


if __name__ == "__main__":
    sys.exit(main())
