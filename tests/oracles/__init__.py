# SPDX-License-Identifier: MIT
"""Slow, obvious computations from the definitions, in plain NumPy; nothing here imports weft."""
