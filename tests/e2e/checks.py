"""What the end-to-end tests share: running weft, and counting what held."""
import os
import subprocess
import sys

BIN = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin"
WEFT = os.path.abspath(os.path.join(BIN, "weft"))
WORKER = os.path.abspath(os.path.join(BIN, "weft-worker"))
TINY = "gpt:layers=2,hidden=32,heads=4,vocab=64,seq=16"
RESULTS = []


def check(what, good, detail=""):
    RESULTS.append(bool(good))
    print(f"{'ok  ' if good else 'FAIL'} {what}" + ("" if good else f"\n     {detail}"), flush=True)
    return bool(good)


def run(*words, cwd=None, env=None, timeout=120):
    return subprocess.run([WEFT, *words], capture_output=True, text=True, cwd=cwd, env=env, timeout=timeout)


def check_run(what, words, code, *texts, cwd=None):
    """The command ends with this exit code, and what it says on standard error holds all the texts."""
    done = run(*words, cwd=cwd)
    missing = [text for text in texts if text not in done.stderr]
    good = done.returncode == code and not missing and (code == 0 or done.stdout == "")
    check(what, good, f"exit {done.returncode}, wanted {code}; not said: {missing}\n{done.stdout}{done.stderr}")
    return done


def summary():
    """Call it last: the exit code."""
    print(f"{sum(RESULTS)} passed, {len(RESULTS) - sum(RESULTS)} failed")
    return 0 if RESULTS and all(RESULTS) else 1
