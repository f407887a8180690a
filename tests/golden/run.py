#!/usr/bin/env python3
"""Runs the commands of cases/*.cmd and compares what they print with cases/*.out.

    run.py BIN [--update] [NAME...]     BIN: the folder of weft; --update rewrites the .out files

A case is a list of commands, one a line, run in one empty folder that holds copies of cases/*.json; '#' starts a
comment. Besides weft there is `cat FILE`. Its .out holds each command, what it printed (standard error with '! ' before
every line) and its exit code if that is not 0. What changes from run to run is replaced: see `steady`.
"""
import argparse
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases")


def steady(text):
    """Search times become TIME; long decimals, whose last digits depend on the compiler, keep 5 digits."""
    text = re.sub(r"found in [^:]*:", "found in TIME:", text)
    text = re.sub(r'("search_seconds": )[0-9.e+-]+', r"\1TIME", text)
    return re.sub(r"\b\d+\.\d{5,}(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.5g}", text)


def run_line(line, binary, folder):
    words = shlex.split(line)
    if words[0] == "weft":
        words[0] = binary
    elif words[0] != "cat":
        raise SystemExit(f"golden: a case may run weft and cat, not '{words[0]}'")
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=240)
    text = f"$ {line}\n" + done.stdout
    text += "".join(f"! {row}\n" for row in done.stderr.splitlines())
    return text + (f"exit {done.returncode}\n" if done.returncode != 0 else "")


def run_case(path, binary):
    with open(path) as file:
        lines = [line.strip() for line in file]
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(os.listdir(CASES)):
            if name.endswith(".json"):
                shutil.copy(os.path.join(CASES, name), folder)
        text = "\n".join(run_line(line, binary, folder) for line in lines if line and not line.startswith("#"))
    return steady(text)


def check(name, binary, update):
    got = run_case(os.path.join(CASES, name + ".cmd"), binary)
    path = os.path.join(CASES, name + ".out")
    if update:
        with open(path, "w") as file:
            file.write(got)
    want = ""
    if os.path.exists(path):
        with open(path) as file:
            want = file.read()
    good = got == want
    print(f"{'ok  ' if good else 'FAIL'} {name}", flush=True)
    if not good:
        lines = list(difflib.unified_diff(want.splitlines(), got.splitlines(), name + ".out", "now", lineterm=""))
        print("\n".join(lines[:60] + ([f"… {len(lines) - 60} lines more"] if len(lines) > 60 else [])))
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("bin")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_intermixed_args()
    binary = os.path.abspath(os.path.join(options.bin, "weft"))
    names = options.names or sorted(n[:-4] for n in os.listdir(CASES) if n.endswith(".cmd"))
    good = [check(name, binary, options.update) for name in names]
    failed = len(good) - sum(good)
    print(f"{sum(good)} passed, {failed} failed" + ("; if the change is meant: --update" if failed else ""))
    return 0 if not failed else 1


if __name__ == "__main__":
    sys.exit(main())
