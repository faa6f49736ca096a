# MKV_SUMMARY: what was chosen.
AC_DEFUN([MKV_SUMMARY], [
    AC_MSG_NOTICE([UCX        $UCX_CFLAGS $UCX_LIBS])
    AC_MSG_NOTICE([mori_rdma  $have_verbs])
    AC_MSG_NOTICE([HIP headers $have_hip])
    AC_MSG_NOTICE([hipcc      ${HIPCC:-none: no copy kernel for AMD GPUs is built}])
    AC_MSG_NOTICE([tests      $have_check])
    AC_MSG_NOTICE([sanitizers $enable_sanitize])
])
