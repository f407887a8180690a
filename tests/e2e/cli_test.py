#!/usr/bin/env python3
"""The command line keeps its contract: exit codes, messages, keys of --json and --log, nothing but results on stdout."""
import json
import os
import subprocess
import sys
import tempfile

from checks import TINY, WEFT, WORKER, check, check_run, run, summary

CLUSTER = ["--cluster", "1x2xA100-80GB"]
PLAN = ["plan", TINY, *CLUSTER, "--batch", "4"]
FIGURES = {"step_seconds", "samples_per_second", "tokens_per_second", "bound_seconds", "gap", "search_seconds",
           "peak_memory_bytes", "memory_budget_bytes", "micro_batches", "stages", "parameters", "exact"}
STAGE = {"devices", "nodes", "strategy", "step_share"}
STEP = ["step", "loss", "seconds", "samples", "tokens_per_second", "peak_memory_bytes"]


def usage_errors():
    check_run("no command", [], 2, "--help")
    check_run("unknown command", ["plam"], 2, "plam", "plan", "simulate", "train")
    check_run("unknown option", [*PLAN, "--bogus"], 2, "--bogus")
    check_run("no batch", ["plan", TINY, *CLUSTER], 2, "--batch")
    check_run("not a number", ["plan", TINY, *CLUSTER, "--batch", "many"], 2, "--batch")
    check_run("unknown model", ["plan", "gpt9", *CLUSTER, "--batch", "4"], 2, "gpt9", "gpt2-small", "gpt:", "mlp:")
    check_run("unknown model key", ["plan", "gpt:layer=2", *CLUSTER, "--batch", "4"], 2, "'layer'", "layers", "hidden",
              "heads", "vocab")
    check_run("wrong value of a model key", ["plan", "gpt:layers=two", *CLUSTER, "--batch", "4"], 2, "layers", "two")
    check_run("unknown device", ["plan", TINY, "--cluster", "1x2xZ9", "--batch", "4"], 2, "Z9", "A100-80GB", "V100")
    check_run("wrong shorthand", ["plan", TINY, "--cluster", "x2xA100-80GB", "--batch", "4"], 2, "4x8xA100-80GB")
    check_run("unknown recipe key", [*PLAN, "--recipe", "np=2"], 2, "np", "dp", "tp", "pp", "zero", "micro-batches")
    check_run("recipe for more devices than there are", [*PLAN, "--recipe", "dp=4"], 2, "4", "2")
    check_run("recipe that does not divide", ["plan", TINY, "--cluster", "1x3xA100-80GB", "--batch", "4", "--recipe",
                                              "tp=3"], 2, "tp=3")
    check_run("unknown optimizer", [*PLAN, "--optimizer", "lamb"], 2, "lamb", "adamw", "sgd")
    check_run("unknown dtype", [*PLAN, "--dtype", "f17"], 2, "f17", "f32", "bf16")
    check_run("wrong size", [*PLAN, "--memory", "12giraffes"], 2, "12giraffes", "GiB")


def file_errors(folder):
    path = os.path.join(folder, "plan.json")
    check_run("missing plan", ["simulate", os.path.join(folder, "none.json")], 1, "none.json")
    check_run("missing cluster file", ["plan", TINY, "--cluster", "none.json", "--batch", "4"], 1, "none.json")
    check_run("output that cannot be written", [*PLAN, "-q", "-o", "/nowhere/plan.json"], 1, "/nowhere/plan.json")
    run(*PLAN, "-q", "--recipe", "dp=2", "-o", path)
    with open(path) as file:
        text = file.read()

    def corrupt(what, new, *texts):
        with open(path, "w") as file:
            file.write(new)
        check_run(f"plan: {what}", ["simulate", path], 2, *texts)

    corrupt("cut in half", text[:len(text) // 2], "plan.json")
    corrupt("not JSON", "stages: none", "plan.json")
    corrupt("not a plan", "[]", "plan.json")
    corrupt("another version", text.replace('"version": 1', '"version": 99'), "version")
    corrupt("no batch", text.replace('"batch": 4', '"botch": 4'), "batch")
    corrupt("a batch that is a text", text.replace('"batch": 4', '"batch": "4"'), "batch")
    corrupt("another model", text.replace("hidden=32", "hidden=64"), "hash")
    corrupt("a device that is not there", text.replace('"0-1"', '"0-7"'), "device")
    corrupt("a batch that is not its micro-batches", text.replace('"batch": 4', '"batch": 5'), "5", "4")
    corrupt("a layer that is not there", text.replace('"head"]', '"hand"]'), "hand")
    corrupt("a split that is not there", text.replace('{"dp": "b"}', '{"dp": "zz"}', 1), "zz")
    cluster = os.path.join(folder, "cluster.json")
    with open(cluster, "w") as file:
        file.write('{"hosts": [{"name": "a", "devices": [{"type": "A100-80GB", "cuont": 2}]}]}')
    check_run("cluster file with a wrong key", ["plan", TINY, "--cluster", cluster, "--batch", "4"], 2, "cuont")


def no_fit():
    done = check_run("no plan fits", [*PLAN, "--memory", "100KiB"], 3, "100 KiB", "short", "needs")
    check("the figures are in it", done.stderr.count("KiB") >= 3, done.stderr)
    check_run("the recipe does not fit", [*PLAN, "--memory", "100KiB", "--recipe", "dp=2"], 3, "100 KiB", "needs")
    check_run("train refuses before the start", ["train", TINY, "--batch", "4", "--data", "synthetic", "--steps", "1",
                                                 "--memory", "100KiB"], 3, "100 KiB", "needs")


def check_figures(what, answer, devices):
    missing = FIGURES - set(answer)
    check(f"{what}: keys", not missing, missing)
    check(f"{what}: lists are by device", len(answer["peak_memory_bytes"]) == len(answer["memory_budget_bytes"]) ==
          devices, answer)
    check(f"{what}: stages", answer["stages"] and all(STAGE <= set(stage) for stage in answer["stages"]),
          answer["stages"])
    check(f"{what}: figures agree", answer["bound_seconds"] <= answer["step_seconds"] and abs(
        answer["gap"] - (answer["step_seconds"] / answer["bound_seconds"] - 1)) < 1e-6 * answer["gap"] and abs(
            answer["samples_per_second"] * answer["step_seconds"] - 4) < 1e-6, answer)


def json_keys(folder):
    path = os.path.join(folder, "p.json")
    done = run(*PLAN, "--json", "-o", path)
    check("plan --json: nothing on standard error", done.stderr == "" and done.returncode == 0, done.stderr)
    plan = json.loads(done.stdout)
    check_figures("plan --json", plan, 2)
    simulated = json.loads(run("simulate", path, "--json").stdout)
    check_figures("simulate --json", simulated, 2)
    check("simulate says what plan said", simulated["step_seconds"] == plan["step_seconds"] and
          simulated["peak_memory_bytes"] == plan["peak_memory_bytes"], simulated)
    check("no search: not exact", simulated["exact"] is False, simulated)
    rows = json.loads(run("compare", TINY, *CLUSTER, "--batch", "4", "--json").stdout)
    check("compare --json: a list with name and fits", isinstance(rows, list) and
          all({"name", "fits"} <= set(row) for row in rows), rows)
    for row in rows:
        check_figures(f"compare --json {row['name']}", row, 2)
    names = [row["name"] for row in rows]
    check("compare: the recipes are there", {"single", "DP", "ZeRO-1", "ZeRO-3", "TP", "GPipe", "1F1B"} <= set(names),
          names)
    check("compare: the plan is the best that fits", min(
        row["step_seconds"] for row in rows if row["fits"]) == rows[0]["step_seconds"] == plan["step_seconds"], rows)
    trace = os.path.join(folder, "trace.json")
    run("simulate", path, "--trace", trace, "-q")
    with open(trace) as file:
        events = json.load(file)["traceEvents"]
    check("simulate --trace: complete events", any(e["ph"] == "X" and e["dur"] > 0 for e in events), events[:3])


def verify_and_train(folder):
    path, log = os.path.join(folder, "local.json"), os.path.join(folder, "log.jsonl")
    run("plan", TINY, "--cluster", "local:2", "--batch", "4", "--recipe", "dp=2", "-o", path, "-q")
    done = run("verify", path, "--steps", "2", "--json")
    answer = json.loads(done.stdout or "{}")
    check("verify --json: keys", {"equal", "loss_error", "gradient_error", "step_seconds", "peak_memory_bytes"} <=
          set(answer), done.stderr)
    check("verify: equal", answer.get("equal") is True and done.returncode == 0, answer)
    check("verify: predicted and measured", all(set(answer[key]) == {"predicted", "measured"}
                                                for key in ("step_seconds", "peak_memory_bytes")), answer)
    check("verify: the worst tensor has its name", answer["gradient_error"]["name"].endswith(".grad"), answer)
    done = run("train", TINY, "--cluster", "local:2", "--recipe", "dp=2", "--batch", "4", "--data", "synthetic",
               "--steps", "3", "--log", log, "--json")
    check("train --json: one object", "losses" in json.loads(done.stdout or "{}"), done.stderr)
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    check("train --log: the keys of the contract", [list(line) for line in lines] == [STEP] * 3, lines)
    check("train --log: their values", [line["step"] for line in lines] == [1, 2, 3] and all(
        line["samples"] == 4 and line["seconds"] > 0 and len(line["peak_memory_bytes"]) == 2 and
        abs(line["tokens_per_second"] * line["seconds"] - 4 * 16) < 1e-6 for line in lines), lines)
    done = run("train", "mlp:inputs=8,hidden=16,layers=1,outputs=4", "--cluster", "local:1", "--batch", "4", "--data",
               "synthetic", "--steps", "2", "--log", log, "-q")
    with open(log) as file:
        check("train --log: samples count where there are no tokens",
              all(json.loads(line)["tokens_per_second"] > 0 for line in file), done.stderr)
    check("train -q: silent", done.returncode == 0 and done.stdout == done.stderr == "", done.stdout + done.stderr)
    train = ["train", TINY, "--cluster", "local:1", "--batch", "4", "--steps", "1"]
    for what, data, code, text in [("unknown data", "noise:x", 2, "noise:x"),
                                   ("missing data", "tokens:none.bin", 1, "none.bin")]:
        done = run(*train, "--data", data)
        check(f"train: {what}", done.returncode == code and text in done.stderr, f"{done.returncode} {done.stderr}")
    done = run(*train, "--data", "synthetic", "--resume", folder)
    check("train: nothing to resume from", done.returncode == 2 and folder in done.stderr, done.stderr)
    check_run("train: unknown schedule", [*train, "--data", "synthetic", "--schedule", "zigzag"], 2, "zigzag", "cosine")
    check_run("train: no data", train, 2, "--data")


def the_rest(folder):
    for words in (["--help"], ["plan", "--help"], ["train", "-h"]):
        done = run(*words)
        check(" ".join(words), done.returncode == 0 and "Usage" in done.stdout and done.stderr == "", done.stderr)
    done = run("--version")
    check("--version", done.returncode == 0 and done.stdout.startswith("weft "), done.stdout)
    for words in (["models"], ["devices"]):
        done = run(*words, "--json")
        check(f"{words[0]} --json", json.loads(done.stdout) and done.stderr == "", done.stderr)
    libraries = subprocess.run(["ldd", WEFT], capture_output=True, text=True, check=True).stdout
    check("weft links no libtorch", "libtorch" not in libraries and "libc10" not in libraries, libraries)
    libraries = subprocess.run(["ldd", WORKER], capture_output=True, text=True, check=True).stdout
    check("weft-worker does", "libtorch" in libraries, libraries)
    plans = []
    for name in ("one.json", "two.json"):
        run("plan", "gpt-tiny", "--cluster", "1x4xA100-80GB", "--batch", "8", "-q", "-o", os.path.join(folder, name))
        with open(os.path.join(folder, name), "rb") as file:
            plans.append(file.read())
    check("planning twice gives the same bytes", plans[0] == plans[1] and len(plans[0]) > 500)
    done = run(*PLAN)
    check("plan: nothing but results on standard output", done.stderr == "" and "stage" in done.stdout, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        usage_errors()
        file_errors(folder)
        no_fit()
        json_keys(folder)
        the_rest(folder)
        verify_and_train(folder)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
