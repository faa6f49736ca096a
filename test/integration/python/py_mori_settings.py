# SPDX-License-Identifier: BSD-3-Clause
"""Settings of MORI-IO act where ours are not set.

py_mori_settings.py tests the effect of each. py_mori_settings.py move QPS BATCH moves 4 MiB
between two engines, made as by an unmodified connector; the caller reads the devices' counters.
"""

from __future__ import annotations

import ctypes
import os
import sys
import unittest
from unittest import mock

from morikv.mori_io import (
    BackendType,
    IOEngine,
    IOEngineConfig,
    MemoryLocationType,
    PollCqMode,
    RdmaBackendConfig,
    settings,
)

SIZE = 1 << 22


def side(key, qps, batch):
    engine = IOEngine(key, IOEngineConfig(host="127.0.0.1", port=0))
    config = RdmaBackendConfig(qps, batch, 1, PollCqMode.POLLING, False)
    engine.create_backend(BackendType.RDMA, config)
    memory = ctypes.create_string_buffer(SIZE)
    place = ctypes.addressof(memory), SIZE, -1, MemoryLocationType.CPU
    return engine, memory, engine.register_memory(*place)


def move(qps, batch):
    (a, mine, here), (b, theirs, there) = side("prefill", qps, batch), side("decode", qps, batch)
    a.register_remote_engine(b.get_engine_desc())
    b.register_remote_engine(a.get_engine_desc())
    mine.raw = b"x" * SIZE
    session = a.create_session(here, there)
    status = session.batch_write([0], [0], [SIZE], 1)
    status.Wait()
    is_right = status.Succeeded() and theirs.raw == mine.raw
    print(status, session.path())
    a.close()
    b.close()
    return 0 if is_right else 1


class Settings(unittest.TestCase):
    def found(self, config=None, **environment):
        settings._logged.clear()
        with mock.patch.dict(os.environ, environment, clear=True):
            return settings.variables([config or RdmaBackendConfig()])

    def test_nothing_is_set_by_default(self):
        self.assertEqual(self.found(), {})

    def test_each_acts_as_an_option_of_ours(self):
        config = RdmaBackendConfig(4, 16, 8, num_nics_per_transfer=2)
        config.max_send_wr, config.max_cqe_num, config.max_msg_sge = 512, 1024, 4
        found = self.found(
            config,
            MORI_RDMA_DEVICES="^a,b",
            MORI_RDMA_SL="3",
            MORI_RDMA_TC="104",
            MORI_IB_GID_INDEX="1",
        )
        expected = {
            "DEVICES": "^a,b",
            "SL": "3",
            "TRAFFIC_CLASS": "104",
            "GID_INDEX": "1",
            "NUM_QPS": "4",
            "POST_BATCH": "16",
            "TX_DEPTH": "512",
            "CQ_DEPTH": "1024",
            "TX_MAX_SGE": "4",
        }
        expected = {f"UCX_MORI_RDMA_{name}": value for name, value in expected.items()}
        self.assertEqual(found, expected | {"MORIKV_LANES": "2"})

    def test_the_variable_of_io_comes_first(self):
        found = self.found(MORI_IO_SL="5", MORI_RDMA_SL="3", MORI_IO_TC_DISABLE="1", MORI_RDMA_TC="8")
        self.assertEqual(found, {"UCX_MORI_RDMA_SL": "5"})

    def test_ours_win(self):
        config = RdmaBackendConfig(qp_per_transfer=4)
        found = self.found(
            config,
            MORI_RDMA_DEVICES="a",
            UCX_MORI_RDMA_DEVICES="b",
            UCX_MORI_RDMA_NUM_QPS="1",
        )
        self.assertEqual(found, {})

    def test_what_cannot_act_is_logged_once(self):
        config = RdmaBackendConfig(qp_per_transfer=64)
        with self.assertLogs(settings.logger, "WARNING") as logs:
            environment = {"MORI_RDMA_SL": "99", "MORI_RDMA_TC": "x", "MORI_IO_NEW": "1"}
            found = self.found(config, **environment)
            with mock.patch.dict(os.environ, environment, clear=True):
                settings.variables([config])
        self.assertEqual(found, {"UCX_MORI_RDMA_NUM_QPS": "12"})
        self.assertEqual(len(logs.output), 4, logs.output)
        for part in ("qp_per_transfer=64", "MORI_RDMA_SL=99", "MORI_RDMA_TC=x", "MORI_IO_NEW"):
            self.assertIn(part, "\n".join(logs.output))

    def test_digits_of_other_scripts_are_no_numbers(self):
        for text in ("\u00b2", "\u0663"):
            with self.assertLogs(settings.logger, "WARNING"):
                self.assertEqual(self.found(MORI_RDMA_SL=text), {})

    def test_the_environment_is_as_before_when_a_context_is_open(self):
        with settings.applied({"UCX_MORI_RDMA_SL": "3"}):
            self.assertEqual(os.environ["UCX_MORI_RDMA_SL"], "3")
        self.assertNotIn("UCX_MORI_RDMA_SL", os.environ)


if __name__ == "__main__":
    if sys.argv[1:2] == ["move"]:
        sys.exit(move(*map(int, sys.argv[2:])))
    unittest.main(verbosity=2)
