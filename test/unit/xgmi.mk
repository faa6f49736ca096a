# Unit tests: xgmi.
