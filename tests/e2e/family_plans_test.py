#!/usr/bin/env python3
"""Every family under every kind of parallelism trains the same model as one device with the same micro-batches, and uses
the memory it said it would."""
import sys

from families import model_text
from verified import check_all, is_planned, is_same

BIN = sys.argv[1]
RECIPES = [(2, "dp=2"), (2, "tp=2"), (2, "dp=2,zero=3"), (2, "pp=2,schedule=1f1b,recompute=block")]
FAMILIES = ["gpt moe", "llama", "mixtral", "qwen2-moe", "neox", "bert", "t5", "vit", "swin", "resnet", "resnet basic", "vgg",
            "unet"]
BATCH, MICRO_BATCHES = 5, 2  # 3 + 2 samples


def check(name, devices, recipe, plan):
    words = f"{recipe},micro-batches={MICRO_BATCHES}"
    title = f"{name} {words}"
    return (is_planned(BIN, title, model_text(name), "--cluster", f"local:{devices}", "--batch", str(BATCH), "--recipe", words,
                       "--dtype", "f32", "--optimizer", "sgd", "-o", plan)
            and is_same(BIN, title, plan, "--steps", "3"))


def main():
    names = sys.argv[2:] or FAMILIES
    return check_all(check, [(name, devices, recipe) for name in names for devices, recipe in RECIPES])


if __name__ == "__main__":
    sys.exit(main())
