# Unit tests: src.
