# MKV_COMGR: AMD's disassembler, by which test/isa runs the copy kernel's machine code.
# Without it, or without that code, those tests are skipped.
AC_DEFUN([MKV_COMGR], [
    have_comgr=no
    AC_CHECK_HEADER([amd_comgr/amd_comgr.h],
        [AC_CHECK_LIB([amd_comgr], [amd_comgr_disassemble_instruction], [have_comgr=yes])])
    AS_IF([test "x$kernel_from" = xno], [have_comgr=no])
    AM_CONDITIONAL([HAVE_COMGR], [test $have_comgr = yes])
])
