#!/usr/bin/env python3
"""Fails if a C++ source is not as clang-format would write it. `tools/format.sh` mends it."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("apps", "bench", "tests", "weft")


def main():
    if shutil.which("clang-format") is None:
        print("clang-format is not installed: run tools/install_packages.sh")
        return 1
    files = sorted(str(p.relative_to(ROOT)) for folder in FOLDERS for p in (ROOT / folder).rglob("*")
                   if p.suffix in {".h", ".cpp"})
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *files], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    if done.returncode == 0:
        print(f"{len(files)} files are formatted")
        return 0
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True, check=False).stdout.strip()
    wrong = sorted({line.split(":")[0] for line in done.stderr.splitlines() if "-Wclang-format-violations" in line})
    print("\n".join(wrong) or done.stderr)
    print(f"not formatted ({version}): run tools/format.sh")
    return 1


if __name__ == "__main__":
    sys.exit(main())
