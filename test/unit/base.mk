# Unit tests: base.
