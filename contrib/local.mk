# Scripts that travel with the source.
EXTRA_DIST += \
	contrib/check_commits.sh \
	contrib/check_docs.sh \
	contrib/check_format.sh \
	contrib/check_headers.sh \
	contrib/check_includes.sh \
	contrib/check_requirements.sh \
	contrib/check_shell.sh \
	contrib/check_symbols.sh \
	contrib/check_text.sh \
	contrib/demo \
	contrib/devroot \
	contrib/fetch_ucx \
	contrib/installed.txt \
	contrib/lib_check.sh \
	contrib/packages.devroot \
	contrib/prove-amd \
	contrib/test \
	contrib/test_lib.sh \
	contrib/under_valgrind \
	contrib/valgrind.supp

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = contrib/libmorikv.pc
