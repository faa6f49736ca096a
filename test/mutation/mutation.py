"""Shared by run and find: a build, one source file of it compiled with a change, and a unit
test linked with that object before the library's archive. The tree and its build are only read.
"""

import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
ENVIRONMENT = os.path.join(TREE, "test", "support", "environment.sh")
# Check runs the case MKV_CASE alone, and no longer than 20 s
ONLY_CASE = r"""
#include <check.h>
#include <stdlib.h>
#include <string.h>

void __real__tcase_add_test(TCase *tcase, const TTest *test, int signal, int status, int start, int end);
void __real_tcase_set_timeout(TCase *tcase, double seconds);

void __wrap__tcase_add_test(TCase *tcase, const TTest *test, int signal, int status, int start, int end)
{
    const char *name = getenv("MKV_CASE");

    if ((name == NULL) || (strcmp(test->name, name) == 0)) {
        __real__tcase_add_test(tcase, test, signal, status, start, end);
    }
}

void __wrap_tcase_set_timeout(TCase *tcase, double seconds)
{
    __real_tcase_set_timeout(tcase, (seconds > LIMIT_S) ? LIMIT_S : seconds);
}
"""
# Limit that ends a mutant that hangs; a case takes less than a tenth of this on a busy machine
LIMIT_S = 20


class Build:
    """How make compiles a source, and the objects and libraries of each of these programs"""

    def __init__(self, build, programs, work):
        self.build, self.work = os.path.abspath(build), work
        made = subprocess.run(["make", "-s", "-C", build, f"-j{os.cpu_count()}"] + programs, capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"test/mutation: make failed in {build}: {made.stderr[-2000:]}")
        lines = subprocess.run([os.path.join(HERE, "make_commands"), build] + programs, capture_output=True, text=True, check=True)
        words = [line.split() for line in lines.stdout.splitlines()]
        (compiler,) = ([word for word in rest if word != "ccache"] for kind, *rest in words if kind == "compile")
        self.compiler = compiler + ["-O0", "-w"]
        self.parts = {rest[0]: rest[1:] for kind, *rest in words if kind == "link"}
        only = os.path.join(work, "only.c")
        with open(only, "w") as file:
            file.write(f"#define LIMIT_S {LIMIT_S}\n{ONLY_CASE}")
        subprocess.run(["cc", "-O0", "-w", "-c", "-o", only + ".o", only], check=True)
        self.linker = ["cc", "-Wl,--wrap=_tcase_add_test,--wrap=tcase_set_timeout", only + ".o"]

    def compile(self, text, source, folder):
        """The object of TEXT in place of SOURCE; None when it does not compile."""
        path = os.path.join(folder, os.path.basename(source))
        with open(path, "w") as file:
            file.write(text)
        command = self.compiler + ["-iquote", os.path.join(TREE, os.path.dirname(source)), "-c", "-o", path + ".o", path]
        return path + ".o" if subprocess.run(command, cwd=self.build, capture_output=True).returncode == 0 else None

    def run(self, program, objects, folder, case=None):
        """'green', 'red', or a text when the case, or with None all of them, did not run."""
        path = os.path.join(folder, os.path.basename(program))
        linked = subprocess.run(self.linker + ["-o", path] + objects + self.parts[program], cwd=self.build, capture_output=True, text=True)
        if linked.returncode != 0:
            return "it cannot be linked: " + linked.stderr.strip().split("\n")[0]
        fork = "no" if case is None else "yes"
        environment = dict(os.environ, CK_FORK=fork, CK_VERBOSITY="normal", CK_DEFAULT_TIMEOUT=str(LIMIT_S), CK_TIMEOUT_MULTIPLIER="1",
                           MKV_UNDER_VALGRIND="1")
        if case is not None:
            del environment["MKV_UNDER_VALGRIND"]
            environment["MKV_CASE"] = case
        try:
            ended = subprocess.run(["sh", "-c", '. "$0" && exec "$1"', ENVIRONMENT, path], cwd=self.build, env=environment, text=True,
                                   errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   timeout=LIMIT_S if case is None else 15 * LIMIT_S)
        except subprocess.TimeoutExpired:
            return "red"
        finally:
            os.unlink(path)
        if case is None:
            return "green" if ended.returncode == 0 else "red"
        if re.search(rf":[FES]:[^:]*:{case}:", ended.stdout):  # S: before the case began
            return "red"
        return "green" if re.search(r"Checks: [1-9]", ended.stdout) else "the program has no such case"


def find_function(name):
    """(path, text of the file, start and end of the one definition of a function in src or ucx_plugin)"""
    found = []
    for room in ("src", "ucx_plugin"):
        for folder, _, names in os.walk(os.path.join(TREE, room)):
            for path in (os.path.join(folder, file) for file in names if file.endswith(".c")):
                with open(path) as file:
                    text = file.read()
                for match in re.finditer(rf"^(?:[a-z_][^;{{}}()]*[ *])?{name}\([^;{{}}]*\)\n\{{\n.*?^\}}$", text, re.M | re.S):
                    found.append((os.path.relpath(path, TREE), text, match.start(), match.end()))
    if len(found) != 1:
        raise ValueError(f"{len(found)} functions have the name {name}, expected 1")
    return found[0]


def mutate(function, change):
    """(path, text with the CHANGE: 'true EXPRESSION', 'false EXPRESSION' or 'omit BEGINNING OF A STATEMENT')"""
    path, text, start, end = find_function(function)
    kind, _, pattern = change.partition(" ")
    tokens = re.findall(r"\w+|->|&&|\|\||[<>=!|]=|\"(?:[^\"\\]|\\.)*\"|\S", pattern)
    found = list(re.finditer(r"\s*".join(re.escape(token) for token in tokens), text[start:end]))
    if len(found) != 1:
        raise ValueError(f"{path}: {function}() has '{pattern}' {len(found)} times, expected once")
    first, last = start + found[0].start(), start + found[0].end()
    if kind == "omit":
        last = text.index(";", last - 1) + 1
    instead = {"true": "(1)", "false": "(0)", "omit": ";"}[kind]
    return path, text[:first] + instead + text[last:]
