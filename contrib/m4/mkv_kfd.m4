# MKV_KFD: the kernel's interface of AMD GPUs, new enough for the stand-in of test/kfd.
AC_DEFUN([MKV_KFD], [
    AC_CHECK_DECL([KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID], [have_kfd=yes], [have_kfd=no],
        [[#include <linux/kfd_ioctl.h>
#include <drm/amdgpu_drm.h>]])
    AM_CONDITIONAL([HAVE_KFD_HEADER], [test "x$have_kfd" = xyes])
])
