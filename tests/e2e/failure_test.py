#!/usr/bin/env python3
"""What goes wrong ends well: dead workers, Ctrl-C, resuming under any plan, refused budgets, broken checkpoints."""
import glob
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from checks import TINY, WEFT, WORKER, check, run, summary

MODEL = TINY + ",dropout=0.1"
TASK = ["--batch", "8", "--data", "synthetic"]
LONG = ["--steps", "100000"]


def train_words(devices, recipe, *words):
    return ["train", MODEL, "--cluster", f"local:{devices}", "--recipe", recipe, *TASK, *words]


def must(*words):
    """What the checks build on."""
    done = run(*words)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def losses(log):
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    return {line["step"]: line["loss"] for line in lines}


def steps_in(log):
    return len(losses(log)) if os.path.exists(log) else 0


def start(words, log):
    """Starts weft and waits until it has done some steps."""
    if os.path.exists(log):
        os.remove(log)
    job = subprocess.Popen([WEFT, *words, "--log", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while steps_in(log) < 3:
        if job.poll() is not None or time.monotonic() > deadline:
            job.kill()
            raise SystemExit(f"weft {' '.join(words)} did not get going:\n" + "".join(job.communicate()))
        time.sleep(0.02)
    return job


def workers_of(pid):
    """Worker processes by rank."""
    found = {}
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/stat") as file:
                parent = int(file.read().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                with open(path + "/comm") as file:
                    found[int(file.read().removeprefix("weft-rank-"))] = int(path.split("/")[-1])
        except (OSError, ValueError):
            continue  # it has ended meanwhile
    return found


def alive(pids):
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


def dead_worker(folder):
    for recipe in ("dp=2", "pp=2,micro-batches=4"):
        job = start(train_words(2, recipe, *LONG), os.path.join(folder, "dead.jsonl"))
        pids = workers_of(job.pid)
        begin = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        _, said = job.communicate(timeout=60)
        spent = time.monotonic() - begin
        check(f"{recipe}: a dead worker ends the job in {spent:.1f} s with exit 1", job.returncode == 1 and spent < 10,
              f"exit {job.returncode}\n{said}")
        check(f"{recipe}: cause and rank are named", "rank 1" in said and "SIGKILL" in said, said)
        check(f"{recipe}: no process is left", len(pids) == 2 and not alive(pids.values()), alive(pids.values()))


def hung_worker(folder):
    """A stopped process says nothing; a stuck thread goes on breathing. A long kernel is neither."""
    for kind in ("stop", "hang"):
        mark = os.path.join(folder, kind)
        env = dict(os.environ, WEFT_FAULT=f"{kind}@rank=1,step=3,phase=backward", WEFT_FAULT_MARK=mark)
        done = run(*train_words(2, "dp=2", *LONG), env=env)
        spent = time.time() - float(open(mark).read())
        check(f"{kind}: noticed after {spent:.1f} s", done.returncode == 1 and spent < 10, done.stderr)
        check(f"{kind}: rank and instruction are named", "(rank 1) hangs" in done.stderr and
              "step 3, backward of micro-batch 0, " in done.stderr, done.stderr)
    # Kernels of several seconds on rank 0; rank 1 waits for it all that time.
    big = ["train", "mlp:layers=1,inputs=4096,hidden=4096", "--dtype", "f64", "--cluster", "local:2", "--recipe", "pp=2",
           "--batch", "4096", "--data", "synthetic", "--steps", "1", "--patience", "2"]
    begin = time.monotonic()
    done = run(*big, timeout=600)
    check(f"long kernels are no hang ({time.monotonic() - begin:.0f} s)", done.returncode == 0, done.stderr)


def dead_launcher(folder):
    job = start(train_words(2, "dp=2", *LONG), os.path.join(folder, "launcher.jsonl"))
    pids = workers_of(job.pid)
    job.kill()
    job.communicate()
    deadline = time.monotonic() + 10
    while alive(pids.values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    check("workers do not outlive a killed launcher", len(pids) == 2 and not alive(pids.values()), pids)


def interrupted(folder):
    log = os.path.join(folder, "int.jsonl")
    for sign in (signal.SIGINT, signal.SIGTERM):
        saved = os.path.join(folder, sign.name)
        job = start(train_words(2, "dp=2,zero=1", *LONG, "--save", saved), log)
        pids = workers_of(job.pid)
        job.send_signal(sign)
        _, said = job.communicate(timeout=60)
        steps = steps_in(log)
        check(f"{sign.name}: stops cleanly with exit 0", job.returncode == 0 and not alive(pids.values()), said)
        check(f"{sign.name}: says how to go on", f"--resume {saved}" in said and f"step {steps}" in said, said)
        check(f"{sign.name}: has saved", os.path.exists(os.path.join(saved, f"step-{steps:08}", "checkpoint.json")),
              os.listdir(saved) if os.path.exists(saved) else "nothing")
    done = run(*train_words(1, "", "--steps", str(steps + 2), "--resume", saved, "--log", log, "--json"))
    check("going on from it", done.returncode == 0 and json.loads(done.stdout)["steps"] == 2, done.stderr)
    job = start(train_words(1, "", *LONG), log)
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=60)
    check("without --save it says that nothing was saved", job.returncode == 0 and "nothing was saved" in said, said)


def interrupted_early():
    """At any moment of the start: the job stops, and does not claim to have saved what it has not."""
    with tempfile.TemporaryDirectory() as folder:
        for delay in (0.05, 0.2, 0.5, 1.0):
            saved = os.path.join(folder, str(delay))
            job = subprocess.Popen([WEFT, *train_words(2, "dp=2", *LONG, "--save", saved)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            time.sleep(delay)
            job.send_signal(signal.SIGINT)
            _, said = job.communicate(timeout=60)
            there = bool(glob.glob(saved + "/step-*/checkpoint.json"))
            # Before weft listens, the signal ends it as it ends any process.
            good = job.returncode in (0, -signal.SIGINT) and ("and saved" in said) == there
            check(f"SIGINT {delay} s after the start", good, f"exit {job.returncode}, saved: {there}\n{said}")


def resume(folder):
    whole, saved = os.path.join(folder, "whole.jsonl"), os.path.join(folder, "saved")
    schedule = ["--steps", "8", "--schedule", "cosine", "--warmup", "2", "--lr", "0.01"]
    must(*train_words(2, "dp=2", *schedule, "--log", whole, "-q"))
    must(*train_words(2, "dp=2", *schedule, "--log", whole + "2", "-q"))
    want = losses(whole)
    check("training twice gives the same losses to the last bit", want == losses(whole + "2") and len(want) == 8, want)
    check("the loss moves", max(want.values()) - min(want.values()) > 0.01, want)
    must(*train_words(2, "dp=2", *schedule, "--save", saved, "--save-every", "4", "-q"))
    middle = os.path.join(saved, "step-00000004")
    for devices, recipe, exactly in [(2, "dp=2", True), (1, "", False), (2, "dp=2,zero=1", False),
                                     (2, "dp=2,zero=3", False), (2, "tp=2,recompute=block", False),
                                     (2, "pp=2,micro-batches=4", False), (4, "dp=2,tp=2,micro-batches=2", False)]:
        log = os.path.join(folder, "resumed.jsonl")
        if os.path.exists(log):
            os.remove(log)
        done = run(*train_words(devices, recipe, *schedule, "--resume", middle, "--log", log, "-q"))
        got = losses(log) if done.returncode == 0 else {}
        worst = max((abs(got[s] - want[s]) / want[s] for s in got), default=1)
        name = f"resumed under {recipe or 'one device'}: losses off by {worst:.1e}"
        check(name, list(got) == [5, 6, 7, 8] and worst <= (0 if exactly else 1e-4), f"{got} {want}\n{done.stderr}")
    done = run(*train_words(2, "dp=2", *schedule, "--resume", saved))
    check("a folder of checkpoints means the newest", done.returncode == 0 and "nothing to do" in done.stderr,
          done.stderr)
    other = ["train", TINY, "--cluster", "local:1", *TASK, *schedule, "--resume", middle]
    done = run(*other)
    check("another model is refused", done.returncode == 2 and "another model" in done.stderr, done.stderr)
    return middle


def chain(folder):
    """One training, carried on under four plans on 2, 2, 2 and 1 devices, has the losses of one that never stopped:
    AdamW's moments, dropout, the learning rate and the order of the samples go on where they were."""
    text = os.path.join(folder, "text")
    with open(text, "w") as file:
        file.write("".join(f"{i * i % 9973} bottles on the wall {i}\n" for i in range(3000)))
    for dtype, bound in (("f64", 1e-9), ("f32", 1e-4)):
        task = ["--batch", "8", "--data", "text:" + text, "--dtype", dtype, "--steps", "8", "--schedule", "cosine", "--lr",
                "0.01", "--optimizer", "adamw", "-q"]
        model = "gpt:layers=2,hidden=32,heads=4,vocab=256,seq=16,dropout=0.1"
        log = os.path.join(folder, f"chain-{dtype}.jsonl")
        must("train", model, "--cluster", "local:1", *task, "--log", log)
        want, got, resume = losses(log), {}, []
        for leg, (devices, recipe) in enumerate([(2, "dp=2"), (2, "tp=2"), (2, "pp=2,micro-batches=2"), (1, "")]):
            saved = os.path.join(folder, f"chain-{dtype}-{leg}")
            log = saved + ".jsonl"
            must("train", model, "--cluster", f"local:{devices}", "--recipe", recipe, *task, *resume, "--save", saved,
                 "--save-every", "2", "--log", log)
            legs_own = losses(log)
            got.update({step: legs_own[step] for step in (2 * leg + 1, 2 * leg + 2)})
            resume = ["--resume", os.path.join(saved, f"step-{2 * leg + 2:08}")]
        worst = max(abs(got[s] - want[s]) / abs(want[s]) for s in want)
        check(f"{dtype}: dp=2, tp=2, pp=2, one device in turn: losses off by {worst:.1e}", len(got) == 8 and worst <= bound,
              f"{got} {want}")


def restarts(folder):
    saved, log = os.path.join(folder, "restarts"), os.path.join(folder, "restarts.jsonl")
    steps = ["--steps", "8", "--save", saved, "--save-every", "2", "--log", log]
    must(*train_words(2, "dp=2", "--steps", "8", "--log", log, "-q"))
    want = losses(log)
    env = dict(os.environ, WEFT_FAULT="kill@rank=1,step=6,phase=forward")
    done = run(*train_words(2, "dp=2", *steps, "--max-restarts", "2", "--json"), env=env)
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    check("a killed worker: goes on by itself", done.returncode == 0 and "SIGKILL" in done.stderr and
          f"restart 1 of 2 from {saved}/step-0000000" in done.stderr, done.stderr)
    check("the log says so", [line["restart"] for line in lines if "restart" in line] == [1], lines)
    got = {line["step"]: line["loss"] for line in lines if "loss" in line}
    check("with the same losses to the last bit", got == want, f"{got} {want}")
    check("and the result counts every step once", done.returncode == 0 and
          json.loads(done.stdout)["losses"] == list(want.values()), done.stdout)
    done = run(*train_words(2, "dp=2", "--steps", "8", "--max-restarts", "1"), env=env)
    check("without a checkpoint it begins anew", done.returncode == 0 and "from the beginning" in done.stderr, done.stderr)
    done = run(*train_words(2, "dp=2", *steps, "--resume", os.path.join(folder, "nothing"), "--max-restarts", "3"))
    check("wrong input is not tried again", done.returncode == 2 and "restart" not in done.stderr, done.stderr)


def broken_checkpoint(middle):
    def attempt(what, *texts):
        done = run(*train_words(1, "", "--steps", "8", "--resume", middle))
        good = done.returncode in (1, 2) and all(text in done.stderr for text in texts)
        check(f"checkpoint: {what}", good, f"exit {done.returncode}\n{done.stderr}")

    shard = sorted(glob.glob(middle + "/rank-*.safetensors"))[0]
    with open(shard, "rb") as file:
        body = file.read()
    for what, new in [("cut short", body[:len(body) // 2]), ("header of rubbish", b"\xff" * 64 + body[64:]),
                      ("empty", b"")]:
        with open(shard, "wb") as file:
            file.write(new)
        attempt(what, os.path.basename(shard))
    os.remove(shard)
    attempt("a part is missing", os.path.basename(shard))
    with open(shard, "wb") as file:
        file.write(body)
    info = os.path.join(middle, "checkpoint.json")
    with open(info, "w") as file:
        file.write('{"version": 1, "step"')
    attempt("checkpoint.json is broken", "checkpoint.json")


def budgets(folder):
    need = json.loads(run("plan", MODEL, "--cluster", "local:2", "--batch", "8", "--recipe", "dp=2", "--json").stdout)
    peak = need["peak_memory_bytes"][0]
    begin = time.monotonic()
    done = run(*train_words(2, "dp=2", "--steps", "1", "--memory", f"{peak - 1}"))
    check("one byte below the need is refused before the start", done.returncode == 3 and done.stdout == "" and
          "needs" in done.stderr and "budget" in done.stderr, f"exit {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"     refused after {time.monotonic() - begin:.2f} s: {done.stderr.strip()}")
    done = run(*train_words(2, "dp=2", "--steps", "1", "--memory", f"{peak}"))
    check("the need itself is enough", done.returncode == 0, done.stderr)
    path = os.path.join(folder, "tight.json")
    must("plan", MODEL, "--cluster", "local:1", "--batch", "8", "--recipe", "micro-batches=1", "-o", path, "-q")
    with open(path) as file:
        plan = json.load(file)
    plan["memory_budget_bytes"] = 100000
    with open(path, "w") as file:
        json.dump(plan, file)
    done = run("train", "--plan", path, "--data", "synthetic", "--steps", "1")
    check("a plan beyond its own budget is refused", done.returncode == 3 and "needs" in done.stderr, done.stderr)
    env = dict(os.environ, RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    done = subprocess.run([WORKER, path, "--steps", "1"], env=env, capture_output=True, text=True, timeout=60)
    check("by the worker too", done.returncode == 3 and "bytes" in done.stderr, done.stdout + done.stderr)


def as_torchrun(folder):
    """torchrun --no-python starts the binary with these variables and nothing else."""
    path = os.path.join(folder, "torchrun.json")
    must("plan", MODEL, "--cluster", "local:2", "--batch", "8", "--recipe", "dp=2", "-o", path, "-q")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    env.update(WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dump = os.path.join(folder, "dump")
    words = [WORKER, path, "--data", "synthetic", "--steps", "3", "--dump", dump]
    ranks = [subprocess.Popen(words, env=dict(env, RANK=str(r), LOCAL_RANK=str(r)), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) for r in range(2)]
    ends = [rank.communicate(timeout=120) for rank in ranks]
    check("two workers started by plain variables train", [rank.returncode for rank in ranks] == [0, 0], ends)
    check("one of them prints the steps", sum(end[0].count("step ") for end in ends) == 3, ends)
    log = os.path.join(folder, "launched.jsonl")
    must("train", "--plan", path, "--data", "synthetic", "--steps", "3", "--log", log, "-q")
    with open(os.path.join(dump, "losses.json")) as file:
        got = json.load(file)["losses"]
    check("with the losses that weft train has", got == list(losses(log).values()), f"{got} {losses(log)}")
    done = subprocess.run(words, env=dict(env, RANK="0", WORLD_SIZE="1"), capture_output=True, text=True, timeout=60)
    check("the wrong number of ranks is refused", done.returncode == 2 and "2 devices" in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        dead_worker(folder)
        hung_worker(folder)
        dead_launcher(folder)
        interrupted(folder)
        interrupted_early()
        broken_checkpoint(resume(folder))
        chain(folder)
        restarts(folder)
        budgets(folder)
        as_torchrun(folder)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
