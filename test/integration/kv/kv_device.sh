# shellcheck shell=sh
# Sourced: sets $tls for the libmorikv tests of two processes, and prints it.
# MKV_TEST_RDMA_DEVICE names devices with their ports, as UCX does (mlx5_0:1,mlx5_1:1); the
# tests use mori_rdma on these. Unset: no RDMA. An unknown name is an error.
kv_device_build=${MKV_BUILD_DIR:-$PWD}
if [ -z "${MKV_TEST_RDMA_DEVICE:-}" ]; then
    tls=tcp
    echo "MKV_TEST_RDMA_DEVICE is not set: without RDMA, over tcp"
else
    tls=mori_rdma,tcp
    : "${UCX_PLUGIN_PATH=$kv_device_build/.libs}"
    export UCX_PLUGIN_PATH
    kv_devices=$(mkv_foreign "$kv_device_build/.libs/libuct_mori.so" ucx_info -d 2>/dev/null |
        awk '$2 == "Transport:" { mine = $3 == "mori_rdma" } mine && $2 == "Device:" { printf "%s ", $3 }')
    for kv_device in $(echo "$MKV_TEST_RDMA_DEVICE" | tr ',' ' '); do
        case " $kv_devices" in
        *" $kv_device "*) ;;
        *)
            echo "MKV_TEST_RDMA_DEVICE=$MKV_TEST_RDMA_DEVICE: mori_rdma has no $kv_device here, but: $kv_devices"
            exit 1
            ;;
        esac
    done
    export UCX_NET_DEVICES="$MKV_TEST_RDMA_DEVICE,lo"
    echo "MKV_TEST_RDMA_DEVICE=$MKV_TEST_RDMA_DEVICE: over $tls"
fi
