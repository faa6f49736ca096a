# The Python package morikv: cffi over the declarations of morikv.h itself.
EXTRA_DIST += \
	contrib/python/README.md \
	contrib/python/pyproject.toml \
	contrib/python/morikv/__init__.py \
	contrib/python/morikv/_declarations.py \
	contrib/python/morikv/_handle.py \
	contrib/python/morikv/_library.py \
	contrib/python/morikv/aio.py \
	contrib/python/morikv/context.py \
	contrib/python/morikv/errors.py \
	contrib/python/morikv/memory.py \
	contrib/python/morikv/model.py \
	contrib/python/morikv/morikv.h \
	contrib/python/morikv/py.typed \
	contrib/python/morikv/transfer.py
