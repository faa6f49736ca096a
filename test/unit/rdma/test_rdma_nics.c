/* SPDX-License-Identifier: BSD-3-Clause */
#include "config.h"
#include "test/support/rdma_rig.h"
#include "test/support/mkv_check.h"
#include "test/support/mkv_hip.h"
#include "test/support/mkv_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <ucs/sys/topo/base/topo.h>
#include <unistd.h>

/*
 * A node of eight GPUs and eight NICs in one process. An unmodified UCP chooses the NIC
 * near the GPU whose memory it moves. GPU i and NIC i are on PCI buses 0xic and 0xid;
 * the test gives UCX a distance table in which those of equal i are near.
 */

#define NUM 8
#define SIZE 1048576

static ucp_context_h context;
static ucp_worker_h workers[2];
static ucp_ep_h ep;

static ucs_status_t get_distance(ucs_sys_device_t device1, ucs_sys_device_t device2,
                                 ucs_sys_dev_distance_t *distance)
{
    ucs_sys_bus_id_t bus1, bus2;
    int is_near = 1;

    if ((device1 != UCS_SYS_DEVICE_ID_UNKNOWN) &&
        (device2 != UCS_SYS_DEVICE_ID_UNKNOWN) &&
        (ucs_topo_get_device_bus_id(device1, &bus1) == UCS_OK) &&
        (ucs_topo_get_device_bus_id(device2, &bus2) == UCS_OK)) {
        is_near = (bus1.bus >> 4) == (bus2.bus >> 4);
    }

    distance->latency = is_near ? 0 : 500e-9;
    distance->bandwidth = is_near ? 60e9 : 8e9;
    return UCS_OK;
}

static void get_memory_distance(ucs_sys_device_t device,
                                ucs_sys_dev_distance_t *distance)
{
    (void)device;
    distance->latency = 0;
    distance->bandwidth = 60e9;
}

static void get_cpuset_distance(ucs_sys_device_t device, const ucs_cpu_set_t *cpuset,
                                ucs_sys_dev_distance_t *distance)
{
    (void)cpuset;
    get_memory_distance(device, distance);
}

static void start(void)
{
    static const ucs_sys_topo_ops_t topology = {get_distance, get_memory_distance,
                                                get_cpuset_distance};
    const ucp_request_param_t none = {0};

    ck_assert_int_eq(ucs_sys_topo_provider_push(&topology), UCS_OK);
    rig_ucp_open(UCP_FEATURE_RMA, &context, workers);
    ck_assert_int_eq(rig_ucp_connect(workers, 0, UCP_ERR_HANDLING_MODE_PEER, NULL, &ep),
                     UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
}

static ucp_mem_h map_memory(void *address, ucs_memory_type_t type)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address = address,
        .length = SIZE,
        .memory_type = type,
    };
    ucp_mem_h memh;

    ck_assert_int_eq(ucp_mem_map(context, &params, &memh), UCS_OK);
    return memh;
}

static uint64_t bytes_out(unsigned nic)
{
    fake_verbs_stats_t stats;
    char name[8];

    snprintf(name, sizeof(name), "n%u", nic);
    fake_verbs_device_stats(name, &stats);
    return stats.bytes_out;
}

/* The user gives no hint: UCP detects the type and the place of the memory. */
static void put_from(void *address, void *target, ucp_rkey_h rkey)
{
    const ucp_request_param_t none = {0};

    ck_assert_int_eq(rig_ucp_wait(workers, ucp_put_nbx(ep, address, SIZE,
                                                       (uintptr_t)target, rkey, &none)),
                     UCS_OK);
    ck_assert_int_eq(rig_ucp_wait(workers, ucp_ep_flush_nbx(ep, &none)), UCS_OK);
}

/* TR-14 */
START_TEST(memory_of_a_gpu_goes_by_the_nic_near_it)
{
    void *target = malloc(SIZE), *address, *key;
    uint64_t before[NUM], after;
    ucp_mem_h memh, target_memh;
    unsigned gpu, nic;
    ucp_rkey_h rkey;
    size_t length;

    start();
    ck_assert_ptr_nonnull(target);
    target_memh = map_memory(target, UCS_MEMORY_TYPE_HOST);
    ck_assert_int_eq(ucp_rkey_pack(context, target_memh, &key, &length), UCS_OK);
    ck_assert_int_eq(ucp_ep_rkey_unpack(ep, key, &rkey), UCS_OK);
    for (gpu = 0; gpu < NUM; gpu++) {
        ck_assert_msg(mkv_hip_set_device((int)gpu), "%s", mkv_hip_why());
        address = mkv_hip_alloc(SIZE);
        ck_assert_ptr_nonnull(address);
        memh = map_memory(address, UCS_MEMORY_TYPE_ROCM);
        for (nic = 0; nic < NUM; nic++) {
            before[nic] = bytes_out(nic);
        }
        put_from(address, target, rkey);
        for (nic = 0; nic < NUM; nic++) {
            after = bytes_out(nic) - before[nic];
            ck_assert_msg((after >= SIZE) == (nic == gpu),
                          "GPU %u: %llu bytes by NIC %u", gpu,
                          (unsigned long long)after, nic);
        }
        ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
        ck_assert(mkv_hip_free(address));
    }
    ucp_rkey_buffer_release(key);
    ucp_rkey_destroy(rkey);
    ck_assert_int_eq(ucp_mem_unmap(context, target_memh), UCS_OK);
    free(target);
    rig_ucp_close(context, workers, ep);
}
END_TEST

/* Define 8 NICs, as many as GPUs, each at a PCI address of its own. */
static void set_devices(const char *sysfs)
{
    char devices[512] = "", names[128] = "";
    size_t i, end = 0, names_end = 0;

    for (i = 0; i < NUM; i++) {
        end +=
            (size_t)snprintf(devices + end, sizeof(devices) - end,
                             "%sn%zu:ionic@0000:%zxd:00.0", (i > 0) ? "," : "", i, i);
        names_end += (size_t)snprintf(names + names_end, sizeof(names) - names_end,
                                      "n%zu:1,", i);
    }
    strcat(names, "lo");
    setenv("FAKE_VERBS_DEVICES", devices, 1);
    setenv("FAKE_VERBS_SYSFS", sysfs, 1);
    setenv("UCX_NET_DEVICES", names, 1);
}

static void remove_folder(const char *path)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", path);
    if (system(command) != 0) {
        fprintf(stderr, "%s is left\n", path);
    }
}

int main(void)
{
    Suite *suite = suite_create("mori_rdma NICs");
    TCase *tcase = tcase_create("affinity");
    char sysfs[] = "/tmp/rdma_nics.XXXXXX";
    int ret;

    if (mkdtemp(sysfs) == NULL) {
        perror("mkdtemp");
        return 1;
    }
    set_devices(sysfs);
    setenv("UCX_WARN_UNUSED_ENV_VARS", "n", 1);
    setenv("UCX_TLS", "mori_xgmi,mori_rdma,tcp", 1);
    setenv("HIPCPU_DEVICES", "8", 1);
    setenv("UCX_MORI_HIP_LIB", HIPCPU_PATH, 1);
    setenv("UCX_MORI_TEST_HIP", HIPCPU_PATH, 1);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, memory_of_a_gpu_goes_by_the_nic_near_it);
    suite_add_tcase(suite, tcase);
    ct_side_find_module();
    mkv_test_init();
    ret = mkv_check_run_forked(suite);
    remove_folder(sysfs);
    return ret;
}
