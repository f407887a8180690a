#!/usr/bin/env python3
"""Fault campaign: breaks training jobs in many ways and judges how they end.

  tests/faults/campaign.py BIN            all injections (more than 200)
  tests/faults/campaign.py BIN --short    about ten, for every change
  tests/faults/campaign.py BIN --only 'stop|hang' --jobs 4

After each injection: did the job end within 10 s of the fault (or go on by itself with --max-restarts), with exit code 1
and a message that names cause, rank and instruction? Is every checkpoint whole? Is no process, shared memory or temporary
file left? Full disks need the right to mount, cut links the right to make network namespaces: without it they are skipped,
and the summary says so."""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import cases as catalogue
import stored

MODEL = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16,dropout=0.1"
LIMIT_S = 10
STEPS, SAVE_EVERY = 8, 2
START_TIMEOUT = "8"  # without a launcher nobody knows of a rank that never came
WHERE = re.compile(r"step \d+|start|load|sav")


@dataclasses.dataclass
class Outcome:
    case: catalogue.Case
    wrong: list = dataclasses.field(default_factory=list)
    skipped: str = ""
    noticed_s: float = -1.0
    said: str = ""


class Campaign:
    def __init__(self, folder, binaries):
        self.root = folder
        self.weft = os.path.abspath(os.path.join(binaries, "weft"))
        self.worker = os.path.abspath(os.path.join(binaries, "weft-worker"))
        self.plans, self.base, self.losses, self.checkpoint_bytes = {}, {}, {}, {}
        self.lock, self.count = threading.Lock(), 0

    def prepare(self, recipes):
        """For each recipe a plan, a folder with two checkpoints, and the losses of an undisturbed run."""
        for recipe in sorted(recipes):
            devices, words = catalogue.RECIPES[recipe]
            self.plans[recipe] = os.path.join(self.root, recipe + ".json")
            self.base[recipe] = os.path.join(self.root, recipe + "-base")
            log = os.path.join(self.root, recipe + ".jsonl")
            self.must("plan", MODEL, "--cluster", f"local:{devices}", "--recipe", words, "--batch", "8", "-o",
                      self.plans[recipe], "-q")
            self.must("train", "--plan", self.plans[recipe], "--data", "synthetic", "--steps", str(STEPS), "--save",
                      self.base[recipe], "--save-every", str(SAVE_EVERY), "--log", log, "-q")
            self.losses[recipe] = read_losses(log)
            for late in stored.checkpoints_in(self.base[recipe])[1:]:
                shutil.rmtree(late)
            self.checkpoint_bytes[recipe] = bytes_on_disk(self.base[recipe])

    def must(self, *words):
        done = subprocess.run([self.weft, *words], capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"weft {' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def run(self, case):
        with self.lock:
            self.count += 1
            number = self.count
        site = Site(self, case, number)
        outcome = Outcome(case)
        try:
            RUNNERS[case.mode](site, outcome)
            site.judge_leftovers(outcome)
        except Skip as reason:
            outcome.skipped = str(reason)
        except subprocess.TimeoutExpired:
            outcome.wrong.append("HANG: did not end")
        finally:
            site.clean()
        return outcome


class Skip(Exception):
    pass


class Site:
    """The folder, environment and processes of one injection."""

    def __init__(self, campaign, case, number):
        self.campaign, self.case, self.number = campaign, case, number
        self.folder = os.path.join(campaign.root, f"site-{number}")
        self.save = os.path.join(self.folder, "save")
        self.log = os.path.join(self.folder, "log.jsonl")
        self.mark = os.path.join(self.folder, "mark")
        self.temporary = os.path.join(self.folder, "tmp")
        os.makedirs(self.temporary)
        self.undo = []
        self.word = f"{os.getpid()}-{number}"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("WEFT_")}
        self.env.update(TMPDIR=self.temporary, WEFT_CAMPAIGN=self.word, WEFT_FAULT_MARK=self.mark)
        if not case.outside and case.kind not in ("disk", "damage", "cut"):
            step = f",step={case.step}" if case.where not in ("start", "load") else ""
            self.env["WEFT_FAULT"] = f"{case.kind}@rank={case.rank}{step},phase={case.where}"

    def copy_base(self):
        shutil.copytree(self.campaign.base[self.case.recipe], self.save, dirs_exist_ok=True)

    def words(self, *more, steps=STEPS, every=SAVE_EVERY):
        resume = ["--resume", self.save] if self.case.where == "load" else []
        return ["--data", "synthetic", "--steps", str(steps), "--save", self.save, "--save-every", str(every), *resume,
                *more]

    def start(self, words, **environment):
        return subprocess.Popen(words, env={**self.env, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, cwd=self.folder)

    def train(self, *more, steps=STEPS):
        return self.start([self.campaign.weft, "train", "--plan", self.campaign.plans[self.case.recipe],
                           *self.words("--log", self.log, *more, steps=steps)])

    def since_mark(self):
        with open(self.mark) as file:
            return time.time() - float(file.read())

    def processes(self):
        """Processes of this injection, by what stands in their environment."""
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/environ", "rb") as file:
                        if f"WEFT_CAMPAIGN={self.word}\0".encode() in file.read():
                            found.append(int(name))
                except OSError:
                    continue  # it has ended, or is not ours
        return found

    def judge_leftovers(self, outcome):
        time.sleep(0.05)
        if self.processes():
            outcome.wrong.append(f"LEFT: processes {self.processes()}")
        if os.listdir(self.temporary):
            outcome.wrong.append(f"LEFT: {os.listdir(self.temporary)}")
        if os.path.isdir(self.save):
            for folder, folders, files in os.walk(self.save):
                odd = [n for n in folders + files if n.startswith(".") or ".tmp" in n or n.endswith(".part")]
                if odd:
                    outcome.wrong.append(f"LEFT: {odd} in {folder}")
            if self.case.kind != "damage":
                for checkpoint in stored.checkpoints_in(self.save):
                    damage = stored.damage_in(checkpoint)
                    if damage:
                        outcome.wrong.append(f"DAMAGED: {damage}")

    def clean(self):
        for pid in self.processes():
            os.kill(pid, signal.SIGKILL)
        for action in reversed(self.undo):
            action()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_losses(log):
    """The last word of each step counts: steps behind a restart are done again."""
    with open(log) as file:
        lines = [json.loads(line) for line in file]
    return {line["step"]: line["loss"] for line in lines if "loss" in line}


def judge_message(outcome, said, rank_needed=True):
    case = outcome.case
    outcome.said = said.strip()
    met = case.mode not in ("plain", "netns") or case.where != "start"
    if not any(cause in said for cause in catalogue.CAUSES[case.kind] + ([] if met else ["meeting 2 ranks"])):
        outcome.wrong.append("the cause is not named")
    if rank_needed and f"rank {case.rank}" not in said:
        outcome.wrong.append("the rank is not named")
    if not WHERE.search(said):
        outcome.wrong.append("the instruction is not named")


def judge_time(outcome, seconds):
    outcome.noticed_s = seconds
    if seconds > LIMIT_S:
        outcome.wrong.append(f"took {seconds:.1f} s")


def wait_for_steps(job, log, count):
    deadline = time.monotonic() + 120
    while not os.path.exists(log) or len(read_losses_so_far(log)) < count:
        if job.poll() is not None or time.monotonic() > deadline:
            raise subprocess.TimeoutExpired("weft did not get going", 120)
        time.sleep(0.01)


def read_losses_so_far(log):
    with open(log) as file:
        return [line for line in file if line.endswith("\n")]


def strike_from_outside(site, job):
    """A signal to a worker at any moment."""
    wait_for_steps(job, site.log, 1)
    time.sleep(0.1 * (site.number % 7))
    for pid in site.processes():
        with open(f"/proc/{pid}/environ", "rb") as file:
            started_as_rank = f"\0RANK={site.case.rank}\0".encode() in b"\0" + file.read()
        with open(f"/proc/{pid}/comm") as file:
            forked_as_rank = file.read().strip() == f"weft-rank-{site.case.rank}"
        if started_as_rank or forked_as_rank:
            with open(site.mark, "w") as file:
                file.write(str(time.time()))
            os.kill(pid, signal.SIGKILL if site.case.kind == "kill" else signal.SIGSTOP)


def bytes_on_disk(folder):
    """What its files take where they are written in pages."""
    page = os.sysconf("SC_PAGESIZE")
    sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(folder) for name in names]
    return sum((size + page - 1) // page * page for size in sizes)


def mount_small_disk(site):
    os.makedirs(site.save)
    size = int(float(site.case.detail) * site.campaign.checkpoint_bytes[site.case.recipe])
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", site.save],
                                           capture_output=True).returncode != 0:
        raise Skip("may not mount a small file system")
    site.undo.append(lambda: subprocess.run(["umount", "-l", site.save], check=False))


def run_weft(site, outcome):
    if site.case.kind == "disk":
        mount_small_disk(site)
        site.copy_base()
    elif site.case.where == "load":
        site.copy_base()
    job = site.train("--keep", "2", steps=1000000) if site.case.outside else site.train()
    if site.case.outside:
        strike_from_outside(site, job)
    _, said = job.communicate(timeout=150)
    if job.returncode != 1:
        outcome.wrong.append(f"exit code {job.returncode}")
    if site.case.kind == "disk":  # the moment at which it is full is the kernel's secret: some step before the last
        judge_time(outcome, time.time() - os.path.getmtime(site.log))
        if stored.checkpoints_in(site.save)[:1] != [os.path.join(site.save, "step-00000002")]:
            outcome.wrong.append("DAMAGED: the older checkpoint is gone")
    elif os.path.exists(site.mark):
        judge_time(outcome, site.since_mark())
    else:
        outcome.wrong.append("the fault never struck")
    judge_message(outcome, said, rank_needed=site.case.kind != "disk")


def run_restart(site, outcome):
    job = site.train("--max-restarts", "1")
    _, said = job.communicate(timeout=150)
    outcome.said = said.strip()
    if job.returncode != 0:
        outcome.wrong.append(f"exit code {job.returncode}")
    if not os.path.exists(site.mark):
        outcome.wrong.append("the fault never struck")
    if "restart 1 of 1 from" not in said or f"rank {site.case.rank}" not in said:
        outcome.wrong.append("does not say that it begins again, and why")
    if job.returncode == 0 and read_losses(site.log) != site.campaign.losses[site.case.recipe]:
        outcome.wrong.append("the losses are not those of an undisturbed run")


def spoil(site):
    """Damages the newest of two checkpoints as a bad disk or a careless copy would."""
    site.copy_base()
    newest = os.path.join(site.save, "step-00000004")
    shutil.copytree(os.path.join(site.save, "step-00000002"), newest)
    info = os.path.join(newest, "checkpoint.json")
    shard = os.path.join(newest, f"rank-{site.case.rank:05}.safetensors")
    path = info if site.case.detail == "json" else shard
    with open(path, "rb") as file:
        body = bytearray(file.read())
    if site.case.detail == "missing":
        os.remove(path)
        return newest, path
    if site.case.detail == "one bit":
        body[len(body) // 2] ^= 4
    elif site.case.detail == "header":
        body[20] ^= 1
    elif site.case.detail == "json":
        body[body.index(b"seed") + 1] ^= 2
    else:
        body = body[:len(body) // 2] if site.case.detail == "cut short" else b""
    with open(path, "wb") as file:
        file.write(body)
    return newest, path


def run_damage(site, outcome):
    newest, path = spoil(site)
    strict = site.case.mode == "strict"
    site.env.pop("WEFT_FAULT", None)
    job = site.start([site.campaign.weft, "train", "--plan", site.campaign.plans[site.case.recipe], "--data", "synthetic", "--steps",
                      str(STEPS), "--log", site.log, "--resume", newest if strict else site.save])
    _, said = job.communicate(timeout=150)
    outcome.said = said.strip()
    if os.path.basename(path) not in said:
        outcome.wrong.append("the damaged file is not named")
    if strict and job.returncode not in (1, 2):
        outcome.wrong.append(f"exit code {job.returncode}")
    if not strict:
        want = {s: v for s, v in site.campaign.losses[site.case.recipe].items() if s > 2}
        if job.returncode != 0 or "passed over" not in said or read_losses(site.log) != want:
            outcome.wrong.append(f"did not go on from the older one (exit code {job.returncode})")


def reserve_port(site):
    """A port that nobody else is given until the site is cleaned."""
    reservation = socket.socket()
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    site.undo.append(reservation.close)
    return reservation.getsockname()[1]


def judge_plain(site, outcome, ranks, struck):
    """Without a launcher of weft: every rank ends by itself; one that was stopped, when it may go on."""
    said, stopped = [], site.case.kind == "stop"
    for rank, job in enumerate(ranks):
        if stopped and rank == site.case.rank:
            continue
        out, err = job.communicate(timeout=60)
        said.append(err)
        if job.returncode != 1 and not (rank == site.case.rank and site.case.kind in ("kill", "exit")):
            outcome.wrong.append(f"exit code {job.returncode} of rank {rank}")
    judge_time(outcome, struck())
    if stopped:
        os.kill(ranks[site.case.rank].pid, signal.SIGCONT)
        ranks[site.case.rank].communicate(timeout=60)
    # Before the ranks have met nobody can say more than that somebody is missing.
    judge_message(outcome, "\n".join(said), rank_needed=site.case.kind != "cut" and site.case.where != "start")


def run_plain(site, outcome):
    if site.case.where == "load":
        site.copy_base()
    port = str(reserve_port(site))
    more = ["--timeout", START_TIMEOUT] if site.case.where == "start" else []
    words = [site.campaign.worker, site.campaign.plans[site.case.recipe], *site.words(*more)]
    world = catalogue.RECIPES[site.case.recipe][0]
    ranks = [site.start(words, RANK=str(r), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                        MASTER_PORT=port, OMP_NUM_THREADS="1") for r in range(world)]
    judge_plain(site, outcome, ranks, site.since_mark)


def ip(*words):
    if subprocess.run(["ip", *words], capture_output=True).returncode != 0:
        raise Skip(f"may not: ip {' '.join(words)}")


def two_namespaces(site):
    """Two namespaces with a cable between them."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise Skip("network namespaces need root and ip")
    names = [f"weft{site.word}{side}" for side in "ab"]
    for name in names:
        ip("netns", "add", name)
        site.undo.append(lambda name=name: subprocess.run(["ip", "netns", "del", name], capture_output=True))
    ip("link", "add", "wv0", "netns", names[0], "type", "veth", "peer", "name", "wv0", "netns", names[1])
    for side, name in enumerate(names):
        ip("-n", name, "addr", "add", f"10.201.7.{side + 1}/24", "dev", "wv0")
        ip("-n", name, "link", "set", "wv0", "up")
        ip("-n", name, "link", "set", "lo", "up")
    return names


def run_netns(site, outcome):
    names = two_namespaces(site)
    more = ["--keep", "2"] + (["--timeout", START_TIMEOUT] if site.case.where == "start" else [])
    words = [site.campaign.worker, site.campaign.plans[site.case.recipe],
             *site.words(*more, steps=1000000, every=1 if site.case.where == "save" else 1000)]
    outputs = [open(os.path.join(site.folder, f"out-{r}"), "w+") for r in range(2)]
    ranks = [subprocess.Popen(["ip", "netns", "exec", names[r], *words], stdout=outputs[r], stderr=subprocess.PIPE,
                              text=True, env={**site.env, "RANK": str(r), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1",
                                              "MASTER_ADDR": "10.201.7.1", "MASTER_PORT": "29511",
                                              "GLOO_SOCKET_IFNAME": "wv0", "OMP_NUM_THREADS": "1"}) for r in range(2)]
    deadline = time.monotonic() + 60
    while site.case.where != "start" and time.monotonic() < deadline:
        if sum(os.path.getsize(output.name) for output in outputs) > 100 + 10 * (site.number % 20):
            break
        time.sleep(0.02)
    struck = time.time()
    ip("-n", names[site.case.rank], "link", "set", "wv0", "down")
    judge_plain(site, outcome, ranks, lambda: time.time() - struck)
    for output in outputs:
        output.close()


RUNNERS = {"weft": run_weft, "restart": run_restart, "resume": run_damage, "strict": run_damage, "plain": run_plain,
           "netns": run_netns}


def report(outcomes):
    """A row for each kind of fault and way of running."""
    rows = collections.OrderedDict()
    for outcome in outcomes:
        rows.setdefault((outcome.case.mode, outcome.case.kind), []).append(outcome)
    print(f"\n{'run by':8} {'fault':10} {'injected':>8} {'skipped':>8} {'as it should':>13} {'noticed after s (median, worst)':>33}")
    for (mode, kind), group in rows.items():
        done = [o for o in group if not o.skipped]
        times = sorted(o.noticed_s for o in done if o.noticed_s >= 0)
        text = f"{times[len(times) // 2]:.1f}, {times[-1]:.1f}" if times else "-"
        print(f"{mode:8} {kind:10} {len(done):8} {len(group) - len(done):8} {sum(not o.wrong for o in done):13} {text:>33}")
    done = [o for o in outcomes if not o.skipped]
    count = lambda word: sum(any(w.startswith(word) for w in o.wrong) for o in done)
    print(f"\n{len(done)} injections, {len(outcomes) - len(done)} skipped: {count('HANG')} hangs, {count('DAMAGED')} damaged "
          f"checkpoints, {count('LEFT')} leftovers, {sum(bool(o.wrong) for o in done)} not as they should")
    for reason in sorted({o.skipped for o in outcomes if o.skipped}):
        print(f"skipped: {reason}")
    return all(not o.wrong for o in done) and done


def shared_memory():
    """Segments that weft, libtorch or Gloo could have made; others belong to other programs."""
    return {name for name in os.listdir("/dev/shm") if re.search("weft|torch|gloo|nccl", name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", nargs="?", default="build/release/bin")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", help="a regular expression that names of injections match")
    parser.add_argument("--jobs", type=int, default=4, help="injections at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    chosen = catalogue.short_campaign() if options.short else catalogue.full_campaign(options.seed)
    chosen = [case for case in chosen if re.search(options.only, case.name())]
    shared_before = shared_memory()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="weft-faults-") as folder:
        campaign = Campaign(folder, options.bin)
        campaign.prepare({case.recipe for case in chosen} | {"dp", "pp"})
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for outcome in pool.map(campaign.run, chosen):
                outcomes.append(outcome)
                state = "skip" if outcome.skipped else "FAIL" if outcome.wrong else "ok  "
                print(f"{state} {outcome.case.name()}" + (f" {outcome.noticed_s:.1f} s" if outcome.noticed_s >= 0 else "") +
                      ("  " + "; ".join(outcome.wrong) if outcome.wrong else ""), flush=True)
                if outcome.wrong or options.verbose:
                    print("     " + outcome.said.replace("\n", "\n     ")[:2000], flush=True)
    good = report(outcomes)
    left = shared_memory() - shared_before
    if left:
        print(f"LEFT in shared memory: {sorted(left)}")
    return 0 if good and not left else 1


if __name__ == "__main__":
    sys.exit(main())
