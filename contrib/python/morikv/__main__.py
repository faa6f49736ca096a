# SPDX-License-Identifier: BSD-3-Clause
"""``python -m morikv env`` prints the environment, ``where`` the files, ``names`` a folder,
``top`` what a running process moves."""

from __future__ import annotations

import os
import subprocess
import sys

from . import _ucx

_USAGE = """usage: python -m morikv env      exports that make UCX load ucx-mori: eval "$(...)"
       python -m morikv where    files of libmorikv, its UCX and the module
       python -m morikv names    folder for PYTHONPATH that gives the names of mori.io
       python -m morikv top URL [SECONDS [COUNT]]
                                 what the process with a morikv.metrics.Endpoint at URL moves"""


def _env() -> int:
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib")
    script = os.path.join(folder, "mori_env")
    if not os.path.exists(script):
        print(
            "python -m morikv env: this package carries no module; where ucx-mori was "
            "installed by make, call mori_env",
            file=sys.stderr,
        )
        return 1
    command = ["sh", script, "--modules", os.path.join(folder, "ucx-mori")]
    if any(_ucx.of_wheels()):
        command += ["--python", sys.executable]
    return subprocess.run(command, check=False).returncode


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
    if arguments[:1] == ["top"] and 2 <= len(arguments) <= 4:
        return _top(*arguments[1:])
    commands = {"env": _env, "where": _where, "names": _names}
    if len(arguments) != 1 or arguments[0] not in commands:
        print(_USAGE, file=sys.stderr)
        return 2
    return commands[arguments[0]]()


sys.exit(main(sys.argv[1:]))
