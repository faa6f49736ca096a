#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the stand-in of the kernel driver, without AMD's runtimes (test/kfd/run)."""

import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys

VERSION, UNKNOWN = 0x80084B01, 0xC0084B7F
ALLOC, ALLOC_BYTES = 0xC0284B16, "=QQQQII"  # kfd_ioctl_alloc_memory_of_gpu_args
FREE = 0x40084B17
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
MIB = 1 << 20
VRAM = 1  # KFD_IOC_ALLOC_MEM_FLAGS_VRAM


def call(fd: int, request: int, data: bytes) -> bytes | int:
    """What the ioctl returned, or its error."""
    buffer = bytearray(data)
    try:
        fcntl.ioctl(fd, request, buffer)
    except OSError as error:
        return error.errno or 0
    return bytes(buffer)


def gpu_ids() -> list[int]:
    ids = []
    for node in sorted(os.listdir(NODES)):
        with open(f"{NODES}/{node}/gpu_id", encoding="ascii") as file:
            ids.append(int(file.read()))
    return [number for number in ids if number != 0]


def alloc(fd: int, size: int) -> bytes | int:
    return call(fd, ALLOC, struct.pack(ALLOC_BYTES, 1 << 63, size, 0, 0, gpu_ids()[0], VRAM))


def again(what: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, what], env={**os.environ, **settings}, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def expect(what: str, is_so: bool) -> None:
    print(f"{'ok  ' if is_so else 'FAIL'} {what}")
    if not is_so:
        sys.exit(1)


def child(what: str) -> None:
    fd = os.open("/dev/kfd", os.O_RDWR)
    if what == "unknown":
        print(call(fd, UNKNOWN, bytes(8)))
    elif what == "count":
        print(len(gpu_ids()))
    elif what == "faults":
        print([isinstance(call(fd, VERSION, bytes(8)), bytes) for _ in range(3)])
    elif what == "memory":
        print(isinstance(alloc(fd, 48 * MIB), bytes), flush=True)
        sys.stdin.read()


def killed() -> None:
    """Memory of a killed process is free again."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    owner = again("memory")
    assert owner.stdout is not None
    expect("another process allocates 48 of 64 MiB", owner.stdout.readline() == "True\n")
    expect("32 MiB more are refused with ENOMEM", alloc(fd, 32 * MIB) == errno.ENOMEM)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    memory = alloc(fd, 32 * MIB)
    expect("and are there once it is killed", isinstance(memory, bytes))
    assert isinstance(memory, bytes)
    handle = struct.pack("=Q", struct.unpack(ALLOC_BYTES, memory)[2])
    expect("memory is freed", isinstance(call(fd, FREE, handle), bytes))
    expect("once", call(fd, FREE, handle) == errno.EINVAL)


def main() -> None:
    if len(sys.argv) > 1:
        child(sys.argv[1])
        return
    os.environ["KFDCPU_VRAM"] = "64m"
    out, err = again("unknown").communicate()
    expect("an unknown ioctl is refused by number", out == f"{errno.ENOTTY}\n" and "ioctl 0x7f of /dev/kfd" in err)
    for count in ("1", "3", "8"):
        expect(f"the topology has {count} GPUs", again("count", KFDCPU_GPUS=count).communicate()[0] == f"{count}\n")
    out, err = again("count", KFDCPU_GPUS="9").communicate()
    expect("nine GPUs are refused", out == "" and "expected 1 to 8" in err)
    out, _ = again("faults", KFDCPU_FAIL="GET_VERSION:2:5").communicate()
    expect("a fault comes with its call", out == "[True, False, True]\n")
    expect("a process is killed", again("killed", KFDCPU_GPUS="1").wait() == 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["killed"]:
        killed()
    else:
        main()
