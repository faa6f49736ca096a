# SPDX-License-Identifier: BSD-3-Clause
"""``python -m morikv env`` prints the environment, ``where`` the files, ``names`` a folder,
``top`` what a running process moves. ``prove``, ``doctor`` and ``kv_perf`` run the wheel's programs."""

from __future__ import annotations

import os
import subprocess
import sys

from . import _ucx

_USAGE = """usage: python -m morikv env      exports that make UCX load ucx-mori: eval "$(...)"
       python -m morikv where    files of libmorikv, its UCX and the module
       python -m morikv names    folder for PYTHONPATH that gives the names of mori.io
       python -m morikv top URL [SECONDS [COUNT]]
                                 what the process with a morikv.metrics.Endpoint at URL moves
       python -m morikv prove|doctor|kv_perf [OPTION...]
                                 mori_prove, mori_doctor, mori_kv_perf with the UCX of `where`;
                                 each has --help"""

_PROGRAMS = {"prove": "mori_prove", "doctor": "mori_doctor", "kv_perf": "mori_kv_perf"}
_HERE = os.path.dirname(os.path.abspath(__file__))


def _bundled(command: str, name: str) -> str:
    """Return a program of the wheel, or an empty text where this package carries none."""
    program = os.path.join(_HERE, "bin", name)
    if os.path.exists(program):
        return program
    print(
        f"python -m morikv {command}: this package carries no {name}; where ucx-mori was installed "
        f"by make or from packages, call {name}",
        file=sys.stderr,
    )
    return ""


def _env() -> int:
    script = _bundled("env", "mori_env")
    if not script:
        return 1
    command = ["sh", script]
    if any(_ucx.of_wheels()):
        command += ["--python", sys.executable]
    return subprocess.run(command, check=False).returncode


def _program(command: str, arguments: list[str]) -> int:
    program = _bundled(command, _PROGRAMS[command])
    if not program:
        return 1

    from . import _library

    if _library.ucx is None:
        print(
            f"python -m morikv {command}: LIBMORIKV={_library.file} has a UCX of its own; unset it",
            file=sys.stderr,
        )
        return 1
    file = _library.ucx.partition(" ")[2]
    environment = {"PATH": os.defpath, **os.environ, "LIBMORIKV_UCX": file}

    def put_first(name: str, folder: str) -> None:
        environment[name] = f"{folder}:{environment[name]}" if environment.get(name) else folder

    libraries = os.path.dirname(file)
    tools = os.path.join(os.path.dirname(libraries), "bin")
    if os.path.exists(os.path.join(tools, "ucx_info")):  # it does not find its own libraries
        put_first("PATH", tools)
        put_first("LD_LIBRARY_PATH", libraries)
    put_first("PATH", os.path.dirname(sys.executable))
    interpreter = [] if command == "kv_perf" else [sys.executable]
    words = [*interpreter, program, *arguments]
    os.execve(words[0], words, environment)


def _where() -> int:
    from . import _library

    print("libmorikv", _library.file)
    print("ucx", _library.ucx or "the one libmorikv was linked with")
    print("module", os.environ.get("UCX_PLUGIN_PATH", "UCX_PLUGIN_PATH is not set"))
    return 0


def _names() -> int:
    from . import as_mori

    print(as_mori.NAMES)
    return 0


def _top(url: str, seconds: str = "2", count: str = "0") -> int:
    import http.client

    from . import top

    try:
        period, periods = float(seconds), int(count)
        if not 0 < period < 86400 or periods < 0:
            raise ValueError
    except ValueError:
        print(
            f"python -m morikv top: {seconds} seconds, {count} times; expected a number above 0 and "
            "a whole number",
            file=sys.stderr,
        )
        return 2
    try:
        for line in top.view(url, period, periods):
            print(line, flush=True)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"python -m morikv top: {url}: {error or type(error).__name__}", file=sys.stderr)
        return 1
    return 0


def main(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0] in _PROGRAMS:
        return _program(arguments[0], arguments[1:])
    if arguments[-1:] in (["--help"], ["-h"]):
        print(_USAGE)
        return 0
    if arguments[:1] == ["top"] and 2 <= len(arguments) <= 4:
        return _top(*arguments[1:])
    commands = {"env": _env, "where": _where, "names": _names}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(_USAGE, file=sys.stderr)
        return 2
    return commands[arguments[0]]()


sys.exit(main(sys.argv[1:]))
