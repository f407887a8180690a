#!/usr/bin/env python3
"""weft profile: a cluster file of this machine in some seconds, from a trace, and after Ctrl-C none."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

BIN = sys.argv[1]
WEFT = os.path.join(BIN, "weft")
GPT = "gpt:layers=2,hidden=64,heads=4,vocab=128,seq=32"


def check(condition, what):
    if not condition:
        raise SystemExit(f"FAILED: {what}")


def run(*words):
    done = subprocess.run([WEFT, *words], capture_output=True, text=True)
    check(done.returncode == 0, f"weft {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def check_file(path, devices):
    with open(path) as file:
        host = json.load(file)["hosts"][0]
    device = host["devices"][0]
    check(sum(group["count"] for group in host["devices"]) == devices, "the number of devices")
    check(1e8 < device["flops"]["f32"] * device["efficiency"] < 1e13, f"flops {device['flops']}")
    check(1e8 < device["memory_bandwidth"] < 1e12, f"memory bandwidth {device['memory_bandwidth']}")
    check(0 < device["launch"] < 1e-2, f"launch {device['launch']}")
    if devices > 1:
        link = next(link for link in host["links"] if link["between"] == "devices")
        check(1e6 < link["bandwidth"] < 1e12 and 0 <= link["latency"] < 1, f"link {link}")
    figures = json.loads(run("plan", GPT, "--cluster", path, "--batch", "8", "--recipe", f"dp={devices}", "--json"))
    check(figures["step_seconds"] > 0, "a plan for it")


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cluster.json")
        begin = time.time()
        said = json.loads(run("profile", "-o", path, "--devices", "2", "--seconds", "4", "--json"))
        print(f"profile of 4 s took {time.time() - begin:.1f} s: {said['kernels']} kernels, {said['exchanges']} exchanges")
        check(said["kernels"] > 50 and said["exchanges"] >= 15, f"samples: {said}")
        check_file(path, 2)

        trace, plan = os.path.join(folder, "trace.json"), os.path.join(folder, "plan.json")
        run("plan", GPT, "--cluster", path, "--batch", "8", "--recipe", "dp=2,zero=1", "-o", plan, "-q")
        run("train", "--plan", plan, "--data", "synthetic", "--steps", "3", "--trace", trace, "-q")
        again = os.path.join(folder, "again.json")
        said = json.loads(run("profile", "--from", trace, "-o", again, "--json"))
        check(said["kernels"] > 50 and said["exchanges"] >= 1, f"samples of the run: {said}")
        check_file(again, 2)

        done = subprocess.run([WEFT, "profile", "--from", plan, "-o", again], capture_output=True, text=True)
        check(done.returncode == 2 and "no plan in it" in done.stderr, f"a plan is no trace: {done.stderr}")

        stopped = os.path.join(folder, "stopped.json")
        process = subprocess.Popen([WEFT, "profile", "-o", stopped, "--devices", "2"], stderr=subprocess.PIPE, text=True)
        time.sleep(3)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        check(process.returncode == 1 and "stopped" in said, f"Ctrl-C: {process.returncode} {said}")
        check(not os.path.exists(stopped), "Ctrl-C leaves no file")
    print("profile: all is well")


main()
