# libmorikv between six processes that are disturbed, for any time.
check_PROGRAMS += test/integration/soak/soak
test_integration_soak_soak_SOURCES = \
	test/integration/soak/soak.c \
	test/integration/soak/soak.h \
	test/integration/soak/soak_decode.c \
	test/integration/soak/soak_prefill.c \
	test/integration/soak/soak_worker.c
test_integration_soak_soak_CPPFLAGS = $(kv_cppflags)
test_integration_soak_soak_LDADD = $(kv_ldadd)

dist_check_SCRIPTS += test/integration/soak/soak.sh
TESTS += test/integration/soak/soak.sh
