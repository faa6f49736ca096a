# The workload: blocks to move, and their places; uses neither UCP nor libmorikv.
noinst_LTLIBRARIES += perf/workload/libworkload.la
perf_workload_libworkload_la_SOURCES = \
	perf/workload/allocator.c perf/workload/allocator.h \
	perf/workload/benchmarks.c perf/workload/benchmarks.h \
	perf/workload/generator.c perf/workload/generator.h \
	perf/workload/geometry.c perf/workload/geometry.h \
	perf/workload/model.c perf/workload/model.h \
	perf/workload/options.c perf/workload/options.h \
	perf/workload/options_check.c perf/workload/options_check.h \
	perf/workload/request.c perf/workload/request.h \
	perf/workload/slots.c perf/workload/slots.h \
	perf/workload/trace.c perf/workload/trace.h
perf_workload_libworkload_la_CPPFLAGS = $(AM_CPPFLAGS) -D_GNU_SOURCE $(JSON_CFLAGS) \
	-DPERF_MODELS_DIR='"$(modelsdir)"'
perf_workload_libworkload_la_LIBADD = $(JSON_LIBS)

# Caches of models, installed where the programs look for them. In a build tree apart from the
# sources a link stands for the folder.
modelsdir = $(pkgdatadir)/models
dist_models_DATA = \
	perf/models/DeepSeek-R1.json \
	perf/models/DeepSeek-V3.2.json \
	perf/models/DeepSeek-V4-Flash.json \
	perf/models/DeepSeek-V4-Pro.json \
	perf/models/GLM-5.2.json \
	perf/models/GLM-5.3-Flash.json \
	perf/models/GPT-OSS-120B.json \
	perf/models/Gemma-4-31B.json \
	perf/models/Kimi-K2.json \
	perf/models/Kimi-K3.json \
	perf/models/Llama-3-70B.json \
	perf/models/Llama-4.json \
	perf/models/MiniMax-M3.json \
	perf/models/Nemotron-3-Nano.json \
	perf/models/Nemotron-3-Super.json \
	perf/models/Qwen3-235B.json \
	perf/models/Qwen3.5-397B.json \
	perf/models/Qwen3.8-27B.json
EXTRA_DIST += perf/models/README.md
noinst_DATA = perf/models.stamp
CLEANFILES += perf/models.stamp
perf/models.stamp: $(dist_models_DATA)
	$(AM_V_GEN)test -e perf/models || ln -s $(abs_top_srcdir)/perf/models perf/models; \
	touch $@
