#!/usr/bin/env python3
"""How long planning takes by layers and by devices: GPT-3's width with 24 and with 96 layers, on 64, 128 and 1024 devices.

    bench/layers_time.py build/release/bin [--runs 3]

Where 24 layers fit easily and 96 hardly do, the two are problems of different kinds; so 24 layers are also planned with a
quarter of the memory, which is as tight. All searches run in turns, so that a slow minute of the machine meets all of them;
the fastest run of each counts. Wanted: 96 layers take at most 1.5 times as long as 24, 1024 devices at most 4 times as long
as 64.
"""
import argparse
import os
import subprocess
import time

CLUSTERS = (("8x8xA100-80GB", 256), ("16x8xA100-80GB", 256), ("128x8xA100-80GB", 1536))
FEW, TIGHT, MANY = (24, ()), (24, ("--memory", "20GiB")), (96, ())  # layers, further options


def seconds(binary, layers, more, cluster, batch):
    model = f"gpt:layers={layers},hidden=12288,heads=96,seq=2048"
    begin = time.monotonic()
    subprocess.run([binary, "plan", model, "--cluster", cluster, "--batch", str(batch), "--dtype", "bf16", "--json", *more],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - begin


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("bin")
    options.add_argument("--runs", type=int, default=3)
    options = options.parse_args()
    weft = os.path.join(options.bin, "weft")
    least = {}
    for _ in range(options.runs):
        for cluster, batch in CLUSTERS:
            for task in (FEW, TIGHT, MANY):
                taken = seconds(weft, *task, cluster, batch)
                least[cluster, task] = min(taken, least.get((cluster, task), taken))
    print("| cluster | batch | 24 layers | 24, a quarter of the memory | 96 layers | ratio | to as tight ones |\n" + "| --- " * 7 + "|")
    for cluster, batch in CLUSTERS:
        few, tight, many = (least[cluster, task] for task in (FEW, TIGHT, MANY))
        print(f"| {cluster} | {batch} | {few:.2f} s | {tight:.2f} s | {many:.2f} s | {many / few:.2f} | {many / tight:.2f} |")
    for name, task in (("24 layers", FEW), ("24 layers, a quarter of the memory", TIGHT), ("96 layers", MANY)):
        ratio = least[CLUSTERS[-1][0], task] / least[CLUSTERS[0][0], task]
        print(f"1024 against 64 devices, {name}: {ratio:.2f}")


if __name__ == "__main__":
    main()
