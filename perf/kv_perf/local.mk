# mori_kv_perf.
noinst_LTLIBRARIES += perf/kv_perf/libkvperf.la perf/kv_perf/libkvrun.la

# Objects that use neither UCP nor libmorikv
perf_kv_perf_libkvperf_la_SOURCES = \
	perf/kv_perf/engine/channel.c perf/kv_perf/engine/channel.h \
	perf/kv_perf/report/histogram.c perf/kv_perf/report/histogram.h \
	perf/kv_perf/report/link.c perf/kv_perf/report/link.h \
	perf/kv_perf/report/progress.c perf/kv_perf/report/progress.h \
	perf/kv_perf/report/report.c perf/kv_perf/report/report.h \
	perf/kv_perf/report/result.c perf/kv_perf/report/result.h \
	perf/kv_perf/engine/run.c perf/kv_perf/engine/run.h
perf_kv_perf_libkvperf_la_CPPFLAGS = $(AM_CPPFLAGS) $(JSON_CFLAGS)
perf_kv_perf_libkvperf_la_LIBADD = perf/workload/libworkload.la $(JSON_LIBS)

# Objects that call libmorikv, with any UCP below it
noinst_LTLIBRARIES += perf/kv_perf/libkvcompute.la
perf_kv_perf_libkvcompute_la_SOURCES = perf/kv_perf/compute.c perf/kv_perf/compute.h

# Objects that move bytes
perf_kv_perf_libkvrun_la_SOURCES = \
	perf/kv_perf/engine/engine.h \
	perf/kv_perf/engine/engine_mkv.c \
	perf/kv_perf/engine/engine_ucp.c \
	perf/kv_perf/engine/mkv_session.c perf/kv_perf/engine/mkv_session.h \
	perf/kv_perf/engine/ucp_arrays.c perf/kv_perf/engine/ucp_arrays.h \
	perf/kv_perf/engine/ucp_notify.c perf/kv_perf/engine/ucp_notify.h \
	perf/kv_perf/engine/ucp_path.c perf/kv_perf/engine/ucp_path.h
perf_kv_perf_libkvrun_la_LIBADD = perf/kv_perf/libkvperf.la libmorikv.la $(UCX_LIBS)

bin_PROGRAMS += perf/kv_perf/mori_kv_perf
perf_kv_perf_mori_kv_perf_SOURCES = \
	perf/kv_perf/caches.c perf/kv_perf/caches.h \
	perf/kv_perf/launch.c perf/kv_perf/launch.h \
	perf/kv_perf/model.c \
	perf/kv_perf/mori_kv_perf.c \
	perf/kv_perf/pingpong.c perf/kv_perf/pingpong.h \
	perf/kv_perf/sweep.c perf/kv_perf/sweep.h \
	perf/kv_perf/sweep_flow.c
EXTRA_DIST += perf/kv_perf/beside_plain.sh perf/kv_perf/lane_ratios.sh perf/kv_perf/pairs.sh \
	perf/kv_perf/side_by_side.py
perf_kv_perf_mori_kv_perf_LDADD = perf/kv_perf/libkvcompute.la perf/kv_perf/libkvrun.la

# Pictures of its JSON output
bin_SCRIPTS += perf/kv_perf/mori_kv_plot
CLEANFILES += perf/kv_perf/mori_kv_plot
EXTRA_DIST += perf/kv_perf/mori_kv_plot.in
perf/kv_perf/mori_kv_plot: perf/kv_perf/mori_kv_plot.in Makefile
	$(AM_V_at)$(MKDIR_P) perf/kv_perf
	$(AM_V_GEN)sed -e 's|@version@|$(PACKAGE_VERSION)|' \
		$(srcdir)/perf/kv_perf/mori_kv_plot.in >$@ && chmod +x $@

# The manual page is made from --help.
if HAVE_HELP2MAN
man1_MANS = perf/kv_perf/mori_kv_perf.1 perf/kv_perf/mori_kv_plot.1 contrib/mori_doctor.1 contrib/mori_env.1 contrib/mori_prove.1
CLEANFILES += $(man1_MANS)
perf/kv_perf/mori_kv_perf.1: perf/kv_perf/mori_kv_perf$(EXEEXT)
	$(AM_V_GEN)$(HELP2MAN) -N -n "move KV caches between two processes and measure it" \
		-o $@ perf/kv_perf/mori_kv_perf$(EXEEXT)
perf/kv_perf/mori_kv_plot.1: perf/kv_perf/mori_kv_plot
	$(AM_V_GEN)$(HELP2MAN) -N -n "draw results of mori_kv_perf" -o $@ perf/kv_perf/mori_kv_plot
contrib/mori_env.1: contrib/mori_env
	$(AM_V_GEN)$(HELP2MAN) -N -n "print the environment that makes UCX load ucx-mori" \
		--version-string "mori_env (ucx-mori) $(PACKAGE_VERSION)" -o $@ contrib/mori_env
contrib/mori_doctor.1: contrib/mori_doctor
	$(AM_V_GEN)$(HELP2MAN) -N -n "report what is in the way of ucx-mori on this machine" \
		-o $@ contrib/mori_doctor
contrib/mori_prove.1: contrib/mori_prove
	$(AM_V_GEN)$(HELP2MAN) -N -n "prove which paths of ucx-mori are safe on this machine" \
		-o $@ contrib/mori_prove
endif
