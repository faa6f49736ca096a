/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Devices: a machine of MI300X, all linked with each other. A process numbers those it
 * sees from 0; their PCI addresses identify them.
 */

#include "hipcpu_capture.h"
#include "hipcpu_impl.h"

#include <stdio.h>
#include <string.h>

#define HIPCPU_LINK_XGMI 4 /* HSA_AMD_LINK_INFO_TYPE_XGMI */

static _Thread_local int hipcpu_device_now;
static atomic_bool hipcpu_peers[HIPCPU_MAX_DEVICES][HIPCPU_MAX_DEVICES];


int hipcpu_device_current(void)
{
    return hipcpu_device_now;
}

bool hipcpu_device_is_valid(int device)
{
    return (device >= 0) && (device < hipcpu_config.num_devices);
}

bool hipcpu_device_can_reach(int device, int peer)
{
    return (device == peer) || hipcpu_peers[device][peer];
}

static hipError_t hipcpu_device_check(int device)
{
    if (hipcpu_config.num_devices == 0) {
        return hipcpu_result(hipErrorNoDevice);
    }
    return hipcpu_result(hipcpu_device_is_valid(device) ? hipSuccess
                                                        : hipErrorInvalidDevice);
}

/* Two devices a bus, so that distances on PCI differ. */
static int hipcpu_device_bus(int device)
{
    return 0x0c + (0x10 * (hipcpu_config.devices[device] / hipcpu_config.partitions));
}

/* HIP names the partitions of a GPU as functions of one address (rocm-systems 10640).
 */
static int hipcpu_device_function(int device)
{
    return hipcpu_config.devices[device] % hipcpu_config.partitions;
}

hipError_t hipInit(unsigned flags)
{
    HIPCPU_ENTER(hipInit);
    return hipcpu_result((flags == 0) ? hipSuccess : hipErrorInvalidValue);
}

hipError_t hipRuntimeGetVersion(int *version)
{
    HIPCPU_ENTER(hipRuntimeGetVersion);
    *version = (hipcpu_config.major * 10000000) + (hipcpu_config.minor * 100000) + 1;
    return hipSuccess;
}

hipError_t hipDriverGetVersion(int *version)
{
    HIPCPU_ENTER(hipDriverGetVersion);
    *version = (hipcpu_config.major * 10000000) + (hipcpu_config.minor * 100000) + 1;
    return hipSuccess;
}

hipError_t hipGetDeviceCount(int *count)
{
    HIPCPU_ENTER(hipGetDeviceCount);
    *count = hipcpu_config.num_devices;
    return hipcpu_result((*count > 0) ? hipSuccess : hipErrorNoDevice);
}

hipError_t hipGetDevice(int *device)
{
    HIPCPU_ENTER(hipGetDevice);
    if (hipcpu_config.num_devices == 0) {
        return hipcpu_result(hipErrorNoDevice);
    }
    *device = hipcpu_device_now;
    return hipSuccess;
}

hipError_t hipSetDevice(int device)
{
    hipError_t error;

    HIPCPU_ENTER(hipSetDevice);
    error = hipcpu_device_check(device);
    if (error == hipSuccess) {
        hipcpu_device_now = device;
    }
    return error;
}

hipError_t hipDeviceGet(int *device, int ordinal)
{
    HIPCPU_ENTER(hipDeviceGet);
    *device = ordinal;
    return hipcpu_device_check(ordinal);
}

hipError_t hipDeviceSynchronize(void)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceSynchronize);
    error = hipcpu_capture_check_sync(hipErrorStreamCaptureUnsupported);
    if (error != hipSuccess) {
        return error;
    }
    hipcpu_lines_drain(hipcpu_device_now);
    hipcpu_pools_settle();
    return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, int attribute, int device)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceGetAttribute);
    error = hipcpu_device_check(device);
    if (error != hipSuccess) {
        return error;
    }

    switch (attribute) {
    case hipDeviceAttributeMultiprocessorCount:
        *value = 304;
        break;
    case hipDeviceAttributeWarpSize:
        *value = 64;
        break;
    case hipDeviceAttributeMaxThreadsPerBlock:
        *value = MUCT_XGMI_MAX_THREADS;
        break;
    case hipDeviceAttributeAsyncEngineCount:
        *value = 8;
        break;
    case hipDeviceAttributeComputeCapabilityMajor:
        *value = 9;
        break;
    case hipDeviceAttributeComputeCapabilityMinor:
        *value = 4;
        break;
    case hipDeviceAttributePciBusId:
        *value = hipcpu_device_bus(device);
        break;
    case hipDeviceAttributePciDeviceId:
    case hipDeviceAttributePciDomainID:
    case hipDeviceAttributeIntegrated:
        *value = 0;
        break;
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
    case hipDeviceAttributeConcurrentKernels:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeStreamPrioritiesSupported:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeHostRegisterSupported:
    case hipDeviceAttributeCanUseStreamWaitValue:
    case hipDeviceAttributeFineGrainSupport:
        *value = 1;
        break;
    case hipDeviceAttributeVirtualMemoryManagementSupported:
        *value = 0;
        break;
    case hipDeviceAttributeIsLargeBar:
        *value = !hipcpu_config.is_guarded;
        break;
    default:
        return hipcpu_result(hipErrorInvalidValue);
    }

    return hipSuccess;
}

hipError_t hipDeviceGetName(char *name, int length, int device)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceGetName);
    error = hipcpu_device_check(device);
    if (error == hipSuccess) {
        snprintf(name, (size_t)length, "libhipcpu device %d",
                 hipcpu_config.devices[device]);
    }
    return error;
}

/* "0000:1c:00.0" and the end of the text */
#define HIPCPU_BUS_ID_SIZE 13

hipError_t hipDeviceGetPCIBusId(char *bus_id, int length, int device)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceGetPCIBusId);
    error = hipcpu_device_check(device);
    if ((error == hipSuccess) && (length < HIPCPU_BUS_ID_SIZE)) {
        error = hipcpu_result(hipErrorInvalidValue);
    }
    if (error == hipSuccess) {
        snprintf(bus_id, (size_t)length, "0000:%02x:00.%x", hipcpu_device_bus(device),
                 (unsigned)hipcpu_device_function(device));
    }
    return error;
}

hipError_t hipDeviceGetByPCIBusId(int *device, const char *bus_id)
{
    unsigned domain, bus, function = 0;
    int i;

    HIPCPU_ENTER(hipDeviceGetByPCIBusId);
    if (sscanf(bus_id, "%x:%x:%*x.%x", &domain, &bus, &function) >= 2) {
        for (i = 0; i < hipcpu_config.num_devices; ++i) {
            if ((domain == 0) && ((int)bus == hipcpu_device_bus(i)) &&
                ((int)function == hipcpu_device_function(i))) {
                *device = i;
                return hipSuccess;
            }
        }
    }
    return hipcpu_result(hipErrorInvalidValue);
}

hipError_t hipDeviceGetUuid(hipUUID *uuid, int device)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceGetUuid);
    error = hipcpu_device_check(device);
    if (error == hipSuccess) {
        memset(uuid, 0, sizeof(*uuid));
        snprintf(uuid->bytes, sizeof(uuid->bytes), "hipcpu-%d",
                 hipcpu_config.devices[device]);
    }
    return error;
}

hipError_t hipDeviceTotalMem(size_t *bytes, int device)
{
    HIPCPU_ENTER(hipDeviceTotalMem);
    *bytes = hipcpu_config.memory;
    return hipcpu_device_check(device);
}

hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    HIPCPU_ENTER(hipDeviceGetStreamPriorityRange);
    *least = 1;
    *greatest = -1;
    return hipSuccess;
}

hipError_t hipDeviceCanAccessPeer(int *can_access, int device, int peer)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceCanAccessPeer);
    error = hipcpu_device_check(device);
    if (error == hipSuccess) {
        error = hipcpu_device_check(peer);
    }
    if (error == hipSuccess) {
        *can_access = (device != peer);
    }
    return error;
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceEnablePeerAccess);
    error = hipcpu_device_check(peer);
    if (error != hipSuccess) {
        return error;
    }
    if (peer == hipcpu_device_now) {
        return hipcpu_result(hipErrorInvalidDevice);
    }
    if (flags != 0) {
        return hipcpu_result(hipErrorInvalidValue);
    }
    if (atomic_exchange(&hipcpu_peers[hipcpu_device_now][peer], true)) {
        return hipcpu_result(hipErrorPeerAccessAlreadyEnabled);
    }
    return hipSuccess;
}

hipError_t hipDeviceDisablePeerAccess(int peer)
{
    hipError_t error;

    HIPCPU_ENTER(hipDeviceDisablePeerAccess);
    error = hipcpu_device_check(peer);
    if (error != hipSuccess) {
        return error;
    }
    if (!atomic_exchange(&hipcpu_peers[hipcpu_device_now][peer], false)) {
        return hipcpu_result(hipErrorPeerAccessNotEnabled);
    }
    return hipSuccess;
}

hipError_t hipDeviceGetP2PAttribute(int *value, int attribute, int src, int dst)
{
    HIPCPU_ENTER(hipDeviceGetP2PAttribute);
    if (!hipcpu_device_is_valid(src) || !hipcpu_device_is_valid(dst) || (src == dst)) {
        return hipcpu_result(hipErrorInvalidDevice);
    }
    *value = (attribute != 0); /* rank 0 is the best, the others are abilities */
    return hipSuccess;
}

hipError_t hipExtGetLinkTypeAndHopCount(int device1, int device2, uint32_t *type,
                                        uint32_t *hops)
{
    HIPCPU_ENTER(hipExtGetLinkTypeAndHopCount);
    if (!hipcpu_device_is_valid(device1) || !hipcpu_device_is_valid(device2) ||
        (device1 == device2)) {
        return hipcpu_result(hipErrorInvalidDevice);
    }
    *type = HIPCPU_LINK_XGMI;
    *hops = 1;
    return hipSuccess;
}

/* hipDeviceProp_t as of ROCm 6.0; filled are only the fields that callers read. */
hipError_t hipGetDevicePropertiesR0600(void *properties, int device)
{
    enum {
        PROP_SIZE = 1472,
        PROP_TOTAL_MEM = 288,
        PROP_WARP_SIZE = 308,
        PROP_MULTI_PROCESSORS = 388,
        PROP_PCI_BUS = 584,
        PROP_ARCH = 1160
    };
    char *prop = properties;
    int warp = 64;
    int cus = 304;
    int bus;
    hipError_t error;

    HIPCPU_ENTER(hipGetDevicePropertiesR0600);
    error = hipcpu_device_check(device);
    if (error != hipSuccess) {
        return error;
    }

    bus = hipcpu_device_bus(device);
    memset(prop, 0, PROP_SIZE);
    snprintf(prop, 256, "libhipcpu device %d", hipcpu_config.devices[device]);
    memcpy(prop + PROP_TOTAL_MEM, &hipcpu_config.memory, sizeof(hipcpu_config.memory));
    memcpy(prop + PROP_WARP_SIZE, &warp, sizeof(warp));
    memcpy(prop + PROP_MULTI_PROCESSORS, &cus, sizeof(cus));
    memcpy(prop + PROP_PCI_BUS, &bus, sizeof(bus));
    snprintf(prop + PROP_ARCH, 256, "%s%s", hipcpu_config.arch,
             strncmp(hipcpu_config.arch, "gfx9", 4) ? "" : ":sramecc+:xnack-");
    return hipSuccess;
}
