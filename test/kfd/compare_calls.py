#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compare libhipcpu's answers with those of a runtime of AMD's.

compare_calls.py RELEASE FAKE REAL DIFFERENCES

FAKE and REAL are outputs of test/kfd/hip_calls; or of mori_calls.py and of MORI's engine, with
a backend as RELEASE.
DIFFERENCES lists the known differences.
The output has a line for each unknown difference, and for each known one that is gone.
"""

import sys

Answers = dict[str, list[str]]


def read_answers(path: str) -> Answers:
    """Words of each probe's line, by the name of the probe."""
    answers = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            name, _, words = line.partition(":")
            answers[name] = words.split()
    return answers


def read_known(path: str, release: str) -> dict[str, set[str]]:
    """Known differences of a release: by probe, the labels of their words."""
    known: dict[str, set[str]] = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            fields = line.split("#")[0].split()
            if fields and release in fields[1].split(","):
                known.setdefault(fields[0], set()).update(fields[2].split(","))
    return known


def label(word: str) -> str:
    """Label of a word: the text in front of its number."""
    return word.partition("=")[0]


def differences(fake: list[str], real: list[str]) -> set[str]:
    """Labels of the words that differ; "misuse" alone where libhipcpu ends the test."""
    if fake and fake[-1] == "signal=6" and real and real[-1] != "signal=6":
        return {"misuse"}
    differ = {label(b) for a, b in zip(fake, real) if a != b}
    if len(fake) != len(real):
        differ.add("length")
    return differ


def main() -> int:
    """Return 1 when a difference is unknown, or a known one is gone."""
    release, fake_path, real_path, known_path = sys.argv[1:]
    fake, real = read_answers(fake_path), read_answers(real_path)
    known = read_known(known_path, release)
    status = 0
    for name in sorted(set(fake) | set(real)):
        found = differences(fake.get(name, []), real.get(name, []))
        listed = known.get(name, set())
        for what in sorted(found - listed):
            print(f"{name}: {what} differs\n  here {' '.join(fake.get(name, []))}"
                  f"\n  {release} {' '.join(real.get(name, []))}")
            status = 1
        for what in sorted(listed - found):
            print(f"{name}: {what} is listed and does not differ")
            status = 1
    if not real:
        print(f"{real_path} has no answers")
        status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
