#!/usr/bin/env python3
"""Every recipe trains the same model as one device, and uses the memory it said it would.

Runs `weft verify` on plans of a tiny GPT (tied embeddings, dropout, clipping, ignored labels, micro-batches of unequal
size) and a tiny MLP: losses of 5 steps and all gradients against one device; peak tensor bytes within 2 % of the
prediction.
"""
import sys

from verified import check_all, is_planned, is_same

BIN = sys.argv[1]
GPT = "gpt:layers=4,hidden=32,heads=4,vocab=64,seq=16,dropout=0.1,attn_dropout=0.1,tied=1"
UNTIED = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,tied=0,gelu=erf"
MLP = "mlp:inputs=24,hidden=32,layers=4,outputs=8,dropout=0.1"
CASES = [(GPT, devices, recipe, recompute, "f32")
         for recompute in ("none", "block")
         for devices, recipe in [
             (1, ""),
             (2, "dp=2"),
             (2, "dp=2,zero=1"),
             (2, "dp=2,zero=3"),
             (2, "tp=2"),
             (2, "pp=2,schedule=gpipe"),
             (2, "pp=2,schedule=1f1b"),
             (8, "dp=2,tp=2,pp=2,schedule=1f1b"),
         ]]
CASES += [
    (GPT, 8, "dp=2,tp=2,pp=2,zero=1,schedule=gpipe", "none", "f32"),
    (GPT, 8, "dp=2,tp=2,pp=2,zero=3,schedule=1f1b", "block", "f32"),
    (GPT, 4, "pp=4,schedule=1f1b", "none", "f32"),
    (GPT, 3, "dp=3,zero=1", "none", "f32"),
    (UNTIED, 4, "tp=4", "none", "f32"),
    (UNTIED, 4, "dp=2,pp=2,zero=1", "none", "f32"),
    (MLP, 1, "", "none", "f32"),
    (MLP, 2, "dp=2", "none", "f32"),
    (MLP, 2, "dp=2,zero=3", "block", "f32"),
    (MLP, 2, "tp=2", "none", "f32"),
    (MLP, 2, "pp=2,schedule=1f1b", "block", "f32"),
    (MLP, 8, "dp=2,tp=2,pp=2,schedule=1f1b", "none", "f32"),
]
CASES += [(GPT, devices, recipe, "none", "f64")
          for devices, recipe in [(2, "dp=2,zero=3"), (2, "tp=2"), (2, "pp=2"), (8, "dp=2,tp=2,pp=2,zero=1")]]
BATCH, MICRO_BATCHES = 14, 4  # 4 + 4 + 3 + 3 samples


def check(model, devices, recipe, recompute, dtype, plan):
    words = ",".join(filter(None, [recipe, f"recompute={recompute}", f"micro-batches={MICRO_BATCHES}"]))
    title = f"{model.split(':')[0]} {dtype} {words}"
    data = ["--data", "synthetic:ignore=0.2"] if model.startswith("gpt") else []
    return (is_planned(BIN, title, model, "--cluster", f"local:{devices}", "--batch", str(BATCH), "--clip", "0.5", "--recipe",
                       words, "--dtype", dtype, "-o", plan)
            and is_same(BIN, title, plan, "--steps", "5", *data))


def main():
    return check_all(check, CASES)


if __name__ == "__main__":
    sys.exit(main())
