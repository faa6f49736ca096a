# Scripts that travel with the source.
EXTRA_DIST += \
	contrib/check_abi.sh \
	contrib/arm64 \
	contrib/bareroot \
	contrib/bookworm \
	contrib/check_beside.sh \
	contrib/check_budget.sh \
	contrib/check_commits.sh \
	contrib/check_cores \
	contrib/check_docs.sh \
	contrib/check_floors.sh \
	contrib/check_format.sh \
	contrib/check_headers.sh \
	contrib/check_includes.sh \
	contrib/check_length.sh \
	contrib/check_kernel \
	contrib/check_litmus.sh \
	contrib/check_model.sh \
	contrib/check_requirements.sh \
	contrib/check_shell.sh \
	contrib/check_symbols.sh \
	contrib/check_tenants.sh \
	contrib/check_text.sh \
	contrib/check_types.sh \
	contrib/check_words.sh \
	contrib/check_wheel \
	contrib/compile_kernel \
	contrib/demo \
	contrib/devroot \
	contrib/fetch_engines \
	contrib/fetch_matplotlib \
	contrib/fetch_mooncake \
	contrib/fetch_mori \
	contrib/fetch_nixl \
	contrib/fetch_omni \
	contrib/fetch_rocm \
	contrib/fetch_router \
	contrib/fetch_ucx \
	contrib/fetch_vllm \
	contrib/budget.txt \
	contrib/fuzz \
	contrib/installed.txt \
	contrib/lib_check.sh \
	contrib/package \
	contrib/package_installed \
	contrib/packages.devroot \
	contrib/page_commands \
	contrib/release \
	contrib/requirements \
	contrib/run_readme \
	contrib/source_files \
	contrib/test \
	contrib/test_lib.sh \
	contrib/timed \
	contrib/under_valgrind \
	contrib/valgrind.supp

# Packages of others' making.
EXTRA_DIST += \
	contrib/debian/changelog \
	contrib/debian/control \
	contrib/debian/copyright \
	contrib/debian/libmorikv-dev.examples \
	contrib/debian/libmorikv-dev.install \
	contrib/debian/libmorikv-dev.lintian-overrides \
	contrib/debian/libmorikv0.install \
	contrib/debian/libmorikv0.lintian-overrides \
	contrib/debian/libuct-mori.install \
	contrib/debian/libuct-mori.lintian-overrides \
	contrib/debian/rules \
	contrib/debian/source/format \
	contrib/debian/ucx-mori-doc.docs \
	contrib/debian/ucx-mori-doc.lintian-overrides \
	contrib/debian/ucx-mori-tools.install \
	contrib/debian/ucx-mori-tools.lintian-overrides \
	contrib/docker/Dockerfile.debian \
	contrib/docker/Dockerfile.rocm \
	contrib/metrics/alerts.yml \
	contrib/metrics/dashboard.json

EXTRA_DIST += test/installed/run test/installed/use test/installed/use_packages test/installed/use_prove test/installed/use_wheel
EXTRA_DIST += test/nixl/agents.py test/nixl/components.py test/nixl/run
EXTRA_DIST += test/engine/disagg.py test/engine/model.py test/engine/router.py test/engine/run test/engine/side.py

# Scripts that print the environment for this installation and examine the machine. The names
# of wheels that bring a UCX come from the Python package.
bin_SCRIPTS += contrib/mori_env contrib/mori_doctor contrib/mori_prove
CLEANFILES += contrib/mori_env contrib/mori_doctor contrib/mori_prove
EXTRA_DIST += contrib/mori_env.in contrib/mori_doctor.in contrib/mori_prove.in
contrib/mori_prove: contrib/mori_prove.in contrib/mori_doctor
	$(AM_V_GEN)cp $(srcdir)/contrib/mori_prove.in $@ && chmod +x $@
contrib/mori_env: contrib/mori_env.in contrib/python/morikv/_ucx.py Makefile
	$(AM_V_at)$(MKDIR_P) contrib
	$(AM_V_GEN)wheels=`sed -n 's/^_WHEELS = //p' $(srcdir)/contrib/python/morikv/_ucx.py` && \
	sed -e 's|@muctdir@|$(muctdir)|' -e "s|@wheels@|$$wheels|" \
		$(srcdir)/contrib/mori_env.in >$@ && chmod +x $@
contrib/mori_doctor: contrib/mori_doctor.in Makefile
	$(AM_V_at)$(MKDIR_P) contrib
	$(AM_V_GEN)sed -e 's|@muctdir@|$(muctdir)|' -e 's|@version@|$(PACKAGE_VERSION)|' \
		$(srcdir)/contrib/mori_doctor.in >$@ && chmod +x $@

# Received reports of mori_prove (docs/reports), which mori_doctor cites. None has arrived.
reportsdir = $(pkgdatadir)/reports
dist_reports_DATA =

# Everything that a release page holds: tarball, wheel, Debian packages, checksums.
release:
	$(srcdir)/contrib/release
.PHONY: release

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = contrib/libmorikv.pc

# The example of the documentation is a test like the others.
check_PROGRAMS += contrib/examples/kv_write
contrib_examples_kv_write_SOURCES = contrib/examples/kv_write.c
contrib_examples_kv_write_LDADD = libmorikv.la $(UCX_LIBS)
include contrib/python/local.mk
