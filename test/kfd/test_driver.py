#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the stand-in of the kernel driver, without AMD's runtimes (test/kfd/run)."""

import ctypes
import errno
import fcntl
import mmap
import os
import signal
import struct
import subprocess
import sys
import time

VERSION, UNKNOWN, TCGETS = 0x80084B01, 0xC0084B7F, 0x5401
ALLOC, ALLOC_BYTES = 0xC0284B16, "=QQQQII"  # kfd_ioctl_alloc_memory_of_gpu_args
FREE, MAP = 0x40084B17, 0xC0184B18
CREATE_EVENT, DESTROY_EVENT, SET_EVENT, RESET_EVENT = 0xC0204B08, 0x40084B09, 0x40084B0A, 0x40084B0B
WAIT_EVENTS, EVENT_DATA = 0xC0184B0C, "=Q32xII"  # kfd_event_data: age, ..., event
MEMORY_EVENT = 8  # KFD_IOC_EVENT_MEMORY
COMPLETE, TIMED_OUT = 0, 1  # KFD_IOC_WAIT_RESULT_
DMABUF_INFO, IMPORT_DMABUF, EXPORT_DMABUF = 0xC0204B1C, 0xC0184B1D, 0xC0104B24
CREATE_QUEUE, CREATE_BYTES = 0xC0604B02, "=QQQQIIIIIIQQQIIII"  # kfd_ioctl_create_queue_args
DESTROY_QUEUE = 0xC0084B03
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
MIB = 1 << 20
VRAM, USERPTR, WRITABLE = 1, 4, 1 << 31  # KFD_IOC_ALLOC_MEM_FLAGS_
SDMA, AQL = 1, 2  # KFD_IOC_QUEUE_TYPE_
BARRIER_AND, VENDOR = 3, 0  # types of packets


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
    elif what == "links":
        print(links())
    elif what == "count":
        print(len(gpu_ids()))
    elif what == "faults":
        print([isinstance(call(fd, VERSION, bytes(8)), bytes) for _ in range(3)])
    elif what == "memory":
        print(isinstance(alloc(fd, 48 * MIB), bytes), flush=True)
        sys.stdin.read()
    elif what == "queue":
        call(fd, VERSION, bytes(8))
        create_sdma(fd)
        print("started")
    elif what == "packet":
        area, _ = create_sdma(fd)
        struct.pack_into("=I", area, 0, 0xff)
        struct.pack_into("=Q", area, SDMA_WRITE, 4)
        sys.stdin.read()


# Settings that a reader of README.md might write.
misspelled = (("KFDCPU_GPU", "8"), ("KFDCPU_MODEL", "MI300x"), ("KFDCPU_VRAM", "64M"), ("KFDCPU_VRAM", "-1"),
              ("KFDCPU_VRAM", ""), ("KFDCPU_VRAM", "99999999999g"), ("KFDCPU_LOG", "5"), ("KFDCPU_SLOW_COPY", "4g"),
              ("KFDCPU_FAIL", "EXPORT_DMABUFS:0:22"), ("KFDCPU_FAIL", "GET_VERSION:0:0"),
              ("KFDCPU_FAIL", "GET_VERSION:1:-5"), ("KFDCPU_FAIL", "GET_VERSION:9:5GET_VERSION:9:5"),
              ("KFDCPU_FAIL", ",".join(["GET_VERSION:9:5"] * 17)), ("KFDCPU_STALL", "aql:5"), ("KFDCPU_STALL", "sdma"),
              ("KFDCPU_STALL", "copy.kd:-1"), ("KFDCPU_STALL", "copy:1"), ("KFDCPU_STALL", "sdma:1k"))


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


def create_event(fd: int, auto_reset: bool, kind: int = 0) -> int:
    event = call(fd, CREATE_EVENT, struct.pack("=QIIIIII", 0, 0, kind, auto_reset, 0, 0, 0))
    assert isinstance(event, bytes)
    return int(struct.unpack("=QIIIIII", event)[5])


def act(fd: int, request: int, number: int) -> bytes | int:
    return call(fd, request, struct.pack("=II", number, 0))


def wait(fd: int, numbers: list[int], wait_for_all: bool = False, milliseconds: int = 0,
         age: int = 0) -> tuple[int, int]:
    """Result of the wait, or -errno, and the age of the first event."""
    data = ctypes.create_string_buffer(b"".join(struct.pack(EVENT_DATA, age, number, 0) for number in numbers))
    result = call(fd, WAIT_EVENTS, struct.pack("=QIIII", ctypes.addressof(data), len(numbers), wait_for_all,
                                               milliseconds, 0))
    ended = -result if isinstance(result, int) else struct.unpack("=QIIII", result)[4]
    return ended, struct.unpack_from("=Q", data)[0]


def events() -> None:
    """Signal events as kfd_events.c has them."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    once, stays = create_event(fd, True), create_event(fd, False)
    expect("a wait for an event that is not set times out", wait(fd, [once])[0] == TIMED_OUT)
    act(fd, SET_EVENT, once)
    expect("a set event completes a wait", wait(fd, [stays, once])[0] == COMPLETE)
    expect("once, when it resets itself", wait(fd, [once])[0] == TIMED_OUT)
    act(fd, SET_EVENT, stays)
    expect("a wait for all takes all", wait(fd, [stays, once], wait_for_all=True)[0] == TIMED_OUT)
    expect("an event stays set", [wait(fd, [stays])[0] for _ in range(2)] == [COMPLETE] * 2)
    expect("an age that is known waits for the next one", wait(fd, [once], age=2)[0] == TIMED_OUT)
    expect("an older age does not", wait(fd, [once], age=1) == (COMPLETE, 2))
    act(fd, RESET_EVENT, stays)
    expect("until it is reset", wait(fd, [stays])[0] == TIMED_OUT)
    act(fd, DESTROY_EVENT, stays)
    expect("a destroyed event is unknown", wait(fd, [stays])[0] == -errno.EINVAL)
    expect("to all calls", act(fd, SET_EVENT, stays) == act(fd, DESTROY_EVENT, stays) == errno.EINVAL)


def dmabufs() -> None:
    """Memory goes to another GPU by a dma-buf, and lives until its last owner frees it."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    memory = alloc(fd, MIB)
    assert isinstance(memory, bytes)
    handle = struct.unpack(ALLOC_BYTES, memory)[2]
    exported = call(fd, EXPORT_DMABUF, struct.pack("=QII", handle, 0, 0))
    assert isinstance(exported, bytes)
    dmabuf = struct.unpack("=QII", exported)[2]
    info = call(fd, DMABUF_INFO, struct.pack("=QQIIII", 0, 0, 0, 0, 0, dmabuf))
    assert isinstance(info, bytes)
    size, _, _, owner, flags, _ = struct.unpack("=QQIIII", info)
    expect("a dma-buf has the size and GPU of its memory", (size, owner, flags & VRAM) == (MIB, gpu_ids()[0], VRAM))
    imported = call(fd, IMPORT_DMABUF, struct.pack("=QQII", 1 << 62, 0, gpu_ids()[1], dmabuf))
    assert isinstance(imported, bytes)
    with mmap.mmap(dmabuf, MIB) as bytes_of_it:
        bytes_of_it[:4] = b"here"
    os.close(dmabuf)
    call(fd, FREE, struct.pack("=Q", handle))
    expect("freed memory is not exported", call(fd, EXPORT_DMABUF, struct.pack("=QII", handle, 0, 0)) == errno.EINVAL)
    again_exported = call(fd, EXPORT_DMABUF, struct.pack("=QII", struct.unpack("=QQII", imported)[1], 0, 0))
    assert isinstance(again_exported, bytes)
    with mmap.mmap(struct.unpack("=QII", again_exported)[2], MIB) as bytes_of_it:
        expect("the importer keeps its bytes", bytes_of_it[:4] == b"here")
    pipe, _ = os.pipe()
    expect("another descriptor is no dma-buf",
           call(fd, DMABUF_INFO, struct.pack("=QQIIII", 0, 0, 0, 0, 0, pipe)) == errno.EINVAL)


def queues() -> None:
    """Two barriers of a queue: the first waits for a signal, both complete one with an event."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    size, signals, mailbox, write, read = 8192, 4096, 6144, 6152, 6160
    area = mmap.mmap(-1, size)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))

    def create() -> bytes | int:
        return call(fd, CREATE_QUEUE, struct.pack(CREATE_BYTES, base, base + write, base + read, 0, 4096, gpu_ids()[0],
                                                  AQL, 100, 7, 0, 0, 0, 0, 0, 0, 0, 0))

    def value(number: int) -> int:
        return int(struct.unpack_from("=q", area, signals + 64 * number + 8)[0])

    expect("a ring that is not mapped is refused", create() == errno.EINVAL)
    memory = call(fd, ALLOC, struct.pack(ALLOC_BYTES, base, size, 0, base, gpu_ids()[0], USERPTR | WRITABLE))
    assert isinstance(memory, bytes)
    gpus = ctypes.c_uint32(gpu_ids()[0])
    assert isinstance(call(fd, MAP, struct.pack("=QQII", struct.unpack(ALLOC_BYTES, memory)[2],
                                                ctypes.addressof(gpus), 1, 0)), bytes)
    event = create_event(fd, True)
    for number in range(3):
        struct.pack_into("=qqQI", area, signals + 64 * number, 1, 1, base + mailbox if number == 2 else 0, event)
    queue = create()
    expect("a ring that is mapped is not", isinstance(queue, bytes))
    assert isinstance(queue, bytes)
    for packet, waits_for, completes in ((0, 0, 1), (1, 1, 2)):
        struct.pack_into("=HHI5QQQ", area, 64 * packet, BARRIER_AND, 0, 0, base + signals + 64 * waits_for, 0, 0, 0, 0, 0,
                         base + signals + 64 * completes)
    struct.pack_into("=Q", area, write, 2)
    expect("a barrier waits for its signal", wait(fd, [event], milliseconds=20)[0] == TIMED_OUT and value(1) == 1)
    struct.pack_into("=q", area, signals + 8, 0)
    expect("packets complete in order, with an event", wait(fd, [event], milliseconds=60000)[0] == COMPLETE)
    expect("and their signals", (value(1), value(2)) == (0, 0))
    expect("a mailbox has the event", struct.unpack_from("=Q", area, mailbox)[0] == event)
    number = struct.unpack(CREATE_BYTES, queue)[9]
    expect("a queue is destroyed", isinstance(act(fd, DESTROY_QUEUE, number), bytes))
    expect("once", act(fd, DESTROY_QUEUE, number) == errno.EINVAL)


SDMA_SRC, SDMA_DST, SDMA_FENCE, SDMA_WRITE, SDMA_READ = 4096, 5120, 6144, 6152, 6160


def create_sdma(fd: int) -> tuple[mmap.mmap, int]:
    """Memory with the ring of an SDMA queue in front, and the queue."""
    size = 8192
    area = mmap.mmap(-1, size)
    base = ctypes.addressof(ctypes.c_char.from_buffer(area))
    memory = call(fd, ALLOC, struct.pack(ALLOC_BYTES, base, size, 0, base, gpu_ids()[0], USERPTR | WRITABLE))
    assert isinstance(memory, bytes)
    gpus = ctypes.c_uint32(gpu_ids()[0])
    call(fd, MAP, struct.pack("=QQII", struct.unpack(ALLOC_BYTES, memory)[2], ctypes.addressof(gpus), 1, 0))
    queue = call(fd, CREATE_QUEUE, struct.pack(CREATE_BYTES, base, base + SDMA_WRITE, base + SDMA_READ, 0, 4096,
                                               gpu_ids()[0], SDMA, 100, 7, 0, 0, 0, 0, 0, 0, 0, 0))
    assert isinstance(queue, bytes)
    area[SDMA_SRC:SDMA_SRC + 4] = b"here"
    struct.pack_into("=IIIQQ", area, 0, 1, 3, 0, base + SDMA_SRC, base + SDMA_DST)  # COPY, 28 bytes
    struct.pack_into("=IQI", area, 28, 5, base + SDMA_FENCE, 7)  # FENCE, 16 bytes
    return area, int(struct.unpack(CREATE_BYTES, queue)[9])


def arrives(area: mmap.mmap, place: int, value: int) -> bool:
    for _ in range(60000):
        if struct.unpack_from("=I", area, place)[0] == value:
            return True
        time.sleep(0.001)
    return False


def sdma() -> None:
    """A copy of an SDMA queue is there behind the next fence, and not behind the read pointer."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    area, queue = create_sdma(fd)
    struct.pack_into("=Q", area, SDMA_WRITE, 28)
    expect("the read pointer passes a copy", arrives(area, SDMA_READ, 28))
    expect("and its bytes are not there yet", area[SDMA_DST:SDMA_DST + 4] == bytes(4))
    struct.pack_into("=Q", area, SDMA_WRITE, 44)
    expect("a fence comes", arrives(area, SDMA_FENCE, 7))
    expect("behind the bytes", area[SDMA_DST:SDMA_DST + 4] == b"here")
    act(fd, DESTROY_QUEUE, queue)

    os.environ["KFDCPU_STALL"] = "sdma:1"
    area, queue = create_sdma(fd)
    struct.pack_into("=Q", area, SDMA_WRITE, 44)
    expect("a queue that stalls plays a packet", arrives(area, SDMA_READ, 28))
    time.sleep(0.05)
    expect("and no second one", struct.unpack_from("=Q", area, SDMA_READ)[0] == 28)
    act(fd, DESTROY_QUEUE, queue)


def faults() -> None:
    """A copy to memory that is not mapped to its GPU raises the memory event, and goes no further."""
    fd = os.open("/dev/kfd", os.O_RDWR)
    event = create_event(fd, True, MEMORY_EVENT)
    area, queue = create_sdma(fd)
    other = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(other))
    struct.pack_into("=Q", area, 20, address + 8)
    struct.pack_into("=Q", area, SDMA_WRITE, 44)
    data = ctypes.create_string_buffer(struct.pack(EVENT_DATA, 0, event, 0))
    result = call(fd, WAIT_EVENTS, struct.pack("=QIIII", ctypes.addressof(data), 1, 0, 60000, 0))
    expect("a memory fault comes", isinstance(result, bytes) and struct.unpack("=QIIII", result)[4] == COMPLETE)
    expect("with its page and GPU", struct.unpack_from("=IIIIQI", data) == (1, 1, 0, 0, address, gpu_ids()[0]))
    expect("and no bytes", other[:12] == bytes(12))
    expect("nor the fence", struct.unpack_from("=I", area, SDMA_FENCE)[0] == 0)
    act(fd, DESTROY_QUEUE, queue)


def links() -> list[str]:
    """Links of the first GPU: folder, type and the other node."""
    found = []
    for folder in ("io_links", "p2p_links"):
        for name in sorted(os.listdir(f"{NODES}/1/{folder}")):
            with open(f"{NODES}/1/{folder}/{name}/properties", encoding="ascii") as file:
                fields = dict(line.split() for line in file)
            found.append(f"{folder} {fields['type']} {fields['node_to']}")
    return found


# Of a host with two GPUs: PCIe is type 2 of CRAT's links, xGMI 11.
links_of = {"xgmi": ["io_links 2 0", "io_links 11 2"], "pcie": ["io_links 2 0", "p2p_links 2 2"],
            "none": ["io_links 2 0"]}


def main() -> None:
    if len(sys.argv) > 1:
        child(sys.argv[1])
        return
    os.environ["KFDCPU_VRAM"] = "64m"
    out, err = again("unknown").communicate()
    expect("and one of another driver by its type", call(os.open("/dev/kfd", os.O_RDWR), TCGETS, bytes(60)) == errno.ENOTTY)
    expect("an unknown ioctl is refused by number", out == f"{errno.ENOTTY}\n" and "ioctl 0x7f of type 0x4b of /dev/kfd" in err)
    packet = again("packet")
    ended = packet.wait(60)
    assert packet.stderr is not None
    expect("an unknown packet ends the process, by name",
           ended != 0 and "SDMA packet 000000ff is not played" in packet.stderr.read())
    for count in ("1", "3", "8"):
        expect(f"the topology has {count} GPUs", again("count", KFDCPU_GPUS=count).communicate()[0] == f"{count}\n")
    out, err = again("count", KFDCPU_GPUS="9").communicate()
    expect("nine GPUs are refused", out == "" and "expected 1 to 8" in err)
    for name, found in links_of.items():
        expect(f"GPUs with {name} links", again("links", KFDCPU_LINKS=name).communicate()[0] == f"{found}\n")
    for name, value in misspelled:
        out, err = again("queue", **{name: value}).communicate()
        expect(f"{name}={value[:48]} is refused", out == "" and name in err and "expected " in err)
    out, _ = again("faults", KFDCPU_FAIL="GET_VERSION:2:5").communicate()
    expect("a fault comes with its call", out == "[True, False, True]\n")
    for name in parts:
        part = again(name, KFDCPU_GPUS="1" if name == "killed" else "2")
        print(part.communicate()[0], end="")
        expect(f"part {name}", part.returncode == 0)


parts = {"events": events, "dmabufs": dmabufs, "queues": queues, "sdma": sdma, "faulty": faults,
         "killed": killed}

if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] in parts:
        parts[sys.argv[1]]()
    else:
        main()
