# The copy kernel: list builder, source, and its machine code inside the module.
EXTRA_DIST += ucx_plugin/xgmi/copy/xgmi_kernel.hip

# A library of its own: it needs nothing of UCX, and programs beside the module use it.
noinst_LTLIBRARIES += libmuct_code.la
libmuct_code_la_SOURCES = ucx_plugin/xgmi/copy/xgmi_kernel.h \
	ucx_plugin/xgmi/copy/xgmi_list.h ucx_plugin/xgmi/copy/xgmi_list.c \
	ucx_plugin/xgmi/copy/xgmi_code.h ucx_plugin/xgmi/copy/xgmi_code.c
libmuct_code_la_CPPFLAGS = $(AM_CPPFLAGS)

# The bundle goes in by .incbin, which no dependency tracking sees; the header that
# names it is made anew with it.
if HAVE_HIPCC
MUCT_XGMI_ARCHS = gfx90a gfx942 gfx950 gfx1100
# Not the compiler's default, 6 from LLVM 19 on: runtimes before ROCm 6.2.2 do not load that.
MUCT_XGMI_CODE_VERSION = 5
libmuct_code_la_CPPFLAGS += -DHAVE_MUCT_XGMI_CODE -I$(builddir)/ucx_plugin/xgmi/copy
# Not by its name: automake would take a rule for the object for all there is to say of it.
$(libmuct_code_la_OBJECTS): ucx_plugin/xgmi/copy/xgmi_code_file.h
CLEANFILES += ucx_plugin/xgmi/copy/xgmi_code_file.h ucx_plugin/xgmi/copy/xgmi_kernel.bundle

ucx_plugin/xgmi/copy/xgmi_code_file.h: ucx_plugin/xgmi/copy/xgmi_kernel.bundle
	$(AM_V_GEN)echo '#define MUCT_XGMI_CODE_FILE "$(abs_builddir)/ucx_plugin/xgmi/copy/xgmi_kernel.bundle"' >$@

ucx_plugin/xgmi/copy/xgmi_kernel.bundle: ucx_plugin/xgmi/copy/xgmi_kernel.hip \
		ucx_plugin/xgmi/copy/xgmi_kernel.h
	$(AM_V_at)$(MKDIR_P) ucx_plugin/xgmi/copy
	$(AM_V_GEN)$(HIPCC) --genco -O3 -Wall -Wno-unused-command-line-argument \
		-mcode-object-version=$(MUCT_XGMI_CODE_VERSION) \
		$(MUCT_XGMI_ARCHS:%=--offload-arch=%) -I$(srcdir)/ucx_plugin/xgmi/copy \
		-o $@ $(srcdir)/ucx_plugin/xgmi/copy/xgmi_kernel.hip
endif
