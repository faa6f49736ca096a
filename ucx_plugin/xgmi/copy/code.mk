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
if HAVE_KERNEL
libmuct_code_la_CPPFLAGS += -DHAVE_MUCT_XGMI_CODE -I$(builddir)/ucx_plugin/xgmi/copy
# Named by a variable: automake generates no compile rule if a rule has the literal name.
$(libmuct_code_la_OBJECTS): ucx_plugin/xgmi/copy/xgmi_code_file.h
CLEANFILES += ucx_plugin/xgmi/copy/xgmi_code_file.h ucx_plugin/xgmi/copy/xgmi_kernel.bundle

ucx_plugin/xgmi/copy/xgmi_code_file.h: ucx_plugin/xgmi/copy/xgmi_kernel.bundle
	$(AM_V_GEN)archs=`grep -ao 'amdhsa--gfx[0-9a-f]*' $< | sed 's/.*--//' | sort -u | tr '\n' ' ' | sed 's/ $$//'` && { \
		echo '#define MUCT_XGMI_CODE_FILE "$(abs_builddir)/ucx_plugin/xgmi/copy/xgmi_kernel.bundle"' && \
		echo "#define MUCT_XGMI_CODE_ARCHS \"$$archs\""; } >$@

# If hipcc is missing the bundle comes with the tarball, compiled from its kernel.
muct_kernel_source = $(srcdir)/ucx_plugin/xgmi/copy/xgmi_kernel.hip
ucx_plugin/xgmi/copy/xgmi_kernel.bundle: ucx_plugin/xgmi/copy/xgmi_kernel.hip \
		ucx_plugin/xgmi/copy/xgmi_kernel.h contrib/compile_kernel
	$(AM_V_at)$(MKDIR_P) ucx_plugin/xgmi/copy
if HAVE_HIPCC
	$(AM_V_GEN)HIPCC='$(HIPCC)' $(srcdir)/contrib/compile_kernel $(muct_kernel_source) $@
else
	$(AM_V_at)test -z "`find $(muct_kernel_source) -newer $(srcdir)/contrib/xgmi_kernel.bundle`" || \
		{ echo '$(muct_kernel_source) is newer than the compiled kernel of the tarball; install hipcc' >&2; exit 1; }
	$(AM_V_GEN)cat $(srcdir)/contrib/xgmi_kernel.bundle >$@
endif

# A tarball brings the compiled kernel.
muct_kernel_dist: ucx_plugin/xgmi/copy/xgmi_kernel.bundle
	$(AM_V_at)cat ucx_plugin/xgmi/copy/xgmi_kernel.bundle >$(distdir)/contrib/xgmi_kernel.bundle
dist_kernel = muct_kernel_dist
endif
