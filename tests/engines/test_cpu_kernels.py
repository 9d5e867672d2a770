# SPDX-License-Identifier: MIT
"""The cpu engine's small pieces against NumPy: products in panels and whole, blocks of inverses, memory between calls."""

import threading
import time

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_allclose

from weft.engines.cpu import blas, blocks, triangular
from weft.engines.cpu.blas import ROUTINES, Factor
from weft.engines.cpu.blocks import Frame, Structure
from weft.engines.cpu.by_numba import OPTIONS
from weft.engines.cpu.shelf import Shelf, aligned, make_aligned
from weft.engines.cpu.triangular import BLOCK


def for_python(function):
    """The same with the wrapper and the machine code of its own that kernels do without: called as it is, Python would crash."""
    return njit(**(OPTIONS | {"no_cpython_wrapper": False, "pipeline_class": None}))(function.py_func)


add_gram, multiply = map(for_python, (blas.add_gram, blas.multiply))
add_read_in, mirror, move_adjoint, move_covariance, move_means = map(
    for_python,
    (blocks.add_read_in, blocks.mirror, blocks.move_adjoint, blocks.move_covariance, blocks.move_means),
)
read_columns, read_rows, subtract_symmetric_read_in = map(
    for_python, (blocks.read_columns, blocks.read_rows, blocks.subtract_symmetric_read_in)
)
factor_and_invert, multiply_symmetric, read_inverse, solve, solve_transposed = map(
    for_python,
    (
        triangular.factor_and_invert,
        triangular.multiply_symmetric,
        triangular.read_inverse,
        triangular.solve,
        triangular.solve_transposed,
    ),
)

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("panels", [0, 1])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 3, 2), (37, 150, 31), (130, 110, 170)])
def test_products_are_the_same_in_panels_and_whole(panels, m, n, k):
    routines = ROUTINES._replace(panels=panels)
    for of_left, of_right in ((False, False), (True, False), (False, True)):
        a = RNG.normal(size=(k, m) if of_left else (m, k))
        b = RNG.normal(size=(n, k) if of_right else (k, n))
        c = RNG.normal(size=(m, n))
        expected = 1.5 * (a.T if of_left else a) @ (b.T if of_right else b) - 0.5 * c
        found = c.reshape(-1).copy()
        left = Factor(a.reshape(-1), a.shape[1], of_left)
        right = Factor(b.reshape(-1), b.shape[1], of_right)
        multiply(routines, (m, n, k), 1.5, left, right, -0.5, (found, n))
        assert_allclose(found.reshape(m, n), expected, rtol=0, atol=1e-12 * k)


@pytest.mark.parametrize("panels", [0, 1])
@pytest.mark.parametrize("size", [1, 9, 70])
def test_symmetric_products_fill_their_triangle(panels, size):
    routines = ROUTINES._replace(panels=panels)
    left = RNG.normal(size=(size, 40))
    weights = RNG.uniform(0.5, 2.0, size=40)
    expected = (left * weights) @ left.T
    for upper, keep in ((True, np.triu), (False, np.tril)):
        found = np.full(size * size, np.nan)
        multiply_symmetric(routines, size, 40, 1.0, (left * weights).reshape(-1), left.reshape(-1), upper, found)
        assert_allclose(keep(found.reshape(size, size)), keep(expected), rtol=1e-12, atol=1e-12)
    gram = np.zeros(40 * 40)
    add_gram(routines, 40, size, 2.0, left.reshape(-1), 0.0, gram)
    mirror(40, gram)
    assert_allclose(gram.reshape(40, 40), 2 * left.T @ left, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [1, 3, 8, 13, 30, 32, 33, 75])
def test_factors_and_solves_by_inverted_blocks(size):
    root = RNG.normal(size=(size, 2 * size))
    whole = root @ root.T + np.eye(size)
    vector, target = RNG.normal(size=size), RNG.normal(size=(size, 6))
    # What is not the upper triangle may hold anything.
    upper = np.where(np.triu(np.ones((size, size), dtype=bool)), whole, np.nan).reshape(-1)
    inverse, again, scratch = (np.full(BLOCK * max(size, BLOCK), np.nan) for _ in range(3))
    found = vector.copy()
    assert factor_and_invert(ROUTINES, size, upper, inverse, found, scratch)
    factor = np.linalg.cholesky(whole).T
    assert_allclose(np.triu(upper.reshape(size, size)), factor, rtol=1e-12, atol=1e-12)
    assert_allclose(factor.T @ found, vector, rtol=1e-12, atol=1e-12)
    read_inverse(size, upper, again)
    assert_allclose(again[: size * BLOCK], inverse[: size * BLOCK], rtol=1e-13)
    for function, matrix in ((solve, factor), (solve_transposed, factor.T)):
        found = target.reshape(-1).copy()
        function(ROUTINES, size, 6, upper, inverse, found, scratch)
        assert_allclose(matrix @ found.reshape(size, 6), target, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("broken", [-1.0, 0.0, np.nan])
@pytest.mark.parametrize("place", [0, 5, 39])
def test_a_matrix_that_is_not_positive_is_not_factored(broken, place):
    size = 40
    upper = 4.0 * np.eye(size)
    upper[place, place] = broken
    inverse, scratch = np.zeros(BLOCK * size), np.zeros(BLOCK * size)
    assert not factor_and_invert(ROUTINES, size, upper.reshape(-1), inverse, np.ones(size), scratch)


def test_components_of_every_size_move_as_their_matrices_say():
    latent, pseudo = np.array([1, 2, 3, 4, 2]), np.array([3, 2, 9, 2, 11])

    def starts(sizes):
        return np.concatenate([[0], np.cumsum(sizes)[:-1]])

    structure = Structure(latent, pseudo, starts(latent * pseudo), starts(pseudo), starts(latent**2), starts(latent))
    size = int(latent @ pseudo)
    readout = np.concatenate([np.eye(1, d)[0] if d != 3 else np.array([1.0, 0.0, 0.5]) for d in latent])
    frame = Frame(ROUTINES, structure, readout, size, int(pseudo.sum()))
    matrices = [RNG.normal(size=(d, d)) for d in latent]
    noises = [(lambda root: root @ root.T)(RNG.normal(size=(d, d))) for d in latent]
    transition = np.zeros((size, size))
    process_noise = np.zeros((size, size))
    for first, d, m, a, q in zip(structure.state, latent, pseudo, matrices, noises, strict=True):
        block = slice(first, first + d * m)
        transition[block, block] = np.kron(a, np.eye(m))
        process_noise[block, block] = np.kron(q, np.eye(m))
    covariance, adjoint = ((lambda root: root @ root.T)(RNG.normal(size=(size, size))) for _ in range(2))
    mixed = np.empty(int(latent.max()) * size)
    flat_matrices = np.concatenate([a.reshape(-1) for a in matrices])

    moved = covariance.reshape(-1).copy()
    move_covariance(frame, flat_matrices, np.concatenate([q.reshape(-1) for q in noises]), moved, mixed)
    moved = moved.reshape(size, size)
    assert_allclose(moved, transition @ covariance @ transition.T + process_noise, rtol=1e-11, atol=1e-10)
    assert np.array_equal(moved, moved.T)

    pulled, gradient = adjoint.reshape(-1).copy(), np.zeros(len(flat_matrices))
    transposed = np.concatenate([a.T.reshape(-1) for a in matrices])
    move_adjoint(frame, transposed, covariance.reshape(-1), pulled, mixed, gradient)
    pulled = pulled.reshape(size, size)
    assert_allclose(pulled, transition.T @ adjoint @ transition, rtol=1e-11, atol=1e-10)
    assert np.array_equal(pulled, pulled.T)
    product = adjoint @ transition @ covariance
    for first, d, m, matrix in zip(structure.state, latent, pseudo, structure.matrix, strict=True):
        block = product[first : first + d * m, first : first + d * m].reshape(d, m, d, m)
        expected = -np.einsum("dmem->de", block)
        assert_allclose(gradient[matrix : matrix + d * d].reshape(d, d), expected, rtol=1e-10, atol=1e-8)

    reader = np.zeros((int(pseudo.sum()), size))
    for p, (first, d, m) in enumerate(zip(structure.state, latent, pseudo, strict=True)):
        rows = slice(structure.bottleneck[p], structure.bottleneck[p] + m)
        reader[rows, first : first + d * m] = np.kron(readout[structure.vector[p] : structure.vector[p] + d], np.eye(m))
    source = RNG.normal(size=reader.shape)
    found = adjoint.reshape(-1).copy()
    subtract_symmetric_read_in(frame, source.reshape(-1), found)
    found = found.reshape(size, size)
    assert_allclose(found, adjoint - reader.T @ source - source.T @ reader, rtol=1e-12, atol=1e-12)
    assert np.array_equal(found, found.T)

    columns, pulled = RNG.normal(size=(size, 3)), RNG.normal(size=(len(reader), 3))
    moved, read, back = np.full(3 * size, np.nan), np.full(3 * len(reader), np.nan), columns.reshape(-1).copy()
    move_means(frame, flat_matrices, 3, columns.reshape(-1), moved)
    assert_allclose(moved.reshape(size, 3), transition @ columns, rtol=1e-12, atol=1e-12)
    read_rows(frame, 3, columns.reshape(-1), read)
    assert_allclose(read.reshape(-1, 3), reader @ columns, rtol=1e-12, atol=1e-12)
    read_columns(frame, 3, columns.T.copy().reshape(-1), read)
    assert_allclose(read.reshape(3, -1), columns.T @ reader.T, rtol=1e-12, atol=1e-12)
    add_read_in(frame, 3, pulled.reshape(-1), back)
    assert_allclose(back.reshape(size, 3), columns + reader.T @ pulled, rtol=1e-12, atol=1e-12)


def test_a_small_matrix_begins_with_a_cache_line():
    matrix = np.arange(35.0).reshape(5, 7)
    # Several, because one may lie well by chance.
    for copy in [aligned(matrix) for _ in range(9)]:
        assert copy.ctypes.data % 64 == 0
        np.testing.assert_array_equal(copy, np.arange(35.0))
        assert not np.shares_memory(copy, matrix)


def test_the_shelf_lends_what_was_given_back_and_forgets_what_is_too_much():
    shelf = Shelf(most_bytes=800, for_a_while=800)
    first = shelf.take(60)
    shelf.give_back(first)
    assert np.shares_memory(shelf.take(50), first)
    assert not np.shares_memory(shelf.take(50), first), "an array is lent to one at a time"
    shelf.give_back(make_aligned(200))
    assert len(shelf.take(150)) == 150, "too large to keep, so a new one"
    one, other = make_aligned(60), make_aligned(70)
    assert one.ctypes.data % 64 == other.ctypes.data % 64 == 0
    shelf.give_back(one)
    shelf.give_back(other)
    assert np.shares_memory(shelf.take(10), other), "the older of the two had to go"


def test_the_shelf_keeps_much_for_a_while_only():
    shelf = Shelf(most_bytes=800, for_a_while=8000, seconds=0.05)
    large = make_aligned(500)
    shelf.give_back(large)
    again = shelf.take(500)
    assert np.shares_memory(again, large)
    shelf.give_back(again)
    shelf.take(600)
    assert not np.shares_memory(shelf.take(500), large), "it went before a larger one was made"
    shelf.give_back(large)
    wait_until = time.monotonic() + 10
    while shelf._held() and time.monotonic() < wait_until:
        time.sleep(0.01)
    assert shelf._held() == 0


def test_one_thread_waits_for_all_that_was_given_back(monkeypatch):
    """Each array given back had begun a thread of its own, thousands in a fit."""
    begun, start = [], threading.Timer.start
    monkeypatch.setattr(threading.Timer, "start", lambda timer: begun.append(timer.interval) or start(timer))
    shelf = Shelf(most_bytes=800, for_a_while=80_000, seconds=0.2)
    first, until = time.monotonic(), time.monotonic() + 10
    for _ in range(200):
        shelf.give_back(make_aligned(500))
    last = time.monotonic()
    while shelf._held() and time.monotonic() < until:
        time.sleep(0.01)
    assert shelf._held() == 0
    assert time.monotonic() - last > 0.15, "so long after the last, not the first"
    assert len(begun) <= 2 + (last - first) / 0.1
