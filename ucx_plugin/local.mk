# libuct_mori: the UCT module. libmuct holds its code, for the module and the unit tests.
noinst_LTLIBRARIES += libmuct.la
libmuct_la_SOURCES =
libmuct_la_CPPFLAGS = $(AM_CPPFLAGS)
libmuct_la_LIBADD = -L$(UCX_LIBDIR) -luct -lucs -lpthread

include ucx_plugin/base/local.mk
include ucx_plugin/xgmi/local.mk
include ucx_plugin/xgmi/code.mk
include ucx_plugin/copy/local.mk
if HAVE_VERBS
include ucx_plugin/rdma/local.mk
endif

# UCX loads the name that matches its own library's: .so.0, or .so.0.0.0 in wheels.
muctdir = $(libdir)/ucx-mori
muct_LTLIBRARIES = libuct_mori.la
libuct_mori_la_SOURCES = ucx_plugin/muct_module.c
libuct_mori_la_LIBADD = libmuct.la -L$(UCX_LIBDIR) -luct -lucs
libuct_mori_la_LDFLAGS = $(AM_LDFLAGS) -module -version-info 0:0:0 -no-undefined \
	-Wl,-z,nodelete -Wl,--version-script=$(srcdir)/ucx_plugin/muct.map
libuct_mori_la_DEPENDENCIES = libmuct.la ucx_plugin/muct.map
EXTRA_DIST += ucx_plugin/muct.map
