// SPDX-License-Identifier: BSD-3-Clause
// One call of MORI's engine, amd-mori's C++ library, and its answer in a line;
// mori_calls.py makes the same call through mori.io. mori_calls xgmi|rdma CASE; without a case
// it lists them. C++, because MORI's engine has no
// other interface.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <format>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <hip/hip_runtime_api.h>

#include "mori/io/io.hpp"

using namespace mori::io;

static const size_t kSize = 1 << 20;

static int code(TransferStatus &status)
{
    status.Wait();
    return static_cast<int>(status.CodeUint32());
}

static bool is_rdma;

/* Memory of a GPU, or of the host with RDMA, inside of a larger allocation */
struct Memory {
    char *at = nullptr;
    int device;

    Memory(int on, int seed) : device(is_rdma ? -1 : on)
    {
        std::vector<char> bytes(kSize);
        for (size_t i = 0; i < kSize; ++i) {
            bytes[i] = static_cast<char>(seed ? seed + i * 7 + (i >> 9) : 0);
        }
        if (is_rdma) {
            at = new char[3 * kSize] + kSize;
            std::memcpy(at, bytes.data(), kSize);
            return;
        }
        (void)hipSetDevice(on);
        (void)hipMalloc(reinterpret_cast<void **>(&at), 3 * kSize);
        at += kSize;
        (void)hipMemcpy(at, bytes.data(), kSize, hipMemcpyHostToDevice);
        (void)hipDeviceSynchronize();
        (void)hipSetDevice(0);
    }

    std::string bytes(size_t offset = 0, size_t size = kSize) const
    {
        if (is_rdma) {
            return std::string(at + offset, size);
        }
        std::string out(size, 0);
        (void)hipMemcpy(out.data(), at + offset, size, hipMemcpyDeviceToHost);
        return out;
    }
};

struct Side {
    IOEngine engine;

    explicit Side(const std::string &key, bool has_backend = true)
        : engine(key, IOEngineConfig{"127.0.0.1", 0})
    {
        if (has_backend && is_rdma) {
            engine.CreateBackend(BackendType::RDMA, RdmaBackendConfig{});
        } else if (has_backend) {
            engine.CreateBackend(BackendType::XGMI, XgmiBackendConfig{});
        }
    }

    MemoryDesc add(const Memory &memory, size_t size = kSize)
    {
        return engine.RegisterMemory(memory.at, size, memory.device,
                                     is_rdma ? MemoryLocationType::CPU
                                             : MemoryLocationType::GPU);
    }
};

/* Two engines of one process, one memory each on a GPU of its own */
struct Two {
    Side a{"a"}, b{"b"};
    Memory here{0, 3}, there{1, 0};
    MemoryDesc mine, theirs;

    Two()
    {
        a.engine.RegisterRemoteEngine(b.engine.GetEngineDesc());
        b.engine.RegisterRemoteEngine(a.engine.GetEngineDesc());
        mine = a.add(here);
        theirs = b.add(there);
    }
};

static std::string word(const char *label, int value)
{
    return std::string(" ") + label + "=" + std::to_string(value);
}

static std::string batch(bool is_read, size_t count, size_t piece, size_t beyond = 0)
{
    Two two;
    auto session = two.a.engine.CreateSession(two.mine, two.theirs);
    if (!session) {
        return word("session", 0);
    }
    SizeVec local, remote, sizes;
    for (size_t i = 0; i < count; ++i) {
        local.push_back(2 * i * piece);
        remote.push_back(2 * (count - 1 - i) * piece + beyond);
        sizes.push_back(piece);
    }
    const std::string before = (is_read ? two.there : two.here).bytes();
    TransferStatus status;
    auto uid = session->AllocateTransferUniqueId();
    is_read ? session->BatchRead(local, remote, sizes, &status, uid)
            : session->BatchWrite(local, remote, sizes, &status, uid);
    int ended = code(status);
    const std::string after = (is_read ? two.here : two.there).bytes();
    size_t wrong = 0;
    for (size_t i = 0; (beyond == 0) && (i < count); ++i) {
        wrong += is_read
                     ? after.compare(local[i], piece, before, remote[i], piece) != 0
                     : after.compare(remote[i], piece, before, local[i], piece) != 0;
    }
    return word("code", ended) + word("wrong", static_cast<int>(wrong));
}

/* A write between engines that are not registered with each other. */
static std::string write_apart(Side &a, Side &b)
{
    Memory here(0, 3), there(1, 0);
    auto mine = a.add(here), theirs = b.add(there);
    TransferStatus status;
    a.engine.Write(mine, 0, theirs, 0, 64, &status, 1);
    return word("session", !!a.engine.CreateSession(mine, theirs)) +
           word("code", code(status));
}

static std::string one(std::function<void(Two &, TransferStatus &)> call)
{
    Two two;
    TransferStatus status;
    call(two, status);
    return word("code", code(status));
}

static const std::map<std::string, std::function<std::string()>> cases = {
    {"write-batch-1", [] { return batch(false, 1, 4096); }},
    {"write-batch-64", [] { return batch(false, 64, 4096); }},
    {"write-batch-4096", [] { return batch(false, 4096, 128); }},
    {"read-batch-1", [] { return batch(true, 1, 4096); }},
    {"read-batch-64", [] { return batch(true, 64, 4096); }},
    {"read-batch-4096", [] { return batch(true, 4096, 128); }},
    {"write",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Write(t.mine, 0, t.theirs, 0, kSize, &s,
                              t.a.engine.AllocateTransferUniqueId());
         });
     }},
    {"read",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Read(t.mine, 0, t.theirs, 0, kSize, &s,
                             t.a.engine.AllocateTransferUniqueId());
         });
     }},
    {"read-by-the-other",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.b.engine.Read(t.theirs, 0, t.mine, 0, kSize, &s,
                             t.b.engine.AllocateTransferUniqueId());
         });
     }},
    {"batch-beyond-the-end", [] { return batch(false, 8, 4096, kSize); }},
    {"beyond-the-end",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Write(t.mine, kSize - 8, t.theirs, 0, 16, &s, 1);
         });
     }},
    {"beyond-the-remote-end",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Write(t.mine, 0, t.theirs, kSize - 8, 16, &s, 1);
         });
     }},
    {"offset-that-wraps",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Write(t.mine, SIZE_MAX - 7, t.theirs, 0, 16, &s, 1);
         });
     }},
    {"batch-of-nothing",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.CreateSession(t.mine, t.theirs)->BatchWrite({}, {}, {}, &s, 1);
         });
     }},
    {"batch-of-other-lengths",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.CreateSession(t.mine, t.theirs)
                 ->BatchWrite({0, 8}, {0}, {8, 8}, &s, 1);
         });
     }},
    {"size-of-zero",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.Write(t.mine, 0, t.theirs, 0, 0, &s, 1);
         });
     }},
    {"no-backend",
     [] {
         Side a("a", false), b("b", false);
         return write_apart(a, b);
     }},
    {"unknown-engine",
     [] {
         Side a("a"), b("b");
         return write_apart(a, b);
     }},
    {"deregistered-memory",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.DeregisterMemory(t.mine);
             t.a.engine.Write(t.mine, 0, t.theirs, 0, 64, &s, 1);
         });
     }},
    {"deregistered-engine",
     [] {
         return one([](Two &t, TransferStatus &s) {
             t.a.engine.DeregisterRemoteEngine(t.b.engine.GetEngineDesc());
             t.a.engine.Write(t.mine, 0, t.theirs, 0, 64, &s, 1);
         });
     }},
    {"uids",
     [] {
         Two two;
         auto session = two.a.engine.CreateSession(two.mine, two.theirs);
         auto first = two.a.engine.AllocateTransferUniqueId();
         auto second = session->AllocateTransferUniqueId();
         return word("next", second == first + 1);
     }},
    {"inbound-status",
     [] {
         Two two;
         TransferStatus status, inbound;
         two.a.engine.Write(two.mine, 0, two.theirs, 0, 64, &status, 9);
         (void)code(status);
         bool popped = false;
         // it may come later than the status here
         for (int i = is_rdma ? 0 : 59999; !popped && (i < 60000); ++i) {
             popped = two.b.engine.PopInboundTransferStatus("a", 9, &inbound);
             std::this_thread::sleep_for(std::chrono::milliseconds(!popped));
         }
         return word("inbound", popped);
     }},
    {"new-status",
     [] {
         TransferStatus status;
         return word("code", static_cast<int>(status.CodeUint32())) +
                word("message", static_cast<int>(status.Message().size()));
     }},
    {"wait-all",
     [] {
         Side a("a");
         TransferStatus good, bad, running;
         good.SetCode(StatusCode::SUCCESS);
         bad.SetCode(StatusCode::ERR_RDMA_OP);
         running.SetCode(StatusCode::IN_PROGRESS);
         auto with = [&](std::vector<TransferStatus *> all) {
             return static_cast<int>(a.engine.WaitAll(all, 0));
         };
         return word("empty", with({})) + word("good", with({&good})) +
                word("running", with({&good, &running})) +
                word("bad", with({&running, &bad}));
     }},
    {"memory-of-one-engine",
     [] {
         Side a("a");
         Memory here(0, 3), there(1, 0);
         auto mine = a.add(here), theirs = a.add(there);
         TransferStatus status;
         a.engine.Write(mine, 0, theirs, 0, kSize, &status, 1);
         int ended = code(status);
         return word("code", ended) + word("right", there.bytes() == here.bytes());
     }},
    {"engine-closed-before-its-peer",
     [] {
         auto two = std::make_unique<Two>();
         TransferStatus status;
         two->a.engine.Write(two->mine, 0, two->theirs, 0, 64, &status, 1);
         int ended = code(status);
         two.reset();
         return word("code", ended) + word("closed", 1);
     }},
    {"peer-closed-first",
     [] {
         Side a("a");
         auto b = std::make_unique<Side>("b");
         Memory here(0, 3), there(1, 0);
         a.engine.RegisterRemoteEngine(b->engine.GetEngineDesc());
         b->engine.RegisterRemoteEngine(a.engine.GetEngineDesc());
         auto mine = a.add(here), theirs = b->add(there);
         TransferStatus status, later;
         a.engine.Write(mine, 0, theirs, 0, 64, &status, 1);
         int ended = code(status);
         b.reset();
         return word("code", ended) + word("closed", 1);
     }},
};

int main(int argc, char **argv)
{
    const std::string backend = argc > 1 ? argv[1] : "";
    if ((backend != "xgmi") && (backend != "rdma")) {
        std::fprintf(stderr, "expected xgmi or rdma, and a case; got '%s'\n",
                     backend.c_str());
        return 2;
    }
    is_rdma = backend == "rdma";
    auto found = cases.find(argc > 2 ? argv[2] : "");
    if (found == cases.end()) {
        for (const auto &each : cases) {
            std::printf("%s\n", each.first.c_str());
        }
        return 0;
    }
    std::printf("%s:%s\n", argv[2], found->second().c_str());
    std::fflush(stdout);
    std::_Exit(0); // at exit MORI's own threads outlive what they use
}
