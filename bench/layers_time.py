#!/usr/bin/env python3
"""How long planning takes by layers and by devices: GPT-3's width with 24 and with 96 layers, on 64, 128 and 1024 devices.

    bench/layers_time.py build/release/bin [--runs 3]

All searches run in turns, so that a slow minute of the machine meets all of them; the fastest run of each counts. Wanted:
96 layers take at most 1.5 times as long as 24, 1024 devices at most 4 times as long as 64.
"""
import argparse
import os
import subprocess
import time

LAYERS = (24, 96)
CLUSTERS = (("8x8xA100-80GB", 256), ("16x8xA100-80GB", 256), ("128x8xA100-80GB", 1536))


def seconds(binary, layers, cluster, batch):
    model = f"gpt:layers={layers},hidden=12288,heads=96,seq=2048"
    begin = time.monotonic()
    subprocess.run([binary, "plan", model, "--cluster", cluster, "--batch", str(batch), "--dtype", "bf16", "--json"],
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
            for layers in LAYERS:
                taken = seconds(weft, layers, cluster, batch)
                least[cluster, layers] = min(taken, least.get((cluster, layers), taken))
    print("| cluster | batch | 24 layers | 96 layers | ratio |\n| --- | --- | --- | --- | --- |")
    for cluster, batch in CLUSTERS:
        few, many = (least[cluster, layers] for layers in LAYERS)
        print(f"| {cluster} | {batch} | {few:.2f} s | {many:.2f} s | {many / few:.2f} |")
    for layers in LAYERS:
        ratio = least[CLUSTERS[-1][0], layers] / least[CLUSTERS[0][0], layers]
        print(f"1024 against 64 devices, {layers} layers: {ratio:.2f}")


if __name__ == "__main__":
    main()
