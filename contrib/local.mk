# Scripts that travel with the source.
EXTRA_DIST += contrib/devroot contrib/packages.devroot
