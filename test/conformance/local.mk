# test/conformance
