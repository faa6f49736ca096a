# SPDX-License-Identifier: BSD-3-Clause
"""The package mori as far as its name is needed to find morikv's mori.io."""
