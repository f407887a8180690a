#!/usr/bin/env python3
"""Fails if a module includes a module that CMake does not list among its dependencies.

The module graph is read from the weft_module(<name> <deps...>) calls in CMakeLists.txt, so there is
one place to change it. Torch headers are allowed in TORCH_MODULES only.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH_MODULES = {"runtime", "kernels"}  # and any *.aten.cpp
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def declared_modules():
    text = (ROOT / "CMakeLists.txt").read_text()
    calls = re.findall(r"^weft_module\((\w+)([^)]*)\)", text, re.M)
    return {name: set(re.findall(r"weft::(\w+)", deps)) for name, deps in calls}


def reachable(modules, name):
    seen, todo = set(), [name]
    while todo:
        for dep in modules.get(todo.pop(), ()):
            if dep not in seen:
                seen.add(dep)
                todo.append(dep)
    return seen


def main():
    modules = declared_modules()
    errors = [f"module {m} depends on itself" for m in modules if m in reachable(modules, m)]
    for path in sorted((ROOT / "weft").rglob("*.[hc]*")):
        module = path.relative_to(ROOT / "weft").parts[0]
        if module not in modules:
            continue  # shown as an example only, not built
        allowed = reachable(modules, module) | {module}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            where, target = f"{path.relative_to(ROOT)}:{number}", found.group(2)
            if target.startswith("weft/") and target.split("/")[1] not in allowed:
                errors.append(f"{where}: {module} may not include {target}")
            if re.match(r"(ATen|c10|torch)/", target) and module not in TORCH_MODULES and not path.name.endswith(".aten.cpp"):
                errors.append(f"{where}: {module} may not include torch headers")
    print("\n".join(errors) or f"{len(modules)} modules, layers hold")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
