# The Python package morikv: cffi over the declarations of morikv.h itself.
EXTRA_DIST += \
	contrib/python/README.md \
	contrib/python/pyproject.toml \
	contrib/python/setup.py \
	contrib/python/bench_mori_io.py \
	contrib/python/morikv/__init__.py \
	contrib/python/morikv/_declarations.py \
	contrib/python/morikv/_handle.py \
	contrib/python/morikv/_home.py \
	contrib/python/morikv/_hip.py \
	contrib/python/morikv/_library.py \
	contrib/python/morikv/aio.py \
	contrib/python/morikv/as_mori.py \
	contrib/python/morikv/context.py \
	contrib/python/morikv/errors.py \
	contrib/python/morikv/listener.py \
	contrib/python/morikv/memory.py \
	contrib/python/morikv/metrics.py \
	contrib/python/morikv/model.py \
	contrib/python/morikv/mori_io/__init__.py \
	contrib/python/morikv/mori_io/config.py \
	contrib/python/morikv/mori_io/desc.py \
	contrib/python/morikv/mori_io/engine.py \
	contrib/python/morikv/mori_io/fabric.py \
	contrib/python/morikv/mori_io/hub.py \
	contrib/python/morikv/mori_io/mirror.py \
	contrib/python/morikv/mori_io/settings.py \
	contrib/python/morikv/mori_io/status.py \
	contrib/python/morikv/morikv.h \
	contrib/python/morikv/names/mori/__init__.py \
	contrib/python/morikv/names/mori/cpp.py \
	contrib/python/morikv/names/mori/io.py \
	contrib/python/morikv/operation.py \
	contrib/python/morikv/pieces.py \
	contrib/python/morikv/py.typed \
	contrib/python/morikv/top.py \
	contrib/python/morikv/transfer.py \
	contrib/python/morikv/vllm/__init__.py \
	contrib/python/morikv/vllm/caches.py \
	contrib/python/morikv/vllm/orders.py \
	contrib/python/morikv/vllm/params.py \
	contrib/python/morikv/vllm/scheduler.py \
	contrib/python/morikv/vllm/sides.py \
	contrib/python/morikv/vllm/worker.py
EXTRA_DIST += \
	contrib/python/morikv/__main__.py \
	contrib/python/morikv/_ucx.py \
	contrib/python/make_wheel

# libmorikv for a wheel: its UCX is found when it runs. `make wheel` puts it, the module and
# the package into WHEEL_DIR.
EXTRA_LTLIBRARIES += libmorikv-any.la
libmorikv_any_la_SOURCES = \
	contrib/python/bind/ucx_bind.c \
	contrib/python/bind/ucx_bind.h
libmorikv_any_la_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/contrib/python/bind
libmorikv_any_la_LIBADD = libmorikv_core.la -lpthread -ldl
libmorikv_any_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
    -rpath $(libdir) -Wl,-z,defs -Wl,--version-script=contrib/python/bind/libmorikv_any.map
libmorikv_any_la_DEPENDENCIES = libmorikv_core.la contrib/python/bind/libmorikv_any.map
contrib/python/bind/libmorikv_any.map: src/libmorikv.map
	$(AM_V_at)$(MKDIR_P) contrib/python/bind
	$(AM_V_GEN)sed 's/global:/& mkv_bind_ucx;/' $(top_srcdir)/src/libmorikv.map >$@
CLEANFILES += libmorikv-any.la contrib/python/bind/libmorikv_any.map

WHEEL_DIR = .
WHEEL_PLATFORM = linux_$(host_cpu)
wheel-files: libmorikv-any.la $(muct_LTLIBRARIES) contrib/mori_env
wheel: wheel-files
	$(srcdir)/contrib/python/make_wheel $(abs_srcdir) $(abs_builddir) $(WHEEL_DIR) $(WHEEL_PLATFORM)
.PHONY: wheel wheel-files
