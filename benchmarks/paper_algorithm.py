# SPDX-License-Identifier: MIT
"""The paper's algorithm, plainly: dense prediction of the whole state, and conditioning through the bottleneck z.

Algorithms 2 and 3 of Tebbutt, Solin & Turner (2021) with their slips mended: C_z = H C_x H', U = chol(C_z), and the state follows from
z by m_x + K(m_z|y - m_z), C_x + K(C_z|y - C_z)K' with K = C_x H' C_z^-1. The prior over the state is not stored in blocks and nothing
of its Kronecker structure is used, as printed.
"""

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, solve_triangular


def log_normaliser(chain, weights, rows) -> float:
    """The same number as an engine's, at the paper's cost."""

    def spread(matrices):
        return block_diag(
            *(np.kron(matrix, np.eye(part.num_pseudo)) for matrix, part in zip(matrices, chain.components, strict=True))
        )

    readout = spread([np.asarray(part.readout)[None, :] for part in chain.components])
    transitions, noises = (
        [
            spread([np.asarray(getattr(part, name))[step] for part in chain.components])
            for step in range(chain.components[0].transition.shape[0])
        ]
        for name in ("transition", "process_noise")
    )
    covariance = spread([np.asarray(part.initial) for part in chain.components])
    mean = np.zeros(len(covariance))
    offsets, places = rows.layout.offsets, np.asarray(rows.place)
    values, precisions, weights = np.asarray(rows.value), np.asarray(rows.precision), np.asarray(weights)
    total = 0.0
    for time, step in enumerate(np.asarray(chain.step_number)):
        mean = transitions[step] @ mean
        covariance = transitions[step] @ covariance @ transitions[step].T + noises[step]
        mine = slice(offsets[time], offsets[time + 1])
        if mine.start == mine.stop:
            continue
        cross = covariance @ readout.T
        of_z = readout @ cross
        factor = cho_factor(of_z + 1e-12 * np.eye(len(of_z)), lower=True)
        rows_here = np.sqrt(precisions[mine])[:, None] * weights[places[mine]]
        residual = np.sqrt(precisions[mine]) * values[mine] - rows_here @ (readout @ mean)
        # Pseudo-point posterior of z: with U the factor of C_z, B = rows U, D = I + B'B.
        whitened = rows_here @ np.tril(factor[0])
        inner = np.linalg.cholesky(np.eye(len(of_z)) + whitened.T @ whitened)
        shift = solve_triangular(inner, whitened.T @ residual, lower=True)
        root = solve_triangular(inner, np.tril(factor[0]).T, lower=True)
        total += -np.sum(np.log(np.diagonal(inner))) - (residual @ residual - shift @ shift) / 2
        gain = cho_solve(factor, cross.T).T
        mean = mean + gain @ (root.T @ shift)
        covariance = covariance + gain @ (root.T @ root - of_z) @ gain.T
        covariance = (covariance + covariance.T) / 2
    return total
