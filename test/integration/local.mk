# test/integration
