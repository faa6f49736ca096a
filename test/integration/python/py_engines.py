# SPDX-License-Identifier: BSD-3-Clause
"""The unmodified Python of vLLM's and SGLang's connectors over morikv's mori.io.

    py_engines.py WHEELS

WHEELS holds the .py files of both wheels. Of vLLM the connector's wrapper of MORI-IO runs
(moriio_engine.py), READ and WRITE; of SGLang the KV manager's engine, registration, plans,
slices of unequal TP, posting and waiting (mori/conn.py). Their files are unmodified; names that
do nothing replace their imports of the rest of the engines, of torch and of web frameworks. The
other process is the decode side: it sends its description, and exposes its memory.
"""

from __future__ import annotations

import ctypes
import importlib.abc
import importlib.util
import json
import os
import random
import subprocess
import sys
import types
import unittest

import numpy

try:
    import mori  # noqa: F401  # by PYTHONPATH, as docs/sglang.md has it
except ImportError:
    import morikv.as_mori  # noqa: F401
from mori.io import BackendType

WHEELS = sys.argv[1]
_VLLM = "vllm.distributed.kv_transfer.kv_connector.v1.moriio."
_SGLANG = "sglang.srt.disaggregation."
#: Modules that come from the engines; all others of these roots are names that do nothing.
REAL = {_VLLM + name for name in ("moriio_engine", "moriio_common")} | {
    _SGLANG + name
    for name in ("mori.conn", "base.conn", "common.conn", "common.utils", "common.staging_buffer")
}
ROOTS = ("vllm", "sglang", "torch", "triton", "aiohttp", "requests")

PAGES, PAGE, HEADS, HEAD_BYTES, LAYERS = 32, 4, 4, 16, 2
SIZE = PAGES * PAGE * HEADS * HEAD_BYTES
KEY = "prefill"


class _NothingType(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __or__(cls, other):
        return cls

    __ror__ = __or__

    def __getitem__(cls, _key):
        return cls


class Nothing(metaclass=_NothingType):
    """Stands for a class, a function or a decorator that no test needs."""

    def __init__(self, *_args, **_kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args, **_kwargs):
        is_decorated = len(args) == 1 and isinstance(args[0], (type, types.FunctionType))
        return args[0] if is_decorated else self


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, _path, _target=None):
        if name.split(".")[0] not in ROOTS:
            return None
        if name in REAL:
            file = os.path.join(WHEELS, *name.split(".")) + ".py"
            return importlib.util.spec_from_file_location(name, file)
        return importlib.util.spec_from_loader(name, self, is_package=True)

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__getattr__ = _give(module)
        return module

    def exec_module(self, module):
        pass


def _give(module):
    def give(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return GIVEN.get(name, Nothing)

    return give


class _Settings:
    """SGLang's settings: each has its own value here, as in SGLang's defaults."""

    values = {"SGLANG_MORI_QP_PER_TRANSFER": 4, "SGLANG_MORI_POST_BATCH_SIZE": -1}

    def __getattr__(self, name):
        return types.SimpleNamespace(get=lambda: self.values.get(name, 1))


GIVEN = {
    "envs": _Settings(),
    "get_local_ip_auto": lambda *_args: "127.0.0.1",
    "init_logger": lambda name: __import__("logging").getLogger(name),
    "run_with_deadline": lambda call, **_options: call(),
}
sys.meta_path.insert(0, Finder())


def pattern(side, tensor):
    return random.Random(side * 100 + tensor).randbytes(SIZE)


class Tensor:
    """GPU memory of the HIP runtime that HIP_LIBRARY names, as torch would present it."""

    hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])
    device = types.SimpleNamespace(type="cuda", index=0)

    def __init__(self, data):
        pointer = ctypes.c_void_p()
        if self.hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(SIZE)):
            raise MemoryError("hipMalloc")
        self.address = pointer.value
        self._copy(ctypes.c_void_p(self.address), data)

    def _copy(self, to, source):
        if self.hip.hipMemcpy(to, source, ctypes.c_size_t(SIZE), 4):
            raise RuntimeError("hipMemcpy")

    def read(self):
        buffer = ctypes.create_string_buffer(SIZE)
        self._copy(buffer, ctypes.c_void_p(self.address))
        return buffer.raw

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def numel(self):
        return SIZE

    nelement = numel

    def element_size(self):
        return 1


def vllm_side(key):
    """vLLM's wrapper, set up as its connector does."""
    from mori.io import IOEngine, IOEngineConfig
    from vllm.distributed.kv_transfer.kv_connector.v1.moriio.moriio_engine import MoRIIOWrapper

    wrapper = MoRIIOWrapper(transfer_timeout=120.0)
    wrapper.set_moriio_engine(IOEngine(key, IOEngineConfig("127.0.0.1", 0)))
    wrapper.set_backend_type(BackendType[os.environ["MORI_BACKEND"]])
    return wrapper


def sglang_side(tp_size, rank, tensors, mode):
    """SGLang's manager without its servers: no HTTP, no ZMQ, no threads."""
    from sglang.srt.disaggregation.mori.conn import MoriKVManager, _SubmissionLocal

    manager = object.__new__(MoriKVManager)
    item = PAGE * HEADS * HEAD_BYTES // tp_size
    manager.kv_args = types.SimpleNamespace(
        ib_device="", gpu_id=0, engine_rank=rank, page_size=PAGE, kv_head_num=HEADS // tp_size,
        total_kv_head_num=HEADS, kv_data_ptrs=[tensor.address for tensor in tensors],
        kv_data_lens=[SIZE] * len(tensors), kv_item_lens=[item] * len(tensors),
        aux_data_ptrs=[], aux_data_lens=[], state_data_ptrs=[], state_data_lens=[],
        state_item_lens=[], state_dim_per_tensor=[], state_layer_ids=[], kv_layer_ids=[],
        prefill_start_layer=0,
    )  # fmt: skip
    manager.disaggregation_mode = types.SimpleNamespace(value=mode)
    manager.system_dp_rank, manager.attn_tp_rank, manager.attn_tp_size = 0, rank, tp_size
    manager.is_mla_backend = manager.is_hybrid_mla_backend = False
    manager.dcp_size, manager.dcp_rank, manager.rank_port = 1, 0, 1
    manager.kv_mem_descs, manager.aux_mem_descs, manager.state_mem_descs = [], [], []
    manager._submission_local = _SubmissionLocal()
    manager._wait_poll_ms, manager._transfer_timeout_ms = 1000, 120_000
    manager.engine = manager._init_engine()
    manager.engine_desc = manager.engine.get_engine_desc()
    manager._register_local_buffers()
    return manager


# ---- the other process ----


def send(value, to):
    print(json.dumps(value), file=to, flush=True)


def decode(which):
    # lines of logs, which UCX writes to its standard output, are not answers
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tensors = [Tensor(pattern(2, i)) for i in range(2 * LAYERS)]
    if which == "vllm":
        side = vllm_side("decode")
        packed = [side.get_agent_metadata(), *map(side.register_local_tensor, tensors)]
    else:
        side = sglang_side(int(which), int(which) - 1, tensors, "decode")
        packed = side.build_receiver_registration_message()
    send([frame.hex() for frame in packed], answers)
    for line in sys.stdin:
        send(tensors[int(line)].read().hex(), answers)


class Connectors(unittest.TestCase):
    def start(self, which):
        self.other = subprocess.Popen(
            [sys.executable, __file__, WHEELS, "decode", which],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for clean in (self.other.wait, self.other.kill, self.other.stdout.close):
            self.addCleanup(clean)
        self.addCleanup(self.other.stdin.close)
        self.tensors = [Tensor(pattern(1, i)) for i in range(2 * LAYERS)]
        return [bytes.fromhex(each) for each in json.loads(self.other.stdout.readline())]

    def there(self, tensor):
        self.other.stdin.write(f"{tensor}\n")
        self.other.stdin.flush()
        return bytes.fromhex(json.loads(self.other.stdout.readline()))

    def test_vllm_reads_and_writes_every_byte(self):
        engine, *memory = self.start("vllm")
        side = vllm_side(KEY)
        self.addCleanup(side.moriio_engine.close)
        for tensor in self.tensors:
            side.register_local_tensor(tensor)
        side.register_remote_engine(engine)
        statuses, expected = [], []
        for i, packed in enumerate(memory):
            local = side.moriio_engine.register_torch_tensor(self.tensors[i])
            session = side.build_session(local, side.get_unpack_memory_metadata(packed))
            offsets = ([0, 512, 4096], [1024, 64, 3000], [256, 100, 1])
            data = bytearray(pattern(2, i))
            for a, b, n in zip(*offsets):
                data[b : b + n] = pattern(1, i)[a : a + n]
            status = side.write_remote_data(offsets[2], offsets[0], offsets[1], session)
            side.waiting_for_transfer_complete([status])
            self.assertEqual(self.there(i), data)
            back = side.read_remote_data([SIZE], [0], [0], session)
            statuses.append(back)
            expected.append(data)
        side.waiting_for_transfer_complete(statuses)
        self.assertEqual(side.poll_transfer_batch(statuses).name, "DONE")
        for tensor, data in zip(self.tensors, expected):
            self.assertEqual(tensor.read(), data)

    def sglang(self, decode_tp):
        from sglang.srt.disaggregation.mori.conn import KVArgsRegisterInfo

        frames = self.start(str(decode_tp))
        manager = sglang_side(1, 0, self.tensors, "prefill")
        self.addCleanup(manager.engine.close)
        peer = KVArgsRegisterInfo.from_zmq(frames[1:])
        manager.engine.register_remote_engine(peer.engine_desc)
        here = numpy.array([3, 4, 5, 9, 1], dtype=numpy.int32)
        there = numpy.array([7, 8, 2, 0, 30], dtype=numpy.int32)
        statuses = manager.send_kvcache(peer, here, there)
        self.assertIsNone(manager._wait_transfer_completion(statuses))
        token = HEADS * HEAD_BYTES
        part = token // decode_tp
        first = part * (decode_tp - 1)  # the last rank's heads
        for i in range(2 * LAYERS):
            expected, source = bytearray(pattern(2, i)), pattern(1, i)
            for a, b in zip(here * PAGE, there * PAGE):
                for t in range(PAGE):
                    begin = (a + t) * token + first
                    expected[(b + t) * part : (b + t + 1) * part] = source[begin : begin + part]
            self.assertEqual(self.there(i), expected)

    def test_sglang_writes_every_byte_to_an_equal_rank(self):
        self.sglang(1)

    def test_sglang_writes_the_heads_of_a_rank_of_two(self):
        self.sglang(2)


if __name__ == "__main__":
    if sys.argv[2:3] == ["decode"]:
        decode(sys.argv[3])
    else:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
