# What a kernel on the receiving GPU reads after it was told that all has arrived.
check_PROGRAMS += test/integration/it_consumer
TESTS += test/integration/it_consumer
test_integration_it_consumer_SOURCES = test/integration/it_consumer.c \
	$(it_run_sources) perf/gpu_runtime.c perf/gpu_runtime.h \
	ucx_plugin/xgmi/xgmi_list.c
test_integration_it_consumer_CPPFLAGS = $(it_cppflags)
test_integration_it_consumer_LDADD = libmuct_code.la $(it_libs) $(UCX_LIBS) -lucs -ldl

# Lists in flight by the hundred, in regions by the hundred.
check_PROGRAMS += test/integration/it_lists
TESTS += test/integration/it_lists
test_integration_it_lists_SOURCES = test/integration/it_lists.c \
	$(it_run_sources) perf/gpu_runtime.c perf/gpu_runtime.h perf/random.h \
	ucx_plugin/xgmi/xgmi_list.c
test_integration_it_lists_CPPFLAGS = $(it_cppflags)
test_integration_it_lists_LDADD = libmuct_code.la $(it_libs) $(UCX_LIBS) -lucs -ldl
