# ucx_plugin/base
