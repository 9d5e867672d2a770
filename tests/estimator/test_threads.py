# SPDX-License-Identifier: MIT
"""BLAS keeps to one thread while an estimator works, and has its own again afterwards."""

import threadpoolctl

import weft


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_while_an_estimator_works(table):
    seen: list[int] = []
    options = {
        "time": "time",
        "space": ("lon", "lat", "elevation"),
        "target": "value",
        "components": ("slow", "fast"),
        "habits": None,
    }
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        gp = weft.SpaceTimeGP(**options, max_iterations=2, progress=None)
        gp.fit(table, callback=lambda _: seen.extend(blas_threads()))
        gp.predict(table)
        assert blas_threads() == before
    assert set(seen) == {1}
    assert set(before) == {2}
