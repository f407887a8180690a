#!/usr/bin/env python3
"""Every form of --data trains; ranks that read only their own samples get the losses of one device."""
import json
import os
import struct
import sys
import tempfile

from checks import check, run, summary

GPT = "gpt:layers=2,hidden=32,heads=4,vocab=300,seq=16"


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def npy(kind, shape, content):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def losses(folder, model, data, recipe, *words, steps=3):
    devices = {"dp=2": 2, "pp=2,micro-batches=4": 2}.get(recipe, 1)
    log = os.path.join(folder, "log.jsonl")
    done = run("train", model, "--cluster", f"local:{devices}", "--recipe", recipe, "--batch", "8", "--steps", str(steps),
               "--data", data, "--log", log, "-q", *words)
    if done.returncode != 0:
        return done.stderr
    with open(log) as file:
        return [json.loads(line)["loss"] for line in file]


def same_losses(folder, what, model, data, *words):
    want = losses(folder, model, data, "dp=1", *words)
    check(f"{what}: trains", isinstance(want, list) and len(want) == 3 and want[-1] < want[0], want)
    for recipe in ["dp=2", "dp=1,micro-batches=4", "pp=2,micro-batches=4"]:
        got = losses(folder, model, data, recipe, *words)
        near = isinstance(got, list) and isinstance(want, list) and len(got) == len(want) and all(
            abs(a - b) <= 1e-4 * abs(b) for a, b in zip(got, want))
        check(f"{what}: {recipe} has the losses of one device", near, f"{got} {want}")


def tokenizer(folder):
    alphabet = {chr(byte if 33 <= byte < 127 else 256 + byte if byte <= 32 else 0x2000 + byte): byte
                for byte in range(256)}
    merges = ["t h", "th e", "Ġ the"]
    vocabulary = {letter: byte for letter, byte in alphabet.items()}
    for merge in merges:
        vocabulary[merge.replace(" ", "")] = len(vocabulary)
    file = {"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False},
            "model": {"type": "BPE", "vocab": vocabulary, "merges": merges}}
    return write(os.path.join(folder, "tokenizer.json"), json.dumps(file).encode())


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = lambda name: os.path.join(folder, name)
        text = write(path("a.txt"), b"the cat and the dog and the bird " * 40)
        words = ["--tokenizer", tokenizer(folder), "--held-out", "0.1", "--lr", "0.01"]
        same_losses(folder, "text and a tokenizer", GPT, "text:" + text, *words)
        small = GPT.replace("300", "258")
        error = losses(folder, small, "text:" + text, "dp=1", *words)
        check("a tokenizer of too many ids", "ids up to 258" in error and "vocabulary of 258" in error, error)
        ids = b"".join(struct.pack("<i", i * i % 7) for i in range(600))
        same_losses(folder, "tokens of a .npy", GPT, write(path("t.npy"), npy("<i4", "(600,)", ids)), "--lr", "0.01")
        images = b"".join(bytes([label * 60] * 4) for label in [0, 1, 2, 3] * 8)
        os.mkdir(path("mnist"))
        write(path("mnist/train-images-idx3-ubyte"), struct.pack(">4i", 0x803, 32, 2, 2) + images)
        write(path("mnist/train-labels-idx1-ubyte"), struct.pack(">2i", 0x801, 32) + bytes([0, 1, 2, 3] * 8))
        model = "mlp:inputs=4,hidden=16,layers=2,outputs=4"
        same_losses(folder, "mnist", model, "mnist:" + path("mnist"), "--lr", "0.03")
        error = losses(folder, model.replace("inputs=4", "inputs=5"), "mnist:" + path("mnist"), "dp=1")
        check("images of another size", "are 4 numbers, the model takes 5" in error, error)
    return summary()


sys.exit(main())
