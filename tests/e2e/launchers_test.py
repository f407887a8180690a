#!/usr/bin/env python3
"""Workers started by torchrun, srun and mpirun train as `weft train` does; by shared memory and by Gloo.

torchrun is really run where Python's torch has it, mpirun where it is installed; srun by the variables it sets. A job
whose ranks are killed leaves nothing in shared memory.
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from checks import TINY, WEFT, WORKER, check, run, summary

STEPS = 3
OWN = ("WEFT_", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_", "SLURM_", "OMPI_")


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def clean_environment(**more):
    env = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    return dict(env, OMP_NUM_THREADS="1", **more)


def must(*words):
    done = run(*words)
    if done.returncode != 0:
        raise SystemExit(f"weft {' '.join(words)} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def losses_of(dump):
    path = os.path.join(dump, "losses.json")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        return json.load(file)["losses"]


def worker_words(plan, dump):
    return [WORKER, plan, "--data", "synthetic", "--steps", str(STEPS), "--dump", dump]


def by_variables(name, plan, dump, ranks):
    """One process for each set of variables."""
    processes = [subprocess.Popen(worker_words(plan, dump), env=clean_environment(**variables), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True) for variables in ranks]
    said = [process.communicate(timeout=120)[0] for process in processes]
    check(f"{name}: both ranks end well", [p.returncode for p in processes] == [0, 0], said)
    return losses_of(dump)


def torchrun(plan, dump):
    # Torch 1.13 with Python 3.11 falls over its own default of --redirects and --tee.
    words = [sys.executable, "-m", "torch.distributed.run", "--no_python", "--nproc_per_node", "2", "--master_port",
             free_port(), "--redirects", "1", "--tee", "1", "--log_dir", dump + "-log", *worker_words(plan, dump)]
    done = subprocess.run(words, env=clean_environment(), capture_output=True, text=True, timeout=180)
    check("torchrun: ends well", done.returncode == 0, done.stdout + done.stderr)
    return losses_of(dump)


def mpirun(plan, dump):
    words = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", "-x", "MASTER_PORT",
             *worker_words(plan, dump)]
    done = subprocess.run(words, env=clean_environment(MASTER_PORT=free_port()), capture_output=True, text=True,
                          timeout=180)
    check("mpirun: ends well", done.returncode == 0, done.stdout + done.stderr)
    return losses_of(dump)


def slurm(rank, port):
    return {"SLURM_PROCID": str(rank), "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_JOB_ID": "7",
            "SLURM_STEP_NODELIST": "here", "MASTER_PORT": port}


def open_mpi(rank, port):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
            "MASTER_PORT": port}


def launchers(plan, folder):
    log = os.path.join(folder, "log.jsonl")
    must("train", "--plan", plan, "--data", "synthetic", "--steps", str(STEPS), "--log", log, "-q")
    with open(log) as file:
        want = [json.loads(line)["loss"] for line in file]
    results = {}
    for name, variables in (("srun's variables", slurm), ("mpirun's variables", open_mpi)):
        port = free_port()
        results[name] = by_variables(name, plan, os.path.join(folder, name[:4]), [variables(r, port) for r in range(2)])
    if subprocess.run([sys.executable, "-c", "import torch.distributed.run"], capture_output=True).returncode == 0:
        results["torchrun"] = torchrun(plan, os.path.join(folder, "torchrun"))
    else:
        print("skipped: no torch.distributed.run")
    if shutil.which("mpirun"):
        results["mpirun"] = mpirun(plan, os.path.join(folder, "mpirun"))
    else:
        print("skipped: no mpirun")
    for name, got in results.items():
        check(f"{name}: the losses of weft train", got == want and len(want) == STEPS, f"{got} {want}")
    return want


def paths(plan, folder, want):
    for path in ("shm", "gloo"):
        port = free_port()
        got = by_variables(path, plan, os.path.join(folder, path), [dict(open_mpi(r, port), WEFT_COMM=path) for r in (0, 1)])
        worst = max((abs(a - b) for a, b in zip(got or [], want)), default=1)
        check(f"WEFT_COMM={path}: the same losses", got is not None and worst < 1e-5, f"{got} {want}")
    port = free_port()
    ranks = [subprocess.Popen(worker_words(plan, os.path.join(folder, "differ")), stdout=subprocess.PIPE, text=True,
                              env=clean_environment(**open_mpi(r, port), WEFT_COMM=("shm", "gloo")[r]),
                              stderr=subprocess.STDOUT) for r in (0, 1)]
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    check("ranks that disagree about the path say so", all(r.returncode == 2 for r in ranks) and
          all("WEFT_COMM" in text for text in said), said)


def strangers(plan, folder):
    """Rank 1 of a job that was given the port of another one."""
    port = free_port()

    def start(rank, job):
        return subprocess.Popen(worker_words(plan, os.path.join(folder, "strangers")), stdout=subprocess.PIPE, text=True,
                                env=clean_environment(**open_mpi(rank, port), PMIX_NAMESPACE=job), stderr=subprocess.STDOUT)

    first, stranger = start(0, "one"), start(1, "two")
    said = stranger.communicate(timeout=60)[0]
    check("a rank of another job says so", stranger.returncode == 1 and "MASTER_PORT" in said and
          f"127.0.0.1:{port} is rank 0 of another job" in said, said)
    second = start(1, "one")
    said = [rank.communicate(timeout=60)[0] for rank in (first, second)]
    check("and disturbs nobody", [first.returncode, second.returncode] == [0, 0], said)


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


def leaves_nothing(folder):
    """Ranks that were killed while they shared memory."""
    for recipe in ("dp=2", "pp=2,micro-batches=4"):
        before = set(os.listdir("/dev/shm"))
        log = os.path.join(folder, recipe[:2] + ".jsonl")
        job = subprocess.Popen([WEFT, "train", TINY, "--cluster", "local:2", "--recipe", recipe, "--batch", "8", "--data",
                                "synthetic", "--steps", "100000", "--log", log], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (os.path.exists(log) and os.path.getsize(log) > 0):
            time.sleep(0.02)
        workers = children_of(job.pid)
        begin = time.monotonic()
        os.kill(workers[0], signal.SIGKILL)
        _, said = job.communicate(timeout=60)
        spent = time.monotonic() - begin
        check(f"{recipe}: a killed rank 0 ends the job in {spent:.1f} s", job.returncode == 1 and spent < 10 and
              "SIGKILL" in said, said)
        left = set(os.listdir("/dev/shm")) - before
        check(f"{recipe}: nothing is left in /dev/shm", len(workers) == 2 and not left, left)
        check(f"{recipe}: no process is left", not [pid for pid in workers if os.path.exists(f"/proc/{pid}")], workers)


def main():
    with tempfile.TemporaryDirectory() as folder:
        plan = os.path.join(folder, "plan.json")
        must("plan", TINY, "--cluster", "local:2", "--batch", "8", "--recipe", "dp=2", "-o", plan, "-q")
        paths(plan, folder, launchers(plan, folder))
        strangers(plan, folder)
        leaves_nothing(folder)
    return summary()


if __name__ == "__main__":
    sys.exit(main())
