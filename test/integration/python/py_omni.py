# SPDX-License-Identifier: BSD-3-Clause
"""The unmodified connectors of vllm-omni over morikv's mori.io.

    py_omni.py WHEEL

WHEEL holds the .py files of vllm-omni's connectors. Their factory makes
MoriTransferEngineConnector, which moves the stages' payloads between processes.
SharedMemoryConnector gets the same calls and must return the same. The files are unmodified.
The part of torch that they call is implemented over NumPy, and their imports of vLLM and PIL
are replaced by names that do nothing. OMNI_POOL selects the memory of the connector's pool:
cpu, or cuda, which is GPU memory of the HIP runtime of HIP_LIBRARY.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.abc
import importlib.util
import json
import logging
import os
import random
import statistics
import subprocess
import sys
import time
import types
import unittest
import unittest.mock

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "support"))

from ports import keep_ports  # noqa: E402

WHEEL = sys.argv[1]
POOL = os.environ.get("OMNI_POOL", "cpu")
_CONNECTORS = "vllm_omni.distributed.omni_connectors"
_REAL = (_CONNECTORS, "vllm_omni.entrypoints.stage_utils")
ROOTS = ("vllm_omni", "vllm", "torch", "PIL")


class _NothingType(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class Nothing(metaclass=_NothingType):
    """Stands for a class or a function that no test needs."""

    def __init__(self, *_args, **_kwargs):
        pass


class Tensor:
    """The part of torch's tensor that the connectors call: bytes of the host, or of a GPU."""

    hip = ctypes.CDLL(os.environ["HIP_LIBRARY"]) if POOL == "cuda" else None

    def __init__(self, array, device="cpu"):
        self.array, self.is_cuda = array, device == "cuda"
        self.device = types.SimpleNamespace(type=device, index=0 if self.is_cuda else None)
        self.nbytes = array.nbytes

    @classmethod
    def empty(cls, size, dtype=None, device="cpu"):
        if device != "cuda":
            return cls(numpy.empty(size, numpy.uint8))
        pointer = ctypes.c_void_p()
        if cls.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)):
            raise MemoryError("hipMalloc")
        # the GPU's stand-in has its memory in reach of the processor
        memory = (ctypes.c_uint8 * size).from_address(pointer.value)
        return cls(numpy.frombuffer(memory, numpy.uint8), device)

    def pin_memory(self):
        return self

    def data_ptr(self):
        return self.array.ctypes.data

    def is_contiguous(self):
        return True

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def __getitem__(self, key):
        return Tensor(self.array[key], self.device.type)

    def copy_(self, other, non_blocking=False):
        self.array[:] = other.array

    def cpu(self):
        return Tensor(self.array.copy())

    def numpy(self):
        return self.array


def _frombuffer(data, dtype=None):
    return Tensor(numpy.frombuffer(data, numpy.uint8))


_stream = types.SimpleNamespace(synchronize=lambda: None)
#: Replacements that are more than a name, by module
GIVEN = {"vllm.logger": {"init_logger": logging.getLogger}}
GIVEN["torch"] = {
    "Tensor": Tensor,
    "empty": Tensor.empty,
    "frombuffer": _frombuffer,
    "version": types.SimpleNamespace(hip="of the test"),
    "cuda": types.SimpleNamespace(
        device=lambda _device: contextlib.nullcontext(), current_stream=lambda: _stream
    ),
}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, _path, _target=None):
        if name.split(".")[0] not in ROOTS:
            return None
        path = os.path.join(WHEEL, *name.split("."))
        if name.startswith(_REAL) and os.path.exists(path + ".py"):
            return importlib.util.spec_from_file_location(name, path + ".py")
        if name.startswith(_REAL) and os.path.exists(path):
            init = os.path.join(path, "__init__.py")
            return importlib.util.spec_from_file_location(
                name, init, submodule_search_locations=[path]
            )
        if ".platforms." in name:
            return None  # this machine has none of theirs
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        given = GIVEN.get(spec.name, {})

        def give(name):
            if name.startswith("__"):
                raise AttributeError(name)
            return given.get(name, Nothing)

        module.__getattr__ = give
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Finder())


def make(name, **extra):
    """Make a connector by vllm-omni's factory, from its configuration."""
    from vllm_omni.distributed.omni_connectors import ConnectorSpec, OmniConnectorFactory

    return OmniConnectorFactory.create_connector(ConnectorSpec(name=name, extra=extra))


def make_engine(name, **extra):
    """A connector over a transfer engine, whose kind is its name and nothing else."""
    backend = "xgmi" if POOL == "cuda" else "rdma"
    return make(
        name + "TransferEngineConnector", backend_type=backend, memory_pool_device=POOL,
        memory_pool_size=8 << 20, host="127.0.0.1", **extra,
    )  # fmt: skip


def make_mori(**extra):
    return make_engine("Mori", **extra)


class FakeMooncake:
    """Mooncake's engine as its connector calls it, inside one process."""

    def initialize(self, _host, _metadata, _protocol, _device):
        return 0

    def get_rpc_port(self):
        return 1

    def register_memory(self, _address, _length):
        return 0

    unregister_memory = register_memory

    def batch_transfer_sync_write(self, _session, sources, targets, lengths):
        for source, target, length in zip(sources, targets, lengths):
            ctypes.memmove(target, source, length)
        return 0


def as_bytes(value):
    """Bytes of a pool's buffer, which is returned to the pool."""
    if isinstance(value, bytes):
        return value
    with value:
        return value.to_bytes()


def payload(request, rank, size):
    return random.Random(request * 16 + rank).randbytes(size)


def compute(data, stage):
    """Result of a stage for its input."""
    return bytes((byte * 3 + stage) & 255 for byte in data)


# ---- a stage, a process of its own ----


def stage_main(number, ports, ports_before):
    """Run both ranks of a stage: a sender each, and a receiver from the previous stage."""
    answers = os.fdopen(os.dup(1), "w")  # UCX writes its lines to standard output
    os.dup2(2, 1)
    senders = [make_mori(role="sender", zmq_port=port, stage_id=number) for port in ports]
    receivers = [
        make_mori(role="receiver", sender_host="127.0.0.1", sender_zmq_port=port, stage_id=number)
        for port in ports_before
    ]

    def put(rank, key, data):
        done, size, metadata = senders[rank].put(str(number), str(number + 1), key, data)
        assert done and size > 0
        return metadata

    def get(rank, key, metadata):
        found = receivers[rank].get(str(number - 1), str(number), key, metadata)
        return None if found is None else as_bytes(found[0])

    def do(what, request, rank, size, metadata):
        key = f"{request}/{rank}"
        if what == "begin":
            return put(rank, key, payload(request, rank, size))
        data = get(rank, key, metadata)
        if data is None and what == "end" and metadata is None:
            data = get(rank, key, metadata)  # vllm-omni's query has a limit of 5 s
        if what == "go on":
            return put(rank, key, compute(data, number))
        return None if data is None else data.hex()

    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(do(*json.loads(line))), file=answers, flush=True)
    for connector in receivers + senders:
        connector.close()
        connector.close()
    os._exit(0)


class Stage:
    def __init__(self, number, before=None):
        self.ports = [keep_ports(), keep_ports()]
        arguments = [str(number), json.dumps(self.ports), json.dumps(before.ports if before else [])]
        self.process = subprocess.Popen(
            [sys.executable, __file__, WHEEL, "stage", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self):
        return json.loads(self.process.stdout.readline())

    def do(self, what, request, rank, size=0, metadata=None):
        print(json.dumps([what, request, rank, size, metadata]), file=self.process.stdin, flush=True)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait(60)


class Chain(unittest.TestCase):
    """Three stages of two ranks each, as processes; this one is their orchestrator."""

    def setUp(self):
        self.stages = [Stage(0)]
        for number in (1, 2):
            self.stages.append(Stage(number, self.stages[-1]))
        for stage in self.stages:
            self.assertEqual(stage.answer(), "ready")

    def tearDown(self):
        for stage in self.stages:
            self.assertEqual(stage.close(), 0)

    def test_what_comes_out_is_what_one_process_computes(self):
        first, second, third = self.stages
        for request, size in enumerate((1, 1000, 4097, 300001)):
            for rank in (0, 1):
                metadata = first.do("begin", request, rank, size)
                metadata = second.do("go on", request, rank, 0, metadata)
                # the last one queries the sender itself, as a stage without an orchestrator does
                data = third.do("end", request, rank, 0, metadata if rank else None)
                self.assertEqual(data, compute(payload(request, rank, size), 1).hex())

    def test_three_completions_of_ninety_three_chunks(self):
        sizes = [random.Random(7).choice((1, 40, 3300, 65536)) for _ in range(93)]
        times = []
        for completion in range(3):
            for chunk, size in enumerate(sizes):
                request = 1000 * (1 + completion) + chunk
                metadata = self.stages[0].do("begin", request, 0, size)
                begin = time.perf_counter()
                data = self.stages[1].do("end", request, 0, 0, metadata)
                times.append((time.perf_counter() - begin) * 1e3)
                self.assertEqual(data, payload(request, 0, size).hex())
                self.assertIsNone(self.stages[1].do("end", request, 0))  # it is consumed
        self.assertEqual(len(times), 3 * 93)
        print(f"{len(times)} gets: median {statistics.median(times):.2f} ms, most {max(times):.2f} ms")


# ---- one process ----


class Parity(unittest.TestCase):
    """Put, get, cleanup, health and close return the same with each connector."""

    def pair(self, name="Mori"):
        sender = make_engine(name, role="sender", zmq_port=keep_ports())
        self.addCleanup(sender.close)
        receiver = make_engine(
            name, role="receiver", sender_host="127.0.0.1", sender_zmq_port=sender.zmq_port
        )
        self.addCleanup(receiver.close)
        return sender, receiver

    def check(self, sender, receiver):
        key = f"parity-{os.getpid()}"
        value = {"tokens": [1, 2, 3], "hidden": b"\x00\x01" * 700, "text": "abc"}
        self.assertEqual(sender.health()["status"], "healthy")
        done, size, metadata = sender.put("0", "1", key, value)
        self.assertEqual((done, size > 1400, isinstance(metadata, dict)), (True, True, True))
        self.assertEqual(receiver.get("0", "1", key, metadata), (value, size))
        self.assertIsNone(receiver.get("0", "1", key + "-none"))
        self.assertEqual(sender.put("0", "1", key, value)[0], True)
        sender.cleanup(key) if metadata.get("shm") else sender.cleanup(key, "0", "1")
        self.assertIsNone(receiver.get("0", "1", key))
        self.assertEqual(receiver.health()["gets"], 1)
        self.assertEqual(sender.health()["puts"], 2)
        for connector in (receiver, sender):
            connector.close()
            connector.close()

    def test_shared_memory(self):
        connector = make("SharedMemoryConnector", stage_id=0)
        self.check(connector, connector)

    def test_mori(self):
        self.check(*self.pair("Mori"))

    def test_mooncake(self):
        from vllm_omni.distributed.omni_connectors.connectors import (
            mooncake_transfer_engine_connector as real,
        )

        with unittest.mock.patch.object(real, "TransferEngine", FakeMooncake):
            self.check(*self.pair("Mooncake"))

    def test_a_wrong_length_moves_nothing_and_a_second_try_finds_it(self):
        sender, receiver = self.pair()
        data = random.Random(5).randbytes(5000)
        _done, size, metadata = sender.put("0", "1", "key", data)
        for wrong in (size - 1, size + 1):
            before = receiver.pool.array.copy()
            self.assertIsNone(receiver.get("0", "1", "key", {**metadata, "data_size": wrong}))
            self.assertTrue((receiver.pool.array == before).all())
        self.assertEqual(as_bytes(receiver.get("0", "1", "key", metadata)[0]), data)

    def test_a_key_that_is_put_again_is_replaced(self):
        sender, receiver = self.pair()
        sender.put("0", "1", "key", b"old" * 100)
        _done, _size, metadata = sender.put("0", "1", "key", b"new" * 50)
        self.assertEqual(as_bytes(receiver.get("0", "1", "key", metadata)[0]), b"new" * 50)
        self.assertEqual(len(sender.allocator.free_blocks), 1)  # nothing leaks


class Fallback(unittest.TestCase):
    """If the library is missing this connector reports it, and the others work."""

    def test_others_are_there_without_it(self):
        environment = {**os.environ, "LIBMORIKV": "/nowhere/libmorikv.so.0"}
        out = subprocess.run(
            [sys.executable, __file__, WHEEL, "without"],
            env=environment, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        self.assertEqual(out.returncode, 0, out.stdout + out.stderr)
        self.assertIn("Mori is not available", out.stdout)


def without_library():
    try:
        make_mori(role="sender", zmq_port=keep_ports())
        return 1
    except ValueError as error:
        print(error)
    connector = make("SharedMemoryConnector", stage_id=0)
    key = f"without-{os.getpid()}"
    done, _size, metadata = connector.put("0", "1", key, [1, 2])
    found = connector.get("0", "1", key, metadata)
    connector.close()
    return 0 if done and found[0] == [1, 2] else 2


if __name__ == "__main__":
    what = sys.argv[2] if len(sys.argv) > 2 else ""
    if what == "stage":
        stage_main(int(sys.argv[3]), json.loads(sys.argv[4]), json.loads(sys.argv[5]))
    elif what == "without":
        sys.exit(without_library())
    else:
        unittest.main(argv=[sys.argv[0]], verbosity=2)
