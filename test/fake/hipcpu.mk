# libhipcpu: the HIP runtime on the CPU.
