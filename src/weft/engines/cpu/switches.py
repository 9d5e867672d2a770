# SPDX-License-Identifier: MIT
"""Rows of many times by what changes between them, where each place has one precision and at most one row a time.

Where a time has more rows than the bottleneck is wide, most of a step is the rows' information B'S^-1 B, of nearly the same rows as at
the time before, and on the way back the smoothed covariance S as each of them sees it. Between such times only a few rows come or go.
So the information is that of the time before, with those that came and without those that left; and what a place's rows see is the
sum of S over the times it was there, told when it leaves (on the way back: arrives) as the difference of a running sum. N q^2 becomes
(switches) q^2 + N q. Every `RENEWED` times, and where many rows change at once, both sums begin anew, so that neither rounding nor a
precise place that has left stays in them for long.

Of the gradient in precisions this tells the sum over the rows of each place, at some of them: that is what "each place has one
precision" means. Those in values and weights are as ever.

The sweeps are those of `filter` and `adjoint`, from the same source, compiled once more with what differs in its place: where rows
are taken time by time nothing is different, not even the machine's code.
"""

import types
from typing import Any, NamedTuple, no_type_check

import numpy as np
from jaxtyping import Float, Int

from weft.engines.cpu.adjoint import accumulate_row, accumulate_rows, release, run_backward
from weft.engines.cpu.blas import add_gram, factor, multiply, plain, solve_any, transposed
from weft.engines.cpu.blocks import clear, copy
from weft.engines.cpu.filter import Asked, Sweep, absorb, run_forward
from weft.engines.cpu.inlined import inlined
from weft.engines.cpu.lanes import scale
from weft.engines.cpu.rows import GRAM_JITTER, ROUNDING, dot, substitute

RENEWED = 64
# Times whose smoothed means are told to rows together: weights are then read once for all of them. Not where places are far more than
# the rows of a time, since the means of all places are computed.
TOGETHER = 8
MOST_PLACES_A_ROW = 2


class Switches(NamedTuple):
    """The crowded times of a sweep (those with more rows than the bottleneck is wide), who switches at each, and the running sums.

    `before` and `after` number the next crowded times, -1 where there is none. Who came to time i since the crowded one before are
    the rows `switched[start[i] : middle[i]]` of time i, who left are `switched[middle[i] : stop[i]]` of that one before. At a time
    that `is_anew` (1) the sums begin anew. `gram_at`, `sum_at`: the time up to which the sums go; `largest`: on the diagonal of the
    Gram matrix since it was begun; `listed`: room for the rows of one time. `waiting` are times whose rows have not been told their
    smoothed means yet, `num_waiting` of them, with those means of z in `centres`, and room for f and its pull at every place.
    """

    row_start: Int[np.ndarray, " time"]
    row_stop: Int[np.ndarray, " time"]
    before: Int[np.ndarray, " time"]
    after: Int[np.ndarray, " time"]
    is_anew: Int[np.ndarray, " time"]
    start: Int[np.ndarray, " time"]
    middle: Int[np.ndarray, " time"]
    stop: Int[np.ndarray, " time"]
    switched: Int[np.ndarray, " switch"]
    listed: Int[np.ndarray, " row"]
    gram_at: Int[np.ndarray, " 1"]
    sum_at: Int[np.ndarray, " 1"]
    largest: Float[np.ndarray, " 1"]
    gram: Float[np.ndarray, " bottleneck*bottleneck"]
    smoothed_sum: Float[np.ndarray, " bottleneck*bottleneck"]
    waiting: Int[np.ndarray, " together"]
    num_waiting: Int[np.ndarray, " 1"]
    centres: Float[np.ndarray, " together*bottleneck"]
    smoothed_f: Float[np.ndarray, " place*together"]
    pulls: Float[np.ndarray, " place*together"]


class SwitchedRows(NamedTuple):
    """`Observed`, and who switches."""

    place: Int[np.ndarray, " row"]
    value: Float[np.ndarray, " row"]
    precision: Float[np.ndarray, " row"]
    weights: Float[np.ndarray, " place*bottleneck"]
    switches: Switches


class SwitchedSeries(NamedTuple):
    """`Series` of such rows."""

    sweep: Sweep
    observed: SwitchedRows
    asked: Asked


class Listed(NamedTuple):
    """Rows from `first` to `last` of a list of them."""

    observed: SwitchedRows
    rows: Int[np.ndarray, " listed"]
    first: int
    last: int


class Met(NamedTuple):
    """Of each place: the number of the last crowded time it was met at, from 1, and its precision."""

    number: Int[np.ndarray, " place"]
    precision: Float[np.ndarray, " place"]


def make_switches(
    row_start: Int[np.ndarray, " time"], row_stop: Int[np.ndarray, " time"], num_bottleneck: int, num_places: int
) -> Switches:
    """Room for the switches of a sweep with these rows at its times; `find_switches` fills it."""
    num_times, square = len(row_start), num_bottleneck * num_bottleneck
    row_counts = row_stop - row_start
    crowded = row_counts[row_counts > num_bottleneck]
    together = TOGETHER if num_places * len(crowded) <= MOST_PLACES_A_ROW * crowded.sum() else 0

    def of_times() -> Int[np.ndarray, " time"]:
        return np.full(num_times, -1, dtype=np.int64)

    return Switches(
        row_start=row_start,
        row_stop=row_stop,
        before=of_times(),
        after=of_times(),
        is_anew=of_times(),
        start=of_times(),
        middle=of_times(),
        stop=of_times(),
        switched=np.empty(int(crowded.sum()) // 2, dtype=np.int64),
        listed=np.empty(int(crowded.max(initial=0)), dtype=np.int64),
        gram_at=np.full(1, -1, dtype=np.int64),
        sum_at=np.full(1, -1, dtype=np.int64),
        largest=np.zeros(1),
        gram=np.zeros(square),
        smoothed_sum=np.zeros(square),
        waiting=np.zeros(together, dtype=np.int64),
        num_waiting=np.zeros(1, dtype=np.int64),
        centres=np.zeros(together * num_bottleneck),
        smoothed_f=np.zeros(num_places * together),
        pulls=np.zeros(num_places * together),
    )


@no_type_check
def find_switches(observed, num_bottleneck, met, switches):
    """Fill in who switches when; the rows that are to be summed then, or -1 where a place has two rows at a time, or two precisions."""
    row_start, row_stop = switches.row_start, switches.row_stop
    number, last, age, used, work = 0, -1, 0, 0, 0
    for i in range(len(row_start)):
        start, stop = row_start[i], row_stop[i]
        if stop - start <= num_bottleneck:
            continue
        number += 1
        age += 1
        # Half of the rows changed: to begin anew is less work, and this much room there is.
        most = used + (stop - start) // 2
        end = used
        for row in range(start, stop):
            place = observed.place[row]
            before = met.number[place]
            if before == number or (before > 0 and met.precision[place] != observed.precision[row]):
                return -1
            if before == 0 or before < number - 1:
                if end < most:
                    switches.switched[end] = row
                end += 1
            met.number[place] = number
            met.precision[place] = observed.precision[row]
        middle = end
        if last >= 0 and end <= most:
            for row in range(row_start[last], row_stop[last]):
                if met.number[observed.place[row]] != number:
                    if end < most:
                        switches.switched[end] = row
                    end += 1
        is_anew = last < 0 or end > most or age >= RENEWED
        if is_anew:
            middle = end = used
            age = 0
            work += stop - start
        work += end - used
        switches.is_anew[i] = 1 if is_anew else 0
        switches.before[i] = last
        switches.start[i], switches.middle[i], switches.stop[i] = used, middle, end
        if last >= 0:
            switches.after[last] = i
        used = end
        last = i
    return work


@inlined
@no_type_check
def time_of(batch, guess):
    """The time that a batch is of: most often the one that comes next."""
    starts, stops = batch.observed.switches.row_start, batch.observed.switches.row_stop
    if guess >= 0 and starts[guess] == batch.start and stops[guess] == batch.stop:
        return guess
    i = 0
    while starts[i] != batch.start or stops[i] != batch.stop:
        i += 1
    return i


@inlined
@no_type_check
def list_rows(batch, rows):
    """All rows of a batch, listed."""
    for k in range(batch.stop - batch.start):
        rows[k] = batch.start + k
    return Listed(batch.observed, rows, 0, batch.stop - batch.start)


@inlined
@no_type_check
def add_information(frame, listed, sign, work, gram):
    """Add `sign` times the information of listed rows to the lower triangle of `gram`."""
    observed, num_bottleneck, chunk = listed.observed, frame.num_bottleneck, len(work.row_residuals)
    for first in range(listed.first, listed.last, chunk):
        count = min(first + chunk, listed.last) - first
        for k in range(count):
            row = listed.rows[first + k]
            weights = observed.weights[observed.place[row] * num_bottleneck :]
            scale(num_bottleneck, np.sqrt(observed.precision[row]), weights, work.row_weights[k * num_bottleneck :])
        add_gram(frame.routines, num_bottleneck, count, sign, work.row_weights, 1.0, gram)


@inlined
@no_type_check
def compress_by_switches(frame, batch, work):
    """`compress_by_gram` with the Gram matrix of the crowded time before, where there is one, changed by those who came and left."""
    observed, num_bottleneck, switches = batch.observed, frame.num_bottleneck, batch.observed.switches
    gram, innovation = switches.gram, work.innovation
    i = time_of(batch, switches.after[switches.gram_at[0]] if switches.gram_at[0] >= 0 else -1)
    if switches.is_anew[i] == 1 or switches.gram_at[0] != switches.before[i]:
        clear(num_bottleneck * num_bottleneck, gram)
        switches.largest[0] = 0.0
        add_information(frame, list_rows(batch, switches.listed), 1.0, work, gram)
    else:
        came = Listed(observed, switches.switched, switches.start[i], switches.middle[i])
        left = Listed(observed, switches.switched, switches.middle[i], switches.stop[i])
        add_information(frame, came, 1.0, work, gram)
        add_information(frame, left, -1.0, work, gram)
    switches.gram_at[0] = i
    # What was as large as this has left its rounding errors, whoever has gone since.
    for j in range(num_bottleneck):
        switches.largest[0] = max(switches.largest[0], gram[j * num_bottleneck + j])
    clear(num_bottleneck, innovation)
    squares = 0.0
    for row in range(batch.start, batch.stop):
        place = observed.place[row] * num_bottleneck
        residual = observed.value[row] - dot(num_bottleneck, observed.weights, place, work.bottleneck_mean, 0)
        pull = observed.precision[row] * residual
        squares += pull * residual
        x = observed.weights[place : place + num_bottleneck]
        for j in range(num_bottleneck):
            innovation[j] += pull * x[j]
    return root_of_gram(frame, gram, switches.largest[0], squares, work)


# The end of `compress_by_gram`, which has it in its own lines: as a function of its own it slowed small series down by three per cent.
@inlined
@no_type_check
def root_of_gram(frame, gram, largest, squares, work):
    """What `compress_by_gram` returns, with E and c in place, from the lower triangle of a Gram matrix whose rounding is that of `largest`.

    B'S^-1 (y - B centre) is in work.innovation, and `squares` is the sum of the whitened residuals' squares.
    """
    num_bottleneck, upper, innovation = frame.num_bottleneck, work.whitened_rows, work.innovation
    error = GRAM_JITTER * largest
    for i in range(num_bottleneck):
        row = i * num_bottleneck
        clear(i, upper[row:])
        upper[row + i] = gram[row + i] + error
        for j in range(i + 1, num_bottleneck):
            upper[row + j] = gram[j * num_bottleneck + i]
    if not factor(frame.routines, num_bottleneck, upper, work.info):
        return False, 0.0, error, 0.0
    substitute(num_bottleneck, upper, innovation)
    remainder = squares - dot(num_bottleneck, innovation, 0, innovation, 0)
    return True, max(remainder, 0.0), error, ROUNDING * squares


@inlined
@no_type_check
def share_out(frame, listed, sign, smoothed_sum, work, gradient):
    """Tell listed rows `sign` times what their places see of a sum of smoothed covariances."""
    observed, num_bottleneck, chunk = listed.observed, frame.num_bottleneck, len(work.row_residuals)
    covariance = plain(smoothed_sum, num_bottleneck)
    for first in range(listed.first, listed.last, chunk):
        count = min(first + chunk, listed.last) - first
        for k in range(count):
            place = observed.place[listed.rows[first + k]] * num_bottleneck
            copy(num_bottleneck, observed.weights[place:], work.row_weights[k * num_bottleneck :])
        weights, covered = plain(work.row_weights, num_bottleneck), (work.weights_covered, num_bottleneck)
        multiply(frame.routines, (count, num_bottleneck, num_bottleneck), 1.0, weights, covariance, 0.0, covered)
        for k in range(count):
            row = listed.rows[first + k]
            place = observed.place[row] * num_bottleneck
            mine = work.weights_covered[k * num_bottleneck : (k + 1) * num_bottleneck]
            gradient.precision[row] -= sign * dot(num_bottleneck, mine, 0, work.row_weights, k * num_bottleneck) / 2
            push = sign * observed.precision[row]
            target = gradient.weights[place : place + num_bottleneck]
            for j in range(num_bottleneck):
                target[j] -= push * mine[j]


@inlined
@no_type_check
def tell_means(frame, observed, gradient):
    """What smoothed means mean for the rows of all times that wait for it."""
    switches, num_bottleneck = observed.switches, frame.num_bottleneck
    together = len(switches.waiting)
    num_places = len(observed.weights) // num_bottleneck
    clear(num_places * together, switches.pulls)
    shape, centres = (num_places, together, num_bottleneck), switches.centres
    weights, smoothed_f = plain(observed.weights, num_bottleneck), (switches.smoothed_f, together)
    multiply(frame.routines, shape, 1.0, weights, transposed(centres, num_bottleneck), 0.0, smoothed_f)
    for k in range(switches.num_waiting[0]):
        i = switches.waiting[k]
        for row in range(switches.row_start[i], switches.row_stop[i]):
            at = observed.place[row] * together + k
            residual = observed.value[row] - switches.smoothed_f[at]
            pull = observed.precision[row] * residual
            switches.pulls[at] = pull
            gradient.value[row] = -pull
            gradient.precision[row] -= residual * residual / 2
    shape, pulls = (num_places, num_bottleneck, together), plain(switches.pulls, together)
    multiply(frame.routines, shape, 1.0, pulls, plain(centres, num_bottleneck), 1.0, (gradient.weights, num_bottleneck))
    switches.num_waiting[0] = 0


@inlined
@no_type_check
def wait_for_means(frame, batch, i, centre, gradient):
    """Put a time among those whose rows are told their smoothed means together; they are where the sums begin anew, or no more fit."""
    switches = batch.observed.switches
    number = switches.num_waiting[0]
    switches.waiting[number] = i
    switches.num_waiting[0] = number + 1
    copy(frame.num_bottleneck, centre, switches.centres[number * frame.num_bottleneck :])
    clear(batch.stop - batch.start, gradient.precision[batch.start :])
    if number + 1 == len(switches.waiting) or switches.is_anew[i] == 1:
        tell_means(frame, batch.observed, gradient)


@inlined
@no_type_check
def share_by_switches(frame, batch, i, smoothed, work, gradient):
    """Add the smoothed covariance of a crowded time to the running sum, and tell those who switch there what they have seen of it."""
    observed, num_bottleneck, switches = batch.observed, frame.num_bottleneck, batch.observed.switches
    total = switches.smoothed_sum
    after = switches.after[i]
    if after < 0 or switches.sum_at[0] != after or switches.is_anew[after] == 1:
        clear(num_bottleneck * num_bottleneck, total)
    else:
        came = Listed(observed, switches.switched, switches.start[after], switches.middle[after])
        left = Listed(observed, switches.switched, switches.middle[after], switches.stop[after])
        share_out(frame, came, 1.0, total, work, gradient)
        share_out(frame, left, -1.0, total, work, gradient)
    for j in range(num_bottleneck * num_bottleneck):
        total[j] += smoothed[j]
    switches.sum_at[0] = i
    if switches.is_anew[i] == 1:
        share_out(frame, list_rows(batch, switches.listed), 1.0, total, work, gradient)


@inlined
@no_type_check
def accumulate_by_switches(frame, batch, adjoint, work, gradient):
    """`accumulate_rows` of `adjoint`, where crowded times are taken by switches."""
    num_bottleneck, switches = frame.num_bottleneck, batch.observed.switches
    if batch.stop - batch.start <= num_bottleneck:
        accumulate_rows(frame, batch, adjoint, work, gradient)
        return
    smoothed, centre = work.rows_smoothed, work.bottleneck_mean
    solve_any(frame.routines, num_bottleneck, num_bottleneck, work.whitened_rows, smoothed)
    i = time_of(batch, switches.before[switches.sum_at[0]] if switches.sum_at[0] >= 0 else -1)
    if len(switches.waiting) > 0:
        wait_for_means(frame, batch, i, centre, gradient)
    else:
        for row in range(batch.start, batch.stop):
            accumulate_row(batch.observed, row, centre, centre, 0.0, 0.0, gradient)
    share_by_switches(frame, batch, i, smoothed, work, gradient)


def with_others(function: Any, name: str, **others: Any) -> Any:
    """The same source, in which these names stand for other functions, by a name of its own: kernels are kept by their names.

    By the one or, where numba keeps them, by the qualified one: two processes that came at once each kept another kernel in one file.
    """
    made = types.FunctionType(function.__code__, {**function.__globals__, **others}, name)
    made.__qualname__ = name
    return made


_absorb = inlined(with_others(absorb.py_func, "absorb_by_switches", compress_by_gram=compress_by_switches))
_release = inlined(with_others(release.py_func, "release_by_switches", accumulate_rows=accumulate_by_switches))
run_forward_by_switches = with_others(run_forward, "run_forward_by_switches", absorb=_absorb)
run_backward_by_switches = with_others(run_backward, "run_backward_by_switches", release=_release)
