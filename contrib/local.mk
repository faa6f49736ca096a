# Scripts that travel with the source.
EXTRA_DIST += \
	contrib/devroot \
	contrib/installed.txt \
	contrib/packages.devroot \
	contrib/test \
	contrib/test_lib.sh \
	contrib/under_valgrind \
	contrib/valgrind.supp
