# SPDX-License-Identifier: BSD-3-Clause
"""Expectations of MORI's own Python tests of io (ROCm/mori 624002c, tests/python/io), case by
case; and of two branches: pull requests 177 at 1e3ce4e1 (TCP) and 515 at 73a58f2d (Split).

py_mori_cases.py runs all of them; py_mori_cases.py peer is the other process of two cases. GPU
memory of two devices is libhipcpu's. A case has the name of MORI's, and its parameters.

The cases differ from MORI's in one point: several single transfers are all waited for before
bytes are compared, because operations are not ordered here.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import subprocess
import sys
import threading
import time
import types
import unittest
from unittest import mock

import morikv.as_mori  # noqa: F401
from mori.cpp import TransferStatus
from mori.io import (
    BackendType,
    EngineDesc,
    IOEngine,
    IOEngineConfig,
    MemoryDesc,
    MemoryLocationType,
    RdmaBackendConfig,
    SessionUnavailableError,
    StatusCode,
    TcpBackendConfig,
    XgmiBackendConfig,
    set_log_level,
)

LIMIT_S = 600
hip = ctypes.CDLL(os.environ["HIP_LIBRARY"])
# morikv asks PyTorch whether its GPUs are ROCm's
sys.modules.setdefault("torch", types.SimpleNamespace(version=types.SimpleNamespace(hip="6.4")))


def check(status):
    if status != 0:
        raise RuntimeError(f"HIP {status}")


class Tensor:
    """The part of a tensor of bytes that morikv uses; a view has ``base``."""

    def __init__(self, size, device=None, data=None, base=None, offset=0):
        self.size, self.base = size, base
        kind = "cpu" if device is None else "cuda"
        self.device = types.SimpleNamespace(type=kind, index=device)
        if base is not None:
            self.address = base.address + offset
        elif device is None:
            self.buffer = ctypes.create_string_buffer(size)
            self.address = ctypes.addressof(self.buffer)
        else:
            pointer = ctypes.c_void_p()
            check(hip.hipSetDevice(device))
            check(hip.hipMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)))
            self.address = pointer.value
        self.fill(bytes(size) if data is None else data)

    def data_ptr(self):
        return self.address

    def is_contiguous(self):
        return True

    def numel(self):
        return self.size

    def element_size(self):
        return 1

    def fill(self, data):
        assert len(data) == self.size
        self._copy(ctypes.c_void_p(self.address), data)

    def read(self):
        data = ctypes.create_string_buffer(self.size)
        self._copy(data, ctypes.c_void_p(self.address))
        return data.raw

    def _copy(self, to, source):
        if self.device.type == "cpu":
            ctypes.memmove(to, source, self.size)
        else:
            check(hip.hipMemcpy(to, source, ctypes.c_size_t(self.size), 4))


def random_bytes(size, seed=[0]):
    """Never zero, and never the same."""
    seed[0] += 1
    return random.Random(seed[0]).randbytes(size).replace(b"\0", b"\1")


def counted(size):
    return bytes(i % 255 + 1 for i in range(size))


def wait_for(condition):
    end = time.monotonic() + LIMIT_S
    while not (value := condition()):
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.0005)
    return value


def connected_pair(name, **config):
    place = IOEngineConfig(host="127.0.0.1", port=0)
    pair = [IOEngine(key=f"{name}_{side}", config=place) for side in ("initiator", "target")]
    with mock.patch.dict(os.environ, MORI_DISABLE_AUTO_XGMI="1"):
        for engine in pair:
            engine.create_backend(BackendType.RDMA, RdmaBackendConfig(**config))
    for engine, other in (pair, pair[::-1]):
        engine.register_remote_engine(other.get_engine_desc())
    return pair


PAIRS = {
    "normal": {"qp_per_transfer": 2, "num_worker_threads": 1},
    "multhd": {"qp_per_transfer": 2, "num_worker_threads": 2},
    "no_notif": {"qp_per_transfer": 2, "num_worker_threads": 1, "enable_notification": False},
}
_kept = {}


def pair_of(kind):
    if kind not in _kept:
        _kept[kind] = connected_pair(kind, post_batch_size=-1, **PAIRS[kind])
    return _kept[kind]


def xgmi_engine():
    if "xgmi" not in _kept:
        engine = _kept["xgmi"] = IOEngine(key="xgmi_engine", config=IOEngineConfig("", 0))
        engine.create_backend(BackendType.XGMI, XgmiBackendConfig(num_streams=64, num_events=64))
    return _kept["xgmi"]


def on_two_devices(pair, size):
    """A tensor and its description, of each side."""
    tensors = [Tensor(size, device, random_bytes(size)) for device in range(2)]
    return tensors, [engine.register_torch_tensor(t) for engine, t in zip(pair, tensors)]


class Engine(unittest.TestCase):
    """test_engine.py"""

    def engine(self, key="engine", backend=BackendType.RDMA):
        engine = IOEngine(key=key, config=IOEngineConfig(host="127.0.0.1", port=0))
        self.addCleanup(engine.close)
        if backend is not None:
            engine.create_backend(backend)
        return engine

    def test_engine_desc(self):
        desc = self.engine().get_engine_desc()
        self.assertNotEqual(desc.node_id, "")
        self.assertGreater(desc.pid, 0)
        self.assertEqual(EngineDesc.unpack(desc.pack()), desc)

    def test_engine_desc_port_zero_auto_bind(self):
        desc = self.engine("engine_port0").get_engine_desc()
        self.assertGreater(desc.port, 0)
        self.assertEqual(EngineDesc.unpack(desc.pack()), desc)

    def test_engine_desc_node_id_env_override(self):
        with mock.patch.dict(os.environ, MORI_NODE_ID="node-id-test"):
            desc = self.engine("engine_node_id", None).get_engine_desc()
        self.assertEqual(desc.node_id, "node-id-test")

    def test_rdma_backend_config_chunking_fields(self):
        self.assertEqual(RdmaBackendConfig().chunk_bytes, 65536)
        values = {
            "qp_per_transfer": 4,
            "post_batch_size": -1,
            "num_worker_threads": 2,
            "enable_notification": True,
            "notif_per_qp": 2048,
            "enable_transfer_chunking": True,
            "chunk_bytes": 65536,
            "max_chunks_per_transfer": 32,
            "num_nics_per_transfer": 2,
        }
        config = RdmaBackendConfig(**values)
        self.assertEqual({name: getattr(config, name) for name in values}, values)

    def test_rdmabackend_auto_creates_xgmi_backend_for_gpu_mem(self):
        with mock.patch.dict(os.environ, MORI_DISABLE_AUTO_XGMI="0"):
            desc = self.engine("auto_xgmi_engine").register_torch_tensor(Tensor(4096, 0))
        self.assertTrue(any(desc.ipc_handle))

    def test_rdmabackend_auto_xgmi_can_be_disabled(self):
        with mock.patch.dict(os.environ, MORI_DISABLE_AUTO_XGMI="1"):
            desc = self.engine("no_auto_xgmi").register_torch_tensor(Tensor(4096, 0))
        self.assertFalse(any(desc.ipc_handle))

    def test_intra_node_prefers_xgmi_after_rdma_creation(self):
        with mock.patch.dict(os.environ, MORI_DISABLE_AUTO_XGMI="0"):
            engine = self.engine("auto_xgmi_route_engine")
        source, to = Tensor(16384, 0, random_bytes(16384)), Tensor(16384, 1)
        descs = [engine.register_torch_tensor(each) for each in (source, to)]
        uid = engine.allocate_transfer_uid()
        status = engine.write(descs[0], 0, descs[1], 0, 16384, uid)
        status.Wait()
        self.assertTrue(status.Succeeded(), status)
        self.assertEqual(to.read(), source.read())
        self.assertIn("xgmi", engine.create_session(*descs).path())

    def test_mem_desc(self):
        engine = self.engine()
        for device, loc in ((None, MemoryLocationType.CPU), (0, MemoryLocationType.GPU)):
            tensor = Tensor(15232, device)
            desc = engine.register_torch_tensor(tensor)
            self.assertEqual(desc.engine_key, "engine")
            self.assertEqual(desc.device_id, -1 if device is None else 0)
            self.assertEqual(desc.device_bus_id == "", device is None)
            self.assertEqual((desc.data, desc.size), (tensor.data_ptr(), 15232))
            self.assertEqual(desc.loc, loc)
            self.assertGreaterEqual(desc.numa_node, -1)
            if device is not None:
                self.assertEqual(desc.numa_node, -1)
            self.assertEqual(MemoryDesc.unpack(desc.pack()), desc)

    def rdma_backend_ops(self, kind, has_session, is_batch, op, count, size):
        initiator, target = pair_of(kind)
        tensors, descs = on_two_devices((initiator, target), count * size)
        before = [each.read() for each in tensors]
        by = initiator.create_session(*descs) if has_session else initiator
        offsets, sizes = [i * size for i in range(count)], [size] * count
        ended = []
        if is_batch:
            call, uid = getattr(by, f"batch_{op}"), by.allocate_transfer_uid()
            if has_session:
                ended.append((uid, call(offsets, offsets, sizes, uid)))
            else:
                lists = [descs[0]], [offsets], [descs[1]], [offsets], [sizes], [uid]
                ended.append((uid, call(*lists)[0]))
        else:
            call = getattr(by, op)
            for offset in offsets:
                uid = by.allocate_transfer_uid()
                given = (offset, offset) if has_session else (descs[0], offset, descs[1], offset)
                ended.append((uid, call(*given, size, uid)))
        for uid, status in ended:
            wait_for(lambda: not status.InProgress())
            self.assertTrue(status.Succeeded(), status)
            if kind != "no_notif":
                key = initiator.get_engine_desc().key
                inbound = wait_for(lambda: target.pop_inbound_transfer_status(key, uid))
                self.assertTrue(inbound.Succeeded())
        after = [each.read() for each in tensors]
        moved = before[1] if op == "read" else before[0]
        self.assertEqual(after, [moved, moved])

    def test_err_out_of_range(self):
        pair = pair_of("normal")
        _tensors, descs = on_two_devices(pair, 64)
        session = pair[0].create_session(*descs)
        uid = session.allocate_transfer_uid()
        status = session.batch_read((0, 32), (0, 32), (32, 34), uid)
        self.assertTrue(status.Failed())
        self.assertEqual(status.Code(), StatusCode.ERR_INVALID_ARGS)

    def test_notification_disabled(self):
        pair = connected_pair("notif_test", enable_notification=False)
        tensors, descs = on_two_devices(pair, 64)
        uid = pair[0].allocate_transfer_uid()
        status = pair[0].write(descs[0], 0, descs[1], 0, 64, uid)
        wait_for(lambda: not status.InProgress())
        self.assertTrue(status.Succeeded(), status)
        self.assertEqual(tensors[0].read(), tensors[1].read())
        key = pair[0].get_engine_desc().key
        self.assertIsNone(pair[1].pop_inbound_transfer_status(key, uid))

    def test_multithread_batch_error_path_is_recoverable(self):
        initiator, target = pair = connected_pair("regress_cbmeta", **PAIRS["multhd"])
        tensors, descs = on_two_devices(pair, 128)
        bad = [[0, 64]], [descs[1]], [[0, 64]], [[64, 65]]
        for _ in range(20):
            uid = initiator.allocate_transfer_uid()
            status = initiator.batch_read([descs[0]], *bad, [uid])[0]
            wait_for(lambda: not status.InProgress())
            self.assertEqual(status.Code(), StatusCode.ERR_INVALID_ARGS)
        uid = initiator.allocate_transfer_uid()
        status = initiator.write(descs[0], 0, descs[1], 0, 128, uid)
        wait_for(lambda: not status.InProgress())
        self.assertTrue(status.Succeeded(), status.Message())
        key = initiator.get_engine_desc().key
        self.assertTrue(wait_for(lambda: target.pop_inbound_transfer_status(key, uid)).Succeeded())
        self.assertEqual(tensors[0].read(), tensors[1].read())

    def test_successful_writes_always_have_inbound_notification_under_pressure(self):
        config = {"qp_per_transfer": 4, "post_batch_size": 1, "num_worker_threads": 1}
        initiator, target = pair = connected_pair("regress_notify", **config)
        tensors, descs = on_two_devices(pair, 128)
        key = initiator.get_engine_desc().key
        for _ in range(50):
            uid = initiator.allocate_transfer_uid()
            status = initiator.write(descs[0], 0, descs[1], 0, 128, uid)
            wait_for(lambda: not status.InProgress())
            self.assertTrue(status.Succeeded(), status)
            inbound = wait_for(lambda: target.pop_inbound_transfer_status(key, uid))
            self.assertTrue(inbound.Succeeded())
        self.assertEqual(tensors[0].read(), tensors[1].read())

    def test_no_backend(self):
        pair = [self.engine(f"no_be_{side}", None) for side in ("initiator", "target")]
        for engine, other in (pair, pair[::-1]):
            engine.register_remote_engine(other.get_engine_desc())
        _tensors, descs = on_two_devices(pair, 32)
        offsets, sizes, uid = (0, 16), (16, 16), pair[0].allocate_transfer_uid()
        lists = [descs[0]], [offsets], [descs[1]], [offsets], [sizes], [uid]
        status = pair[0].batch_read(*lists)[0]
        self.assertTrue(status.Failed())
        self.assertEqual(status.Code(), StatusCode.ERR_BAD_STATE)
        self.assertIsNone(pair[0].create_session(*descs))

    def xgmi_backend_ops(self, has_session, is_batch, op, count, length):
        engine, size = xgmi_engine(), 4 * length
        source, to = Tensor(count * size, 0, random_bytes(count * size)), Tensor(count * size, 1)
        descs = [engine.register_torch_tensor(each) for each in (source, to)]
        if op == "read":
            descs.reverse()
        by = engine.create_session(*descs) if has_session else engine
        offsets, sizes = [i * size for i in range(count)], [size] * count
        call, uid = getattr(by, f"batch_{op}" if is_batch else op), by.allocate_transfer_uid()
        if is_batch and has_session:
            statuses = [call(offsets, offsets, sizes, uid)]
        elif is_batch:
            statuses = call([descs[0]], [offsets], [descs[1]], [offsets], [sizes], [uid])
        else:
            given = [(o, o) if has_session else (descs[0], o, descs[1], o) for o in offsets]
            statuses = [call(*each, size, by.allocate_transfer_uid()) for each in given]
        for status in statuses:
            status.Wait()
            self.assertTrue(status.Succeeded(), status)
        self.assertEqual(to.read(), source.read())

    def xgmi_write(self, device):
        engine = xgmi_engine()
        source, to = Tensor(4096, 0, random_bytes(4096)), Tensor(4096, device)
        descs = [engine.register_torch_tensor(each) for each in (source, to)]
        uid = engine.allocate_transfer_uid()
        return uid, engine.write(descs[0], 0, descs[1], 0, 4096, uid), source, to

    def test_xgmi_same_device(self):
        _uid, status, source, to = self.xgmi_write(0)
        status.Wait()
        self.assertTrue(status.Succeeded(), status)
        self.assertEqual(to.read(), source.read())

    def test_xgmi_status_completes_without_wait(self):
        _uid, status, source, to = self.xgmi_write(1)
        wait_for(lambda: not status.InProgress())
        self.assertTrue(status.Succeeded(), status.Message())
        self.assertEqual(to.read(), source.read())

    def test_xgmi_no_inbound_notification(self):
        uid, status, _source, _to = self.xgmi_write(1)
        status.Wait()
        self.assertTrue(status.Succeeded(), status)
        self.assertIsNone(xgmi_engine().pop_inbound_transfer_status("any_key", uid))

    def test_xgmi_cross_engine_transfer(self):
        a, b = [self.engine(f"xgmi_engine_{name}", BackendType.XGMI) for name in "ab"]
        a.register_remote_engine(b.get_engine_desc())
        b.register_remote_engine(a.get_engine_desc())
        source, to = Tensor(4096, 0, random_bytes(4096)), Tensor(4096, 1)
        mine, theirs = a.register_torch_tensor(source), b.register_torch_tensor(to)
        there = {}
        for desc in (mine, theirs):
            self.assertTrue(any(desc.ipc_handle))
            there[desc.engine_key] = MemoryDesc.unpack(desc.pack())
            self.assertEqual(there[desc.engine_key].ipc_handle, desc.ipc_handle)
        far_source, far_to = there["xgmi_engine_a"], there["xgmi_engine_b"]
        offsets, sizes = [0, 1024, 2048, 3072], [1024] * 4
        lists = [[offsets], [sizes]]
        for name, call in {
            "read": lambda uid: b.read(theirs, 0, far_source, 0, 4096, uid),
            "write": lambda uid: a.write(mine, 0, far_to, 0, 4096, uid),
            "session's read": lambda uid: b.create_session(theirs, far_source).read(
                0, 0, 4096, uid
            ),
            "session's write": lambda uid: a.create_session(mine, far_to).write(0, 0, 4096, uid),
            "batch_read": lambda uid: b.batch_read(
                [theirs], lists[0], [far_source], lists[0], lists[1], [uid]
            )[0],
            "batch_write": lambda uid: a.batch_write(
                [mine], lists[0], [far_to], lists[0], lists[1], [uid]
            )[0],
            "session's batch_read": lambda uid: b.create_session(theirs, far_source).batch_read(
                offsets, offsets, sizes, uid
            ),
        }.items():
            to.fill(bytes(4096))
            status = call(a.allocate_transfer_uid())
            status.Wait()
            self.assertTrue(status.Succeeded(), (name, status))
            self.assertEqual(to.read(), source.read(), name)


class MultiSession(unittest.TestCase):
    """test_engine_multi_session_batch.py"""

    def multi_session_batch_read_write(self, kind, op):
        initiator, target = pair_of(kind)
        sides = [on_two_devices((initiator, target), 1024) for _ in range(3)]
        before = [[each.read() for each in tensors] for tensors, _descs in sides]
        offsets, sizes = [[0, 256, 512, 768]] * 3, [[256] * 4] * 3
        uids = [initiator.allocate_transfer_uid() for _ in sides]
        here, there = [descs[0] for _, descs in sides], [descs[1] for _, descs in sides]
        call = getattr(initiator, f"batch_{op}")
        statuses = call(here, offsets, there, offsets, sizes, uids)
        self.assertEqual(len(statuses), 3)
        key = initiator.get_engine_desc().key
        for i, (status, uid) in enumerate(zip(statuses, uids)):
            wait_for(lambda: not status.InProgress())
            inbound = wait_for(lambda: target.pop_inbound_transfer_status(key, uid))
            self.assertTrue(status.Succeeded() and inbound.Succeeded(), status)
            moved = before[i][1 if op == "read" else 0]
            self.assertEqual([each.read() for each in sides[i][0]], [moved, moved])
        for desc in here:
            initiator.deregister_memory(desc)
        for desc in there:
            target.deregister_memory(desc)


class DiscreteBuffer(unittest.TestCase):
    """test_discrete_buffer.py, without its benchmarks"""

    def segments(self, op, here, there, sizes, by_engine=False):
        engine = xgmi_engine()
        total = max(max(here), max(there)) + max(sizes) + 512
        source, to = Tensor(total, 0, random_bytes(total)), Tensor(total, 1)
        descs = [engine.register_torch_tensor(each) for each in (source, to)]
        if op == "read":
            descs.reverse()
        uid = engine.allocate_transfer_uid()
        if by_engine:
            call = getattr(engine, f"batch_{op}")
            status = call([descs[0]], [here], [descs[1]], [there], [sizes], [uid])[0]
        else:
            call = getattr(engine.create_session(*descs), f"batch_{op}")
            status = call(here, there, sizes, uid)
        status.Wait()
        self.assertTrue(status.Succeeded(), status.Message())
        expected, data = bytearray(total), source.read()
        for a, b, size in zip(here, there, sizes):
            expected[b : b + size] = data[a : a + size]
        self.assertEqual(to.read(), expected)

    def test_discrete_batch_write_strided(self):
        offsets = range(0, 64 * 16384, 16384)
        self.segments("write", list(offsets), list(offsets), [4096] * 64)

    def test_discrete_batch_read_strided(self):
        offsets = range(0, 64 * 16384, 16384)
        self.segments("read", list(offsets), list(offsets), [4096] * 64)

    def test_discrete_batch_shuffled_offsets(self):
        offsets = [i * 1024 for i in random.Random(42).sample(range(32), 32)]
        self.segments("write", offsets, offsets, [1024] * 32)

    def test_discrete_batch_varying_sizes(self):
        sizes = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 100, 300, 700]
        offsets = [0, *itertools.accumulate(size + 512 for size in sizes[:-1])]
        self.segments("write", offsets, offsets, sizes)

    def test_discrete_batch_engine_api(self):
        offsets = range(0, 64 * 4096, 4096)
        self.segments("write", list(offsets), list(offsets), [2048] * 64, by_engine=True)

    def test_discrete_batch_multiprocess(self):
        total = 128 * 16384 + 4096
        engine, tensor, desc, far = two_processes(self, total, 0, total)
        offsets, sizes = [i * 16384 for i in range(128)], [4096] * 128
        status = engine.create_session(desc, far).batch_write(offsets, offsets, sizes, 1)
        status.Wait()
        self.assertTrue(status.Succeeded(), status.Message())
        back = Tensor(total, 0)
        again = engine.register_torch_tensor(back)
        status = engine.create_session(again, far).batch_read(offsets, offsets, sizes, 2)
        status.Wait()
        self.assertTrue(status.Succeeded(), status.Message())
        expected, data = bytearray(total), tensor.read()
        for offset in offsets:
            expected[offset : offset + 4096] = data[offset : offset + 4096]
        self.assertEqual(back.read(), expected)


class Suballocation(unittest.TestCase):
    """test_xgmi_suballocation.py"""

    def test_xgmi_suballocation_offset_read(self):
        offset, size = 1 << 22, 1 << 20
        engine, tensor, desc, far = two_processes(self, offset + size + 4096, offset, size)
        status = engine.create_session(desc, far).batch_read([0], [0], [size], 1)
        status.Wait()
        self.assertTrue(status.Succeeded(), status.Message())
        self.assertEqual(tensor.read(), counted(size))


class Tcp(unittest.TestCase):
    """test_engine.py of pull request 177, over the lanes that UCX has here"""

    def test_tcp_engine_desc_port_zero_auto_bind(self):
        engine = IOEngine("engine_tcp_port0", IOEngineConfig(host="127.0.0.1", port=0))
        self.addCleanup(engine.close)
        engine.create_backend(BackendType.TCP, TcpBackendConfig())
        self.assertGreater(engine.get_engine_desc().port, 0)

    def test_tcp_config_defaults_and_lane_validation(self):
        config = TcpBackendConfig()
        sizes = (config.sock_sndbuf_bytes, config.sock_rcvbuf_bytes)
        self.assertEqual(sizes, (32 * 1024 * 1024,) * 2)
        self.assertEqual((config.num_data_conns, config.striping_threshold_bytes), (8, 65536))
        for lanes in (0, 17):
            with self.assertRaises(ValueError):
                TcpBackendConfig(num_data_conns=lanes)

    def test_tcp_cpu_write_read_and_batch(self):
        pair = [IOEngine(f"tcp_cpu_{side}", IOEngineConfig("127.0.0.1", 0)) for side in "ab"]
        for engine in pair:
            self.addCleanup(engine.close)
            engine.create_backend(BackendType.TCP, TcpBackendConfig())
        pair[0].register_remote_engine(pair[1].get_engine_desc())
        pair[1].register_remote_engine(pair[0].get_engine_desc())
        source, to = Tensor(4096, None, random_bytes(4096)), Tensor(4096)
        mine, theirs = (e.register_torch_tensor(t) for e, t in zip(pair, (source, to)))
        self.assertEqual(MemoryDesc.unpack(theirs.pack()), theirs)
        session, data = pair[0].create_session(mine, theirs), source.read()
        offsets, sizes = [0, 256, 512, 768], [128] * 4
        parts = bytearray(4096)
        for offset in offsets:
            parts[offset : offset + 128] = data[offset : offset + 128]
        for call, expected in (
            (lambda uid: pair[0].write(mine, 0, theirs, 0, 4096, uid), (data, data)),
            (lambda uid: pair[0].read(mine, 0, theirs, 0, 4096, uid), (bytes(4096),) * 2),
            (lambda uid: session.batch_write(offsets, offsets, sizes, uid), (data, parts)),
        ):
            to.fill(bytes(4096))
            source.fill(data)
            uid = pair[0].allocate_transfer_uid()
            status = call(uid)
            wait_for(lambda: not status.InProgress())
            self.assertTrue(status.Succeeded(), status)
            inbound = wait_for(lambda: pair[1].pop_inbound_transfer_status("tcp_cpu_a", uid))
            self.assertTrue(inbound.Succeeded())
            self.assertEqual((source.read(), to.read()), expected)


class Split(unittest.TestCase):
    """test_xgmi_split_visibility.py: memory is registered before its backend is there, and a
    session that cannot be is refused with its cause"""

    def test_create_session_names_its_reason(self):
        engine, other = (IOEngine(f"split_{side}", IOEngineConfig("", 0)) for side in "ab")
        for each in (engine, other):
            self.addCleanup(each.close)
            each.create_backend(BackendType.XGMI, XgmiBackendConfig())
        mine = engine.register_torch_tensor(Tensor(64, 0))
        theirs = other.register_torch_tensor(Tensor(64, 1))
        with self.assertRaisesRegex(SessionUnavailableError, "split_b is not registered"):
            engine.create_session(mine, theirs)
        engine.deregister_memory(mine)
        engine.register_remote_engine(other.get_engine_desc())
        with self.assertRaisesRegex(SessionUnavailableError, "memory .* is not registered"):
            engine.create_session(mine, theirs)


class TransferWait(unittest.TestCase):
    """test_transfer_wait.py"""

    def running(self):
        status = TransferStatus()
        status.SetCode(StatusCode.IN_PROGRESS)
        return status

    def test_wait_for_blocks_and_releases_gil(self):
        status, others = self.running(), []

        def end():
            others.append(1)
            status.Update(StatusCode.SUCCESS, "")

        self.assertEqual(status.WaitFor(timeout_ms=1), StatusCode.IN_PROGRESS)
        thread = threading.Thread(target=end)
        thread.start()
        self.assertEqual(status.WaitFor(timeout_ms=LIMIT_S * 1000), StatusCode.SUCCESS)
        thread.join()
        self.assertEqual(others, [1])

    def test_wait_all_wrapper_success(self):
        engine = IOEngine("py_wait_all_success", IOEngineConfig(host="127.0.0.1", port=0))
        statuses = [self.running() for _ in range(3)]
        end = [threading.Timer(0, s.Update, (StatusCode.SUCCESS, "")) for s in statuses]
        for timer in end:
            timer.start()
        rc = engine.wait_all(statuses, timeout_ms=LIMIT_S * 1000)
        for timer in end:
            timer.join()
        self.assertEqual(rc, StatusCode.SUCCESS)
        self.assertTrue(all(status.Succeeded() for status in statuses))

    def test_wait_all_zero_timeout_failure_wins(self):
        engine = IOEngine("py_wait_all_failure", IOEngineConfig(host="127.0.0.1", port=0))
        success, failed = TransferStatus(), TransferStatus()
        success.SetCode(StatusCode.SUCCESS)
        failed.SetCode(StatusCode.ERR_RDMA_OP)
        rc = engine.wait_all([success, self.running(), failed], timeout_ms=0)
        self.assertEqual(rc, StatusCode.ERR_RDMA_OP)


# ---- cases of parameters, each a case of its own ----


def add_cases(owner, method, **parameters):
    for values in itertools.product(*parameters.values()):
        name = "-".join(map(str, values))

        def case(self, values=values):
            getattr(self, method)(*values)

        setattr(owner, f"test_{method}[{name}]", case)


both, operations = (True, False), ("write", "read")
add_cases(
    Engine,
    "rdma_backend_ops",
    engine_type=PAIRS,
    enable_sess=both,
    enable_batch=both,
    op_type=operations,
    batch_size=(1, 64),
    buffer_size=(8, 8192),
)
add_cases(
    Engine,
    "xgmi_backend_ops",
    enable_sess=both,
    enable_batch=both,
    op_type=operations,
    batch_size=(1, 16),
    buffer_size=(64, 4096),
)
add_cases(
    MultiSession,
    "multi_session_batch_read_write",
    engine_type=("normal", "multhd"),
    op_type=("read", "write"),
)


# ---- the other process ----


def new_side(key, device, total, offset, size, data):
    engine = IOEngine(key=key, config=IOEngineConfig(host="", port=0))
    engine.create_backend(BackendType.XGMI, XgmiBackendConfig())
    tensor = Tensor(size, device, data, base=Tensor(total, device), offset=offset)
    return engine, tensor, engine.register_torch_tensor(tensor)


def peer(total, offset, size):
    engine, _tensor, desc = new_side("xgmi_1", 1, total, offset, size, counted(size))
    print(json.dumps([engine.get_engine_desc().pack().hex(), desc.pack().hex()]), flush=True)
    sys.stdin.read()  # the other process has ended, or closes it


def two_processes(test, total, offset, size):
    """:return: an engine, its memory and the other's, which are parts of larger ones."""
    command = [sys.executable, __file__, "peer", str(total), str(offset), str(size)]
    other = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    test.addCleanup(other.wait)
    test.addCleanup(other.stdout.close)
    test.addCleanup(other.stdin.close)
    engine, tensor, desc = new_side("xgmi_0", 0, total, offset, size, random_bytes(size))
    test.addCleanup(engine.close)
    there, far = (bytes.fromhex(each) for each in json.loads(other.stdout.readline()))
    engine.register_remote_engine(EngineDesc.unpack(there))
    return engine, tensor, desc, MemoryDesc.unpack(far)


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        peer(*map(int, sys.argv[2:]))
    else:
        set_log_level("error")
        unittest.main()
