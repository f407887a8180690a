#!/usr/bin/env python3
"""Whether more memory, more devices or faster links ever make the planner's plan slower.

    bench/monotone.py build/release/bin [--only TEXT] [--jobs 2] [--markdown FILE]

Takes the cases of never_worse.py. Each is planned along three rows in which every task has more than the one before:
shares of the memory, parts of the devices, multiples of the bandwidth of all links. "Worst" is the largest ratio of a
step to the least one of the tasks before it in its row: at most 1 where more never makes it slower. Whatever the ratio
is, it must be within the gap that the plan itself reports; a plan with `exact` must not be slower at all.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

import never_worse

MEMORY = (0.4, 0.5, 0.65, 0.8, 1)  # of the case's budget
DEVICES = (0.25, 0.5, 0.75, 1)     # of its devices, where that leaves whole hosts or parts of one
BANDWIDTH = (1, 2, 4, 16)          # times that of its links
ROWS = ("memory", "devices", "bandwidth")
SLOWER = 1.0005                    # what counts as slower


def plan(weft, model, cluster, batch, options, *more):
    """The plan as JSON; None if nothing fits."""
    command = [weft, "plan", model, "--cluster", cluster, "--batch", str(batch), "--dtype", "bf16", *options, *more, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 3:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def smaller(cluster, share):
    """The shorthand with a share of its devices: whole hosts if there are several, else a part of the only one."""
    hosts, devices, name = re.fullmatch(r"(?:(\d+)x)?(\d+)x(.+)", cluster).groups()
    hosts, devices = int(hosts or 1), int(devices)
    if hosts > 1:
        hosts *= share
    else:
        devices *= share
    whole = hosts == int(hosts) and devices == int(devices)
    return f"{int(hosts)}x{int(devices)}x{name}" if whole else None


def faster(value, times):
    """The cluster file with links that are some times as fast."""
    if isinstance(value, list):
        return [faster(v, times) for v in value]
    if not isinstance(value, dict):
        return value
    changed = {key: faster(v, times) for key, v in value.items()}
    if "between" in value and "bandwidth" in value:
        number, unit = re.fullmatch(r"([0-9.e+]+)\s*(\D*)", str(value["bandwidth"])).groups()
        changed["bandwidth"] = f"{float(number) * times:.17g}{unit}" if unit else float(number) * times
    return changed


def rows_of(weft, case, folder):
    """By row: the plans, None where nothing fits."""
    model, cluster, batch, text = case
    options = text.split()
    file = os.path.join(folder, "plan.json")
    whole = plan(weft, model, cluster, batch, options, "-o", file)
    budget = min(whole["memory_budget_bytes"])
    if "--memory" in options:
        at = options.index("--memory")
        options[at:at + 2] = []
    memory = ["--memory", f"{budget}B"]
    rows = {"memory": [plan(weft, model, cluster, batch, options, "--memory", f"{int(budget * share)}B") for share in MEMORY]}
    clusters = filter(None, (smaller(cluster, share) for share in DEVICES))
    rows["devices"] = [plan(weft, model, c, batch, options, *memory) for c in clusters]
    with open(file) as read:
        described = json.load(read)["cluster"]
    rows["bandwidth"] = []
    for times in BANDWIDTH:
        path = os.path.join(folder, f"cluster-{times}.json")
        with open(path, "w") as write:
            json.dump(faster(described, times), write)
        rows["bandwidth"].append(plan(weft, model, path, batch, options, *memory))
    return rows


def worst(plans):
    """The largest ratio to the least step before, and whether every plan is within the gap it reports."""
    ratio, honest, least = 0, True, None
    for found in plans:
        if found is None:
            honest &= least is None
            continue
        step = found["step_seconds"]
        if least is not None:
            ratio = max(ratio, step / least)
            honest &= found["bound_seconds"] <= least and not (found["exact"] and step > least * SLOWER)
        least = step if least is None else min(least, step)
    return ratio, honest


def measure(weft, case):
    with tempfile.TemporaryDirectory() as folder:
        try:
            return {name: worst(plans) for name, plans in rows_of(weft, case, folder).items()}
        except RuntimeError as error:
            return str(error)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("--only", default="", help="cases whose text has this")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time")
    parser.add_argument("--markdown", help="write the table here")
    arguments = parser.parse_args()
    cases = [case for case in never_worse.CASES if arguments.only in " ".join(map(str, case))]
    lines = ["| model | cluster | batch | options | " + " | ".join(ROWS) + " |", "| --- " * 7 + "|"]
    print("\n".join(lines), flush=True)
    found, failed = [], False
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, rows in zip(cases, pool.map(lambda c: measure(f"{arguments.bin}/weft", c), cases)):
            start = "| " + " | ".join(map(str, case)) + " | "
            if isinstance(rows, str):
                failed = True
                lines.append(f"{start}{rows} | | |")
            else:
                found.append(rows)
                failed |= not all(honest for _, honest in rows.values())
                lines.append(start + " | ".join(f"{rows[r][0]:.4f}{'' if rows[r][1] else ' NOT WITHIN ITS GAP'}" for r in ROWS) + " |")
            print(lines[-1], flush=True)
    for name in ROWS if found else ():
        ratios = [rows[name][0] for rows in found if rows[name][0] > 0]
        slower = sum(r > SLOWER for r in ratios)
        lines.append(f"\nMore {name}: worst {max(ratios, default=0):.4f}, slower in {slower} of {len(ratios)} cases.")
        print(lines[-1])
    if arguments.markdown:
        with open(arguments.markdown, "w") as file:
            file.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
