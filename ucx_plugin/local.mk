# The UCT module: a loader that any UCX opens, and a core for each minor version of UCX
# whose headers configure was given.

# Module that UCX loads. UCX looks for the suffix of its own library's file: .so.0, or
# .so.0.0.0 in wheels. The module includes no header and links no library of UCX.
muctdir = $(libdir)/ucx-mori
muct_LTLIBRARIES = libuct_mori.la
libuct_mori_la_SOURCES = \
	ucx_plugin/loader/loader_bind.c \
	ucx_plugin/loader/loader_bind.h \
	ucx_plugin/loader/loader_core.h \
	ucx_plugin/loader/loader_image.c \
	ucx_plugin/loader/loader_image.h \
	ucx_plugin/loader/loader_module.c \
	ucx_plugin/loader/loader_log.c \
	ucx_plugin/loader/loader_log.h \
	ucx_plugin/loader/loader_ucx.c \
	ucx_plugin/loader/loader_ucx.h
libuct_mori_la_CPPFLAGS = $(MKV_CPPFLAGS)
libuct_mori_la_LIBADD = libmuct_version.la -ldl -lpthread
libuct_mori_la_LDFLAGS = $(AM_LDFLAGS) -module -version-info 0:0:0 -no-undefined \
	-Wl,-z,nodelete -Wl,--version-script=$(srcdir)/ucx_plugin/loader/loader.map
libuct_mori_la_DEPENDENCIES = libmuct_version.la ucx_plugin/loader/loader.map
EXTRA_DIST += ucx_plugin/loader/loader.map ucx_plugin/muct_core.map

# Meaning of versions for the loader; its unit test links this as well.
noinst_LTLIBRARIES += libmuct_version.la
libmuct_version_la_SOURCES = \
	ucx_plugin/loader/loader_version.c \
	ucx_plugin/loader/loader_version.h
libmuct_version_la_CPPFLAGS = $(MKV_CPPFLAGS)

# The transports, compiled once for each core.
muct_sources =

include ucx_plugin/base/local.mk
include ucx_plugin/xgmi/local.mk
include ucx_plugin/xgmi/copy/code.mk
include ucx_plugin/copy/local.mk
if HAVE_VERBS
include ucx_plugin/rdma/local.mk
endif

# A core is linked without UCX; the linker reports a reference that is missing in
# muct_ucx_symbols.h. To support a further minor version: its rows in base/muct_uct_abi.h, its
# number in contrib/m4/mkv_ucx.m4, and its lines here.
muct_core_sources = ucx_plugin/muct_core.c ucx_plugin/muct_ucx_symbols.h
muct_core_cppflags = $(MKV_CPPFLAGS) -include $(srcdir)/ucx_plugin/muct_ucx_symbols.h
muct_core_ldflags = $(AM_LDFLAGS) -module -avoid-version -shared $(MKV_NO_UNDEFINED) \
	-Wl,-z,nodelete -Wl,--version-script=$(srcdir)/ucx_plugin/muct_core.map
muct_core_libs = libmuct_code.la -lpthread -ldl -lm

# libmuct is the core of the UCX that all else is built against, for gpu_risks and the unit tests,
# which link it with UCX as any library is: with muct_ldflags, as a linker that takes what is needed
# alone would leave UCX out, to which all references are weak.
muct_ldflags = $(AM_LDFLAGS) -Wl,--no-as-needed
noinst_LTLIBRARIES += libmuct.la
libmuct_la_SOURCES =
libmuct_la_LIBADD = libmuct_code.la -L$(UCX_LIBDIR) -luct -lucs -lpthread
EXTRA_LTLIBRARIES += libmuct-1.22.la libmuct-1.23.la
CLEANFILES += libmuct-1.22.la libmuct-1.23.la

if HAVE_UCX_CORE_22
muct_LTLIBRARIES += mori-core-1.22.la
endif
if UCX_IS_22
libmuct_la_LIBADD += libmuct-1.22.la
endif
libmuct_1_22_la_SOURCES = $(muct_sources)
libmuct_1_22_la_CPPFLAGS = $(muct_core_cppflags) $(UCX_CORE_22_CFLAGS)
mori_core_1_22_la_SOURCES = $(muct_core_sources)
mori_core_1_22_la_CPPFLAGS = $(muct_core_cppflags) $(UCX_CORE_22_CFLAGS)
mori_core_1_22_la_LDFLAGS = $(muct_core_ldflags)
mori_core_1_22_la_LIBADD = libmuct-1.22.la $(muct_core_libs)

if HAVE_UCX_CORE_23
muct_LTLIBRARIES += mori-core-1.23.la
endif
if UCX_IS_23
libmuct_la_LIBADD += libmuct-1.23.la
endif
libmuct_1_23_la_SOURCES = $(muct_sources)
libmuct_1_23_la_CPPFLAGS = $(muct_core_cppflags) $(UCX_CORE_23_CFLAGS)
mori_core_1_23_la_SOURCES = $(muct_core_sources)
mori_core_1_23_la_CPPFLAGS = $(muct_core_cppflags) $(UCX_CORE_23_CFLAGS)
mori_core_1_23_la_LDFLAGS = $(muct_core_ldflags)
mori_core_1_23_la_LIBADD = libmuct-1.23.la $(muct_core_libs)
