# SPDX-License-Identifier: MIT
"""Tables in, tables out: what `SpaceTimeGP` is made of."""
