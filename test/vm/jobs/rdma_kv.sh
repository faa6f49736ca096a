# CF-05
# shellcheck shell=bash
# nightly
# limit: 600
# libmorikv over soft-RoCE: mori_kv_perf, prefill on one device and decode on the other, WRITE
# and READ, by the library and by UCP alone, on host and on GPU memory, scattered blocks and
# the requests of a model; every byte compared.
. "$VM_TREE/test/vm/rdma.sh"
export UCX_MORI_RDMA_TIMEOUT=1s # as in rdma_ucx
export LD_LIBRARY_PATH=$MKV_BUILD/test/fake/hip/lib:$LD_LIBRARY_PATH
program=$(vm_program "$MKV_BUILD/perf/kv_perf/mori_kv_perf")

kv() { # ARG...
    local decode path=/tmp/kv.sock

    rm -f $path
    UCX_MORI_XGMI_SHM_DIR=/tmp UCX_NET_DEVICES=$(rdma_devices 0) timeout -k 5 $rdma_limit "$program" --role decode --peer $path \
        --check_consistency --total_buffer_size 8m "$@" >/tmp/decode 2>&1 &
    decode=$!
    vm_wait test -S $path || die "no decode process: $(cat /tmp/decode)"
    UCX_NET_DEVICES=$(rdma_devices 1) timeout -k 5 $rdma_limit "$program" --role prefill --peer $path \
        --check_consistency --total_buffer_size 8m "$@" >/tmp/prefill 2>&1 ||
        die "prefill $*: $(cat /tmp/prefill /tmp/decode)"
    wait $decode || die "decode $*: $(cat /tmp/decode)"
    cat /tmp/prefill /tmp/decode
    cat /tmp/prefill /tmp/decode | grep -q 'mori_rdma/' || die "$*: another path"
    cat /tmp/prefill /tmp/decode | grep -q 'every byte checked' || die "$*: not checked"
}

model=(--model Llama-3-70B --tp 8 --requests 2 --input_length 64 --output_length 16)
sweep=(--start_batch_size 128 --num_iter 2 --warmup_iter 1)
for op in WRITE READ; do
    kv "${sweep[@]}" --op_type $op
    kv "${sweep[@]}" --op_type $op --api ucp --start_block_size 1000
    kv "${sweep[@]}" --op_type $op --initiator_seg_type VRAM --target_seg_type VRAM
    kv "${model[@]}" --op_type $op
done
