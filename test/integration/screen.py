# SPDX-License-Identifier: BSD-3-Clause
"""Picture of a command's output in a terminal; and the words of pictures.

    screen.py take COLUMNS PICTURE TEXT COMMAND [ARG...]    TEXT is the line that was typed
    screen.py words PICTURE                                 without figures and blanks

Exits 1 when a line is longer than the terminal, or the command does not end.
"""

import fcntl
import inspect
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import textwrap
import xml.dom.minidom

LIMIT_S = 120
ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run(columns, command):
    """All that the command writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
    os.close(theirs)
    data = b""
    while True:
        if not select.select([ours], [], [], LIMIT_S)[0]:
            child.kill()
            sys.exit(f"screen.py: {command[0]} printed nothing for {LIMIT_S} s")
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: the other end is closed
            part = b""
        if not part:
            child.wait()
            return data.decode()
        data += part


def lines_of(text):
    """Visible part of lines that are drawn over."""
    return [line.rsplit("\r", 1)[-1].replace("\x1b[K", "") for line in text.replace("\r\n", "\n").rstrip("\n").split("\n")]


def draw(columns, path, lines):
    """Draw with rich, in a font that need not be fetched."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=columns, file=open(os.devnull, "w"), force_terminal=True, legacy_windows=False)
    for line in lines:
        console.print(Text.from_ansi(line), soft_wrap=True)
    style = inspect.signature(console.export_svg).parameters["code_format"].default
    style = re.sub(r"@font-face *{{.*?}}", "", style, flags=re.S)
    svg = console.export_svg(title=f"{columns} columns", code_format=style, unique_id="screen")
    with open(path, "w") as file:
        file.write("\n".join(line.strip() for line in svg.splitlines() if line.strip()) + "\n")


def words(path):
    """Drop figures, which differ from run to run, and line breaks, which move with them."""
    texts = []

    def add(node):
        for child in node.childNodes:
            if child.nodeType == child.TEXT_NODE:
                texts.append(child.data)
            add(child)

    for node in xml.dom.minidom.parse(path).getElementsByTagName("text"):
        add(node)
    return re.sub(r"[\d.\s\xa0]+", "", " ".join(texts))


def main():
    if sys.argv[1] == "words":
        print(words(sys.argv[2]))
        return
    columns, path, typed = int(sys.argv[2]), sys.argv[3], sys.argv[4]
    # a terminal would break it anywhere
    shown = textwrap.wrap("$ " + typed, columns - 2, subsequent_indent="      ", break_on_hyphens=False)
    lines = [line + " \\" for line in shown[:-1]] + shown[-1:] + lines_of(run(columns, sys.argv[5:]))
    wide = [line for line in lines if len(ESCAPE.sub("", line)) > columns]
    if wide:
        sys.exit(f"screen.py: more than {columns} columns: {wide[0]}")
    draw(columns, path, lines)


main()
