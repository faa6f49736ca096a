/* SPDX-License-Identifier: BSD-3-Clause */

/* The table's numbers and layouts are AMD's: checked when this is compiled. */

#include "base/muct_gpu.h"

#include <hip/hip_runtime_api.h>
#include <hsa/hsa_ext_amd.h>

#define SAME(_ours, _amds) _Static_assert((int)(_ours) == (int)(_amds), #_amds)

SAME(MUCT_HIP_SUCCESS, hipSuccess);
SAME(MUCT_HIP_INVALID_VALUE, hipErrorInvalidValue);
SAME(MUCT_HIP_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME(MUCT_HIP_NO_DEVICE, hipErrorNoDevice);
SAME(MUCT_HIP_INVALID_CONTEXT, hipErrorInvalidContext);
SAME(MUCT_HIP_PEER_UNSUPPORTED, hipErrorPeerAccessUnsupported);
SAME(MUCT_HIP_NOT_READY, hipErrorNotReady);
SAME(MUCT_HIP_PEER_ALREADY_ENABLED, hipErrorPeerAccessAlreadyEnabled);
SAME(MUCT_HIP_HOST_ALREADY_REGISTERED, hipErrorHostMemoryAlreadyRegistered);
SAME(MUCT_HIP_CAPTURE_UNSUPPORTED, hipErrorStreamCaptureUnsupported);
SAME(MUCT_HIP_CAPTURED_EVENT, hipErrorCapturedEvent);
SAME(MUCT_HIP_MEMCPY_DEFAULT, hipMemcpyDefault);
SAME(MUCT_HIP_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME(MUCT_HIP_EVENT_DISABLE_TIMING, hipEventDisableTiming);
SAME(MUCT_HIP_HOST_PORTABLE, hipHostMallocPortable);
SAME(MUCT_HIP_HOST_MAPPED, hipHostMallocMapped);
SAME(MUCT_HIP_HOST_COHERENT, hipHostMallocCoherent);
SAME(MUCT_HIP_HOST_REGISTER_PORTABLE, hipHostRegisterPortable);
SAME(MUCT_HIP_CAPTURE_RELAXED, hipStreamCaptureModeRelaxed);
SAME(MUCT_HIP_POINTER_BUFFER_ID, HIP_POINTER_ATTRIBUTE_BUFFER_ID);
SAME(sizeof(muct_hip_ipc_mem_handle_t), sizeof(hipIpcMemHandle_t));
SAME(sizeof(muct_hip_pointer_attribute_t), sizeof(hipPointerAttribute_t));
SAME(offsetof(muct_hip_pointer_attribute_t, device),
     offsetof(hipPointerAttribute_t, device));
SAME(offsetof(muct_hip_pointer_attribute_t, is_managed),
     offsetof(hipPointerAttribute_t, isManaged));
SAME(sizeof(hipError_t), sizeof(int));
SAME(MUCT_HSA_DMABUF_SUPPORTED, HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED);
SAME(offsetof(muct_hsa_pointer_info_t, type), offsetof(hsa_amd_pointer_info_t, type));
SAME(offsetof(muct_hsa_pointer_info_t, length),
     offsetof(hsa_amd_pointer_info_t, sizeInBytes));
SAME(offsetof(muct_hsa_pointer_info_t, owner),
     offsetof(hsa_amd_pointer_info_t, agentOwner));

int main(void)
{
    return 0;
}
