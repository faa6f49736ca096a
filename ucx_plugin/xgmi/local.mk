# ucx_plugin/xgmi
