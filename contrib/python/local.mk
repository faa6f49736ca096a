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

# Its programs: those with UCX are shared objects, which run_program loads behind a UCX. json-c is
# inside.
wheel_folder = contrib/python/programs
wheel_programs = $(wheel_folder)/run_program $(wheel_folder)/mori_kv_perf.so $(wheel_folder)/gpu_risks.so \
	$(wheel_folder)/gpu_limits
EXTRA_LTLIBRARIES += contrib/python/bind/libkvmain.la contrib/python/bind/librisks.la
contrib_python_bind_libkvmain_la_SOURCES = $(perf_kv_perf_mori_kv_perf_SOURCES)
contrib_python_bind_libkvmain_la_CPPFLAGS = $(AM_CPPFLAGS)
contrib_python_bind_libkvmain_la_CFLAGS = $(AM_CFLAGS) -fvisibility=default
contrib_python_bind_librisks_la_SOURCES = $(perf_risks_gpu_risks_SOURCES)
contrib_python_bind_librisks_la_CPPFLAGS = $(perf_risks_gpu_risks_CPPFLAGS)
contrib_python_bind_librisks_la_CFLAGS = $(perf_risks_gpu_risks_CFLAGS) -fvisibility=default
wheel_link = $(AM_V_GEN)$(MKDIR_P) $(wheel_folder) && $(CC) $(AM_CFLAGS) $(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS) -o $@
wheel_object = $(wheel_link) -shared -Wl,-Bsymbolic
wheel_libs = $(WHEEL_JSON_LIBS) -lm -lpthread -ldl
WHEEL_JSON_LIBS = -l:libjson-c.a
$(wheel_folder)/run_program: contrib/python/bind/run_program.c
	$(wheel_link) $(srcdir)/contrib/python/bind/run_program.c -ldl
$(wheel_folder)/mori_kv_perf.so: contrib/python/bind/libkvmain.la perf/kv_perf/libkvcompute.la perf/kv_perf/libkvrun.la \
		libmorikv_core.la
	$(wheel_object) -Wl,--whole-archive contrib/python/bind/.libs/libkvmain.a -Wl,--no-whole-archive \
		perf/kv_perf/.libs/libkvcompute.a perf/kv_perf/.libs/libkvrun.a .libs/libmorikv_core.a $(wheel_libs)
$(wheel_folder)/gpu_risks.so: contrib/python/bind/librisks.la libmuct.la
	$(wheel_object) -Wl,--whole-archive contrib/python/bind/.libs/librisks.a -Wl,--no-whole-archive .libs/libmuct.a $(wheel_libs)
$(wheel_folder)/gpu_limits: $(perf_gpu_gpu_limits_OBJECTS) perf/gpu/libgpuruntime.la perf/workload/libworkload.la \
		libmorikv_core.la libmuct_code.la
	$(wheel_link) $(perf_gpu_gpu_limits_OBJECTS) perf/gpu/.libs/libgpuruntime.a perf/workload/.libs/libworkload.a \
		.libs/libmorikv_core.a .libs/libmuct_code.a $(wheel_libs)
EXTRA_DIST += contrib/python/bind/run_program.c
CLEANFILES += $(wheel_programs) contrib/python/bind/libkvmain.la contrib/python/bind/librisks.la

WHEEL_DIR = .
WHEEL_PLATFORM = linux_$(host_cpu)
wheel-files: libmorikv-any.la $(muct_LTLIBRARIES) $(wheel_programs) contrib/mori_env contrib/mori_doctor contrib/mori_prove
wheel: wheel-files
	$(srcdir)/contrib/python/make_wheel $(abs_srcdir) $(abs_builddir) $(WHEEL_DIR) $(WHEEL_PLATFORM)
.PHONY: wheel wheel-files
