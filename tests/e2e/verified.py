"""Plans that `weft verify` compares with one device: what tests of plans share."""
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor


def run(folder, *words):
    """Exit code, standard output and standard error of `weft` in a folder of binaries."""
    done = subprocess.run([os.path.join(folder, "weft"), *words], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr.strip()


def step_and_bound(folder, plan):
    """Simulated seconds of a step, and what no plan of the model on the cluster is below."""
    done = subprocess.run([os.path.join(folder, "plan_bound"), plan], capture_output=True, text=True, check=True)
    return map(float, done.stdout.split())


def is_same(folder, title, plan, *options):
    """Whether the plan trains the model of one device, uses the memory it said it would, within 2 %, and is not
    predicted to be faster than any plan can be."""
    code, out, said = run(folder, "verify", plan, "--json", *options)
    if code not in (0, 1) or not out:
        print(f"FAIL {title}: exit {code}: {said[:400]}", flush=True)
        return False
    answer = json.loads(out)
    predicted, measured = answer["peak_memory_bytes"]["predicted"], answer["peak_memory_bytes"]["measured"]
    off = max(abs(p - m) / max(m, 1) for p, m in zip(predicted, measured))
    step, bound = step_and_bound(folder, plan)
    good = answer["equal"] and off <= 0.02 and bound <= step * (1 + 1e-9)
    print(f"{'ok  ' if good else 'FAIL'} {title}: loss error {answer['loss_error']:.1e}, gradient error "
          f"{answer['gradient_error']['worst']:.1e} ({answer['gradient_error'].get('name')}), memory off by "
          f"{100 * off:.2f} %, step {step:.3g} s of at least {bound:.3g}", flush=True)
    return good


def is_planned(folder, title, *words):
    """Whether `weft plan` made the plan."""
    code, _, said = run(folder, "plan", *words, "-q")
    if code != 0:
        print(f"FAIL {title}: exit {code}: {said[:400]}", flush=True)
    return code == 0


def check_all(check, cases):
    """Calls check(*case, path of a plan) for all cases, two at a time: much of a small job is waiting. The exit code."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        paths = (os.path.join(folder, f"plan{i}.json") for i in range(len(cases)))
        good = list(pool.map(lambda case, path: check(*case, path), cases, paths))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1
