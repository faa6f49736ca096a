#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Mooncake's wheel for ROCm moves the memory of one GPU to another process's and back.

The program starts itself as the peer; every byte is compared.
"""

import ctypes
import os
import subprocess
import sys

from mooncake.engine import TransferEngine

SIZE = 1 << 20
TO_DEVICE, TO_HOST = 1, 2
hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])


def check(name: str, status: int) -> None:
    if status != 0:
        sys.exit(f"{name} returned {status}")


def copy(to: object, source: object, kind: int) -> None:
    check("hipMemcpy", hip.hipMemcpy(to, source, ctypes.c_size_t(SIZE), kind))


def allocate(engine: TransferEngine, gpu: int, data: bytes) -> int:
    """GPU memory with these bytes, registered."""
    memory = ctypes.c_void_p()
    check("hipSetDevice", hip.hipSetDevice(gpu))
    check("hipMalloc", hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(SIZE)))
    copy(memory, data, TO_DEVICE)
    assert memory.value is not None
    check("register_memory", engine.register_memory(memory.value, SIZE))
    return memory.value


def content(address: int) -> bytes:
    data = ctypes.create_string_buffer(SIZE)
    copy(data, ctypes.c_void_p(address), TO_HOST)
    return data.raw


def peer(engine: TransferEngine) -> None:
    memory = allocate(engine, 1, bytes(SIZE))
    print(engine.get_rpc_port(), memory, flush=True)
    sys.stdin.readline()
    sys.stdout.buffer.write(content(memory))
    sys.stdout.flush()
    sys.stdin.readline()


def main() -> None:
    engine = TransferEngine()
    check("initialize", engine.initialize("127.0.0.1", "P2PHANDSHAKE", "hip", ""))
    if len(sys.argv) > 1:
        peer(engine)
        return
    data = os.urandom(SIZE)
    other = subprocess.Popen([sys.executable, __file__, "peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdin is not None and other.stdout is not None
    line = other.stdout.readline().split()
    if len(line) != 2:
        sys.exit("the peer did not start")
    name, remote = f"127.0.0.1:{int(line[0])}", int(line[1])
    memory = allocate(engine, 0, data)
    check("transfer_sync_write", engine.transfer_sync_write(name, memory, remote, SIZE))
    other.stdin.write(b"\n")
    other.stdin.flush()
    if other.stdout.read(SIZE) != data:
        sys.exit("the peer has other bytes than were written")
    copy(ctypes.c_void_p(memory), bytes(SIZE), TO_DEVICE)
    check("transfer_sync_read", engine.transfer_sync_read(name, memory, remote, SIZE))
    if content(memory) != data:
        sys.exit("other bytes were read than written")
    other.communicate(b"\n")
    print("every byte compared")


main()
