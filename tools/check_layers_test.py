#!/usr/bin/env python3
"""check_layers.py finds what is forbidden and lets through what is allowed."""
import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
from check_layers import file_errors, name_errors, reachable, read_modules  # noqa: E402

CMAKE = """
weft_module(base)
weft_module(graph weft::base)
weft_module(ops weft::graph)
weft_module(plan weft::graph)
weft_module(program weft::plan weft::ops)
target_link_libraries(weft_kernels PUBLIC weft_flags weft::ops weft_torch)
  target_link_libraries(weft_runtime PUBLIC weft_flags weft::program weft::kernels)
  target_link_libraries(weft PRIVATE weft::program CLI11::CLI11)
  target_link_libraries(weft-worker PRIVATE weft::runtime)
"""


def errors(path, line):
    return len(file_errors(pathlib.Path(path), line, read_modules(CMAKE)))


class Layers(unittest.TestCase):
    def test_reads_cmake(self):
        modules = read_modules(CMAKE)
        self.assertEqual(modules["kernels"], {"ops"})
        self.assertEqual(modules["runtime"], {"program", "kernels"})
        self.assertEqual(modules["apps/weft"], {"program"})
        self.assertEqual(reachable(modules, "program"), {"plan", "ops", "graph", "base"})

    def test_a_module_includes_what_it_reaches(self):
        self.assertEqual(errors("weft/program/a.cpp", '#include "weft/base/error.h"'), 0)
        self.assertEqual(errors("weft/plan/a.cpp", '#include "weft/ops/op.h"'), 1)
        self.assertEqual(errors("weft/base/a.h", '  #  include "weft/graph/graph.h"'), 1)

    def test_kernels_beside_their_op(self):
        self.assertEqual(errors("weft/ops/a.aten.cpp", '#include "weft/kernels/kernel.h"'), 0)
        self.assertEqual(errors("weft/ops/a.aten.cpp", "#include <ATen/ATen.h>"), 0)
        self.assertEqual(errors("weft/ops/a.aten.h", "#include <ATen/ATen.h>"), 0)
        self.assertEqual(errors("weft/ops/a.aten.cpp", '#include "weft/plan/plan.h"'), 1)
        self.assertEqual(errors("weft/ops/a.cpp", '#include "weft/kernels/kernel.h"'), 1)
        self.assertEqual(errors("weft/ops/a.h", "#include <c10/core/Device.h>"), 1)

    def test_the_command_line_knows_no_libtorch(self):
        self.assertEqual(errors("apps/weft/a.cpp", '#include "weft/program/lower.h"'), 0)
        self.assertEqual(errors("apps/weft/a.cpp", '#include "weft/runtime/executor.h"'), 1)
        self.assertEqual(errors("apps/weft/a.cpp", '#include "weft/kernels/kernel.h"'), 1)
        self.assertEqual(errors("apps/weft/a.cpp", "#include <torch/torch.h>"), 1)
        self.assertEqual(errors("apps/weft-worker/a.cpp", '#include "weft/runtime/executor.h"'), 0)
        self.assertEqual(errors("apps/weft-worker/a.cpp", "#include <ATen/ATen.h>"), 0)

    def test_types_of_one_name(self):
        a = ("weft/a/a.h", "namespace weft {\nstruct Answer {\n};\n}")
        b = ("weft/b/b.h", "namespace weft {\nclass Answer : public Base {\n};\n}")
        other = ("weft/b/c.h", "namespace weft::other {\nstruct Answer {\n};\n}")
        self.assertEqual(len(name_errors([a, b])), 1)
        self.assertEqual(name_errors([a, other]), [])
        self.assertEqual(name_errors([a, ("weft/b/d.h", "namespace weft {\nstruct Answer;\n}")]), [])

    def test_a_folder_that_cmake_does_not_know(self):
        self.assertEqual(errors("weft/utils/a.cpp", ""), 1)


if __name__ == "__main__":
    unittest.main()
