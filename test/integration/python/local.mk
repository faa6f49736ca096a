# The Python package, over the library of this build.
dist_check_SCRIPTS += test/integration/python/py_kv.sh
dist_check_SCRIPTS += test/integration/python/py_mori_io.sh test/integration/python/py_llm.sh test/integration/python/py_pool.sh
TESTS += test/integration/python/py_kv.sh test/integration/python/py_mori_io.sh
TESTS += test/integration/python/py_llm.sh test/integration/python/py_pool.sh
EXTRA_DIST += test/integration/python/py_mori_io.py test/integration/python/py_engines.py
EXTRA_DIST += test/integration/python/py_mori_calls.py test/integration/python/py_mori_cases.py
EXTRA_DIST += test/integration/python/py_mori_settings.py
EXTRA_DIST += test/integration/python/py_engines.sh test/integration/python/py_sglang.sh
EXTRA_DIST += test/integration/python/python_env.sh
EXTRA_DIST += contrib/examples/kv_pool.py contrib/examples/toy_pd.py test/integration/python/py_router.py
EXTRA_DIST += contrib/examples/llm_pd.py contrib/examples/tiny_llm.py test/integration/python/py_llm.py
EXTRA_DIST += test/integration/python/py_omni.py test/integration/python/py_omni.sh
EXTRA_DIST += test/integration/python/py_bytes.py test/integration/python/py_kv.py test/integration/python/py_wheel.sh
EXTRA_DIST += test/integration/python/py_orders.py test/integration/python/py_forked.py
EXTRA_DIST += test/integration/python/py_vllm.py test/integration/python/py_vllm_killed.py
EXTRA_DIST += test/integration/python/py_vllm_ranks.py test/integration/python/py_vllm_clients.py
EXTRA_DIST += test/integration/python/vllm_names.py
