# SPDX-License-Identifier: MIT
"""Scratch space: a name for each thing that is put there."""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int32

from weft.engines.cpu.blocks import Structure
from weft.engines.cpu.shelf import LINE, make_aligned
from weft.engines.cpu.triangular import BLOCK


class Work(NamedTuple):
    """Scratch space of one thread; nothing is allocated inside the loop over time.

    Names are those of `filter` and `adjoint`. Things that are never needed at the same time share their memory: see `make_work`.
    """

    # Going forward: H P, H P H' (going back: S), H m; weights of rows and their residuals, whitened where need be; E, then c and a.
    read_covariance: Float[np.ndarray, " bottleneck*state"]
    bottleneck_covariance: Float[np.ndarray, " bottleneck*bottleneck"]
    bottleneck_mean: Float[np.ndarray, " bottleneck"]
    row_weights: Float[np.ndarray, " chunk*bottleneck"]
    row_residuals: Float[np.ndarray, " chunk"]
    whitened_rows: Float[np.ndarray, " bottleneck*bottleneck"]
    innovation: Float[np.ndarray, " bottleneck"]
    # Many rows as few: their Gram matrix, or a stack to rotate with what LAPACK wants for that.
    gram: Float[np.ndarray, " bottleneck*bottleneck"]
    stack: Float[np.ndarray, " (bottleneck+1)*(bottleneck+chunk)"]
    reflectors: Float[np.ndarray, " bottleneck+1"]
    lapack: Float[np.ndarray, " lapack"]
    info: Int32[np.ndarray, " 1"]
    # Z and C of a step that is not kept, Z H', and rows of weights times a covariance.
    gain: Float[np.ndarray, " bottleneck*state"]
    factor: Float[np.ndarray, " bottleneck*bottleneck"]
    gain_read: Float[np.ndarray, " chunk*bottleneck"]
    weights_covered: Float[np.ndarray, " chunk*bottleneck"]
    # Inverted diagonal blocks of C', rows of a block on their way, rows between the matrices of two components.
    inverse_blocks: Float[np.ndarray, " bottleneck*block"]
    panel: Float[np.ndarray, " block*state"]
    mixed: Float[np.ndarray, " latent*state"]
    # Going back: P_f H', Lam_f P_f H' and H P_f Lam_f P_f H'; X, (I + X Z') / 2, R, their product, and U.
    covariance_read: Float[np.ndarray, " state*bottleneck"]
    adjoint_read: Float[np.ndarray, " state*bottleneck"]
    explained: Float[np.ndarray, " bottleneck*bottleneck"]
    adjoint_gain: Float[np.ndarray, " bottleneck*state"]
    inner: Float[np.ndarray, " bottleneck*bottleneck"]
    root: Float[np.ndarray, " bottleneck*bottleneck"]
    inner_root: Float[np.ndarray, " bottleneck*bottleneck"]
    adjoint_change: Float[np.ndarray, " bottleneck*state"]
    # E S; R't; and, of one row with weights w, P_f H'w and H P_f H'w.
    rows_smoothed: Float[np.ndarray, " bottleneck*bottleneck"]
    pull: Float[np.ndarray, " bottleneck"]
    row_covariance: Float[np.ndarray, " state"]
    row_covariance_read: Float[np.ndarray, " bottleneck"]
    # A mean or lam after a step; a mean of the whole state given everything; a mean that stays zero.
    moved: Float[np.ndarray, " state"]
    smoothed_mean: Float[np.ndarray, " state"]
    zero_mean: Float[np.ndarray, " state"]


def make_work(structure: Structure) -> Work:
    size = int(structure.latent @ structure.pseudo)
    bottleneck = int(structure.pseudo.sum())
    chunk = max(bottleneck, 64)
    # Small, so that it stays in the cache: what is on one line lies in one place.
    lengths = {
        ("read_covariance", "covariance_read", "adjoint_change"): bottleneck * size,
        ("bottleneck_covariance", "inner_root"): bottleneck**2,
        ("bottleneck_mean",): bottleneck,
        ("row_weights",): chunk * bottleneck,
        ("row_residuals",): chunk,
        ("whitened_rows",): bottleneck**2,
        ("innovation",): bottleneck,
        ("gram", "rows_smoothed"): bottleneck**2,
        ("stack",): (bottleneck + chunk) * (bottleneck + 1),
        ("reflectors",): bottleneck + 1,
        ("lapack",): 32 * (bottleneck + 1),
        ("gain",): bottleneck * size,
        ("adjoint_gain", "adjoint_read"): bottleneck * size,
        ("gain_read", "weights_covered"): chunk * bottleneck,
        ("factor", "inner"): bottleneck**2,
        ("explained",): bottleneck**2,
        ("inverse_blocks",): bottleneck * BLOCK,
        ("root",): bottleneck**2,
        ("panel",): BLOCK * size,
        ("mixed",): int(structure.latent.max()) * size,
        ("moved", "row_covariance"): size,
        ("smoothed_mean", "zero_mean"): size,
        ("pull", "row_covariance_read"): bottleneck,
    }
    edges = itertools.accumulate((-(-length // LINE) * LINE for length in lengths.values()), initial=0)
    starts = dict(zip([*lengths, ()], edges, strict=True))
    memory = make_aligned(starts[()])
    memory[:] = 0.0
    arrays = {
        name: memory[starts[names] : starts[names] + length] for names, length in lengths.items() for name in names
    }
    return Work(**arrays, info=np.zeros(1, dtype=np.int32))
