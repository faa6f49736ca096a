# SPDX-License-Identifier: BSD-3-Clause
"""The package mori, reduced to the name by which morikv's mori.io is found."""
