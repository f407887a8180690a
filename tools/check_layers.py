#!/usr/bin/env python3
"""Fails if a module includes a module that CMake does not list among its dependencies.

The module graph is read from CMake, so there is one place to change it: weft_module(<name> <deps...>) calls, and
target_link_libraries for the targets with libtorch (weft_kernels, weft_runtime) and the two binaries. A module may
include what it depends on, directly or through others. Torch headers are allowed in TORCH_MODULES only.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TORCH_MODULES = {"kernels", "runtime", "apps/weft-worker"}
TORCH_HEADER = re.compile(r"(ATen|c10|caffe2|torch)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
# Targets that no weft_module call makes, by the name of their module here.
OTHER_TARGETS = {"weft_kernels": "kernels", "weft_runtime": "runtime", "weft": "apps/weft",
                 "weft-worker": "apps/weft-worker"}


def read_modules(text):
    """Module -> the modules it links, from the text of CMake files."""
    calls = re.findall(r"^weft_module\((\w+)([^)]*)\)", text, re.M)
    links = re.findall(r"^\s*target_link_libraries\(([\w-]+)\s([^)]*)\)", text, re.M)
    calls += [(OTHER_TARGETS[target], deps) for target, deps in links if target in OTHER_TARGETS]
    return {name: set(re.findall(r"weft::(\w+)", deps)) for name, deps in calls}


def reachable(modules, name):
    seen, todo = set(), [name]
    while todo:
        for dep in modules.get(todo.pop(), ()):
            if dep not in seen:
                seen.add(dep)
                todo.append(dep)
    return seen


def module_of(path):
    """The module of a source, by its path from the root. Kernels that are code stand beside their op."""
    if path.parts[0] == "apps":
        return "/".join(path.parts[:2])
    if path.parts[1] == "ops" and ".aten." in path.name:
        return "kernels"
    return path.parts[1]


def file_errors(path, text, modules):
    """What is wrong with one source; `path` is relative to the root."""
    module = module_of(path)
    if module not in modules:
        return [f"{path}: no CMake file declares module {module}"]
    allowed = reachable(modules, module) | {module}
    errors = []
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        target = found.group(2)
        if target.startswith("weft/") and target.split("/")[1] not in allowed:
            errors.append(f"{path}:{number}: {module} may not include {target}")
        if TORCH_HEADER.match(target) and module not in TORCH_MODULES:
            errors.append(f"{path}:{number}: {module} may not include torch headers ({target})")
    return errors


TYPE = re.compile(r"^(?:struct|class|enum class|enum) (\w+)(?: final)?(?: :[^;{]*)?\s*\{", re.MULTILINE)
NAMESPACE = re.compile(r"^namespace ([\w:]+)", re.MULTILINE)


def name_errors(headers):
    """Types of one name in one namespace, in two headers: the linker mixes up their members. `headers`: path, text."""
    homes = {}
    errors = []
    for path, text in headers:
        namespace = NAMESPACE.search(text)
        for name in TYPE.findall(text):
            known = homes.setdefault((namespace.group(1) if namespace else "", name), path)
            if known != path:
                errors.append(f"{path}: {name} is also a type of {known}")
    return errors


def sources():
    for folder in ("weft", "apps"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in {".h", ".cpp"}:
                yield path


def main():
    modules = read_modules("\n".join((ROOT / name).read_text() for name in ("CMakeLists.txt", "cmake/torch.cmake")))
    errors = [f"CMake does not link {target}" for target, name in OTHER_TARGETS.items() if name not in modules]
    for name, deps in modules.items():
        errors += [f"module {name} depends on itself"] * (name in reachable(modules, name))
        errors += [f"module {name} depends on {dep}, which is not declared" for dep in sorted(deps - set(modules))]
    for path in sources():
        errors += file_errors(path.relative_to(ROOT), path.read_text(), modules)
    errors += name_errors([(path.relative_to(ROOT), path.read_text()) for path in sources() if path.suffix == ".h"])
    print("\n".join(errors) or f"{len(modules)} modules, layers hold")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
