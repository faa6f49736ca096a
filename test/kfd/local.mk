# The stand-in of AMD's kernel driver, and programs that run on AMD's runtimes over it.
if HAVE_KFD_HEADER
noinst_LTLIBRARIES += test/kfd/libkfdcpu.la
test_kfd_libkfdcpu_la_SOURCES = \
	test/kfd/kfd_access.c test/kfd/kfd_aql.c test/kfd/kfd_calls.c \
	test/kfd/kfd_config.c test/kfd/kfd_dispatch.h test/kfd/kfd_drm.c \
	test/kfd/kfd_event.c test/kfd/kfd_fault.c test/kfd/kfd_impl.h \
	test/kfd/kfd_ioctl.c test/kfd/kfd_kernels.c test/kfd/kfd_late.c \
	test/kfd/kfd_map.c test/kfd/kfd_maps.c test/kfd/kfd_memory.c \
	test/kfd/kfd_queue.c test/kfd/kfd_sdma.c test/kfd/kfd_share.c \
	test/kfd/kfd_topology.c test/kfd/kfd_usage.c
test_kfd_libkfdcpu_la_CPPFLAGS = $(AM_CPPFLAGS)
test_kfd_libkfdcpu_la_CFLAGS = $(AM_CFLAGS) -pthread -fvisibility=hidden
test_kfd_libkfdcpu_la_LDFLAGS = $(AM_LDFLAGS) -shared -avoid-version \
	-rpath $(abs_builddir)/test/kfd
test_kfd_libkfdcpu_la_LIBADD = -ldl -lpthread

if HAVE_HIP_HEADERS
kfd_hip_sources = test/kfd/hip_lib.c test/kfd/hip_lib.h
kfd_hip_cppflags = $(AM_CPPFLAGS) $(HIP_CFLAGS)
check_PROGRAMS += test/kfd/hip_tour test/kfd/hip_ipc test/kfd/hip_chunks test/kfd/hip_calls \
	test/kfd/hip_neighbours test/kfd/hip_segments
test_kfd_hip_calls_SOURCES = test/kfd/hip_calls.c test/kfd/hip_calls.h \
	test/kfd/hip_calls_capture.c test/kfd/hip_calls_memory.c test/kfd/hip_calls_share.c \
	$(kfd_hip_sources)
test_kfd_hip_calls_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_calls_CFLAGS = $(AM_CFLAGS) -pthread
test_kfd_hip_calls_LDADD = -ldl -lpthread
test_kfd_hip_tour_SOURCES = test/kfd/hip_tour.c $(kfd_hip_sources)
test_kfd_hip_tour_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_tour_LDADD = -ldl
test_kfd_hip_ipc_SOURCES = test/kfd/hip_ipc.c $(kfd_hip_sources)
test_kfd_hip_ipc_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_ipc_LDADD = -ldl
test_kfd_hip_chunks_SOURCES = test/kfd/hip_chunks.c $(kfd_hip_sources)
test_kfd_hip_chunks_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_chunks_LDADD = -ldl
test_kfd_hip_neighbours_SOURCES = test/kfd/hip_neighbours.c $(kfd_hip_sources)
test_kfd_hip_neighbours_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_neighbours_LDADD = $(UCX_LIBS) -lucs -ldl
test_kfd_hip_segments_SOURCES = test/kfd/hip_segments.c $(kfd_hip_sources)
test_kfd_hip_segments_CPPFLAGS = $(kfd_hip_cppflags)
test_kfd_hip_segments_LDADD = $(UCX_LIBS) -lucs -ldl
endif
endif
EXTRA_DIST += test/kfd/README.md test/kfd/compare_calls.py test/kfd/test_driver.py test/kfd/differences.txt test/kfd/mori_calls.cc test/kfd/build_mori_calls \
	test/kfd/mooncake_hip.py test/kfd/mori_calls.py test/kfd/mori_differences.txt test/kfd/run
