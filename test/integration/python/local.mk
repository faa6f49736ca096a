# The Python package, over the library of this build.
dist_check_SCRIPTS += test/integration/python/py_kv.sh
TESTS += test/integration/python/py_kv.sh
EXTRA_DIST += test/integration/python/py_bytes.py test/integration/python/py_kv.py test/integration/python/py_wheel.sh
