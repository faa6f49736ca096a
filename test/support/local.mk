# test/support
