# Unit tests: hipcpu.
