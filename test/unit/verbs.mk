# What mori_rdma relies on in verbs: one source, linked to the fake and to the real library.
verbs_contract_sources = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c \
	test/unit/verbs_contract.c test/unit/verbs_contract_error.c

check_PROGRAMS += test/unit/verbs_contract_fake test/unit/verbs_contract
test_unit_verbs_contract_fake_SOURCES = $(verbs_contract_sources)
test_unit_verbs_contract_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_contract_fake_LDADD = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS)

test_unit_verbs_contract_SOURCES = $(verbs_contract_sources)
test_unit_verbs_contract_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_contract_LDADD = \
	test/support/libmkvtest.la $(VERBS_LIBS) $(CHECK_LIBS)

check_PROGRAMS += test/unit/verbs_fake
test_unit_verbs_fake_SOURCES = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c test/unit/verbs_fake.c
test_unit_verbs_fake_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_fake_LDADD = \
	test/support/libmkvtest.la test/fake/verbs/libibverbs.la $(CHECK_LIBS)

check_PROGRAMS += test/unit/verbs_wire
test_unit_verbs_wire_SOURCES = \
	test/unit/verbs_pair.h test/unit/verbs_pair.c test/unit/verbs_wire.c
test_unit_verbs_wire_CPPFLAGS = $(AM_CPPFLAGS) $(CHECK_CFLAGS) $(VERBS_CFLAGS)
test_unit_verbs_wire_LDADD = $(test_unit_verbs_fake_LDADD)

# The real one wants devices: a job of the laboratory runs it.
TESTS += test/unit/verbs_contract_fake test/unit/verbs_fake test/unit/verbs_wire
EXTRA_DIST += test/vm/jobs/verbs_contract.sh
