# SPDX-License-Identifier: BSD-3-Clause
"""Writes the declarations of morikv.h, parsed, to morikv/_cdef.py of what is built."""

from __future__ import annotations

import importlib.util
import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py

PACKAGE = pathlib.Path(__file__).parent / "morikv"


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        # the package itself would load the library
        spec = importlib.util.spec_from_file_location("declarations", PACKAGE / "_declarations.py")
        declarations = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(declarations)
        ffi = declarations.parse((PACKAGE / "morikv.h").read_text(encoding="utf-8"))
        ffi.set_source("morikv._cdef", None)
        ffi.emit_python_code(str(pathlib.Path(self.build_lib) / "morikv" / "_cdef.py"))


setup(cmdclass={"build_py": BuildPy})
