#!/usr/bin/env python3
"""A user's way: install weft, build a program with a model of its own against it, run it; and model files."""
import os
import re
import subprocess
import sys
import tempfile

from checks import BIN, WORKER, check, check_run, run, summary

BUILD = os.path.dirname(os.path.abspath(BIN))
EXAMPLE = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../examples/own_model"))


def do(what, *words, cwd=None):
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, timeout=600)
    check(what, done.returncode == 0, done.stdout + done.stderr)
    return done.stdout if done.returncode == 0 else None


def losses_of(text):
    return [float(x) for x in re.findall(r"^step \d+ loss (\S+)$", text or "", re.M)]


def check_example(folder):
    prefix = f"{folder}/prefix"
    if do("cmake --install", "cmake", "--install", BUILD, "--prefix", prefix) is None:
        return
    if do("the example finds weft", "cmake", "-G", "Ninja", "-S", EXAMPLE, "-B", f"{folder}/build", f"-DCMAKE_PREFIX_PATH={prefix}",
          "-DCMAKE_BUILD_TYPE=Debug") is None:
        return
    if do("the example is built", "cmake", "--build", f"{folder}/build") is None:
        return
    out = do("the example runs", f"{folder}/build/own_model")
    losses = losses_of(out)
    check("20 steps were reported", len(losses) == 20, out)
    check("the loss falls", losses and losses[-1] < losses[0] - 0.1, losses)
    again = losses_of(do("it runs again", f"{folder}/build/own_model"))
    check("to the same losses", losses == again, f"{losses}\n{again}")
    installed = subprocess.run([f"{prefix}/bin/weft", "models"], capture_output=True, text=True, timeout=120)
    check("the installed weft runs", installed.returncode == 0 and "gpt2-small" in installed.stdout, installed.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_example(folder)
        check_run("a model file that is not there", ["plan", f"{folder}/none.weft", "--cluster", "local:2", "--batch", "8"],
                  2, "there is no model file")
        with open(f"{folder}/bad.weft", "w") as file:
            file.write("weft model 2\n")
        check_run("a file that is no model", ["plan", f"{folder}/bad.weft", "--cluster", "local:2", "--batch", "8"],
                  2, "is no model file")
    return summary()


sys.exit(main())
