# SPDX-License-Identifier: MIT
"""Learning: parameters by name, maximisation of the evidence, estimates of its cost."""
