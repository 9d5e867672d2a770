# SPDX-License-Identifier: MIT
"""Readers of original data files: every refused line is counted and shown, and none stops the reading."""
