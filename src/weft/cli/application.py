# SPDX-License-Identifier: MIT
"""The application: its verbs, and what becomes of errors.

Nothing heavy is imported until a verb runs, so that `weft --help` answers at once.
"""

import contextlib
import gc
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from cyclopts import App, CycloptsError, Group, Parameter

import weft
from weft.cli.aggregate import aggregate
from weft.cli.audit import audit
from weft.cli.check import check
from weft.cli.compare import compare
from weft.cli.compilations import keep_compilations
from weft.cli.demo import demo
from weft.cli.doctor import doctor
from weft.cli.evaluate import evaluate
from weft.cli.fill import fill
from weft.cli.fit import fit
from weft.cli.forecast import forecast
from weft.cli.grid import grid
from weft.cli.info import info
from weft.cli.init import init
from weft.cli.options import INTERRUPTED
from weft.cli.plot import plot
from weft.cli.point import point
from weft.cli.predict import predict
from weft.cli.report import report
from weft.cli.reproduce import reproduce
from weft.cli.run import run
from weft.cli.sample import sample
from weft.cli.score import score
from weft.cli.suggest import suggest
from weft.cli.update import update
from weft.sentences import is_for_people, sentence_of

__all__ = ["INTERRUPTED", "SUCCESS", "UNEXPECTED", "WRONG_INPUT", "app", "main"]

SUCCESS, UNEXPECTED, WRONG_INPUT = 0, 1, 2

app = App(
    name="weft",
    help="Gaussian processes for tables of measurements taken at places through time.",
    help_epilogue=(
        "Files are text (csv, tsv, txt), parquet, NetCDF or Zarr by their names; Excel, GeoPackage, GeoJSON and GeoTIFF are read too. "
        "Exit status: 0 success, 1 a fault of weft, 2 wrong input, 130 interrupted."
    ),
    help_format="plaintext",
    version=lambda: weft.__version__,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)

# So many are made before garbage is looked for among them.
_NEW_OBJECTS = 50_000

_VERBS = {
    "Start here": (demo, init, check, run),
    "Step by step": (fit, predict, sample, update, info, report),
    "Questions": (fill, forecast, grid, aggregate, point, plot, audit, suggest),
    "Judging": (score, evaluate, compare),
    "Other": (doctor, reproduce),
}
for place, (title, verbs) in enumerate(_VERBS.items()):
    group = Group(title, sort_key=place)
    for number, verb in enumerate(verbs):
        app.command(verb, group=group, sort_key=number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give its exit status; standard error gets one sentence if it is not 0."""
    keep_compilations()
    if arguments is None:
        # A process of ours makes much that stays to its end; looking through it as often as Python does took a second of `weft demo`.
        gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    try:
        with _remarks_shown():
            status = app(
                sys.argv[1:] if arguments is None else list(arguments),
                exit_on_error=False,
                print_error=False,
                result_action="return_value",
            )
            _flush()
        return status if isinstance(status, int) else SUCCESS
    except CycloptsError as error:
        return _refuse(" ".join(str(error).split()))
    except KeyboardInterrupt:
        print("weft: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough (`weft info model.weft | head`).
        _close_output()
        return SUCCESS
    except MemoryError as error:
        return _refuse(sentence_of(error) or "there is not enough memory; use fewer rows or fewer pseudo-points")
    except Exception as error:
        if is_for_people(error):
            with contextlib.suppress(OSError):
                _flush()
            return _refuse(sentence_of(error))
        traceback.print_exc()
        print("weft: the above is a fault of weft, not of your input; please report it", file=sys.stderr)
        return UNEXPECTED


def _flush() -> None:
    """Have all that was printed written. There may be no standard output (`>&-`), or one that takes no more."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _close_output()
        raise OSError(f"cannot write to standard output ({error.strerror}); files were written all the same") from error


def _close_output() -> None:
    """Let what is still to be printed go nowhere, so that the interpreter does not fail at it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _remarks_shown() -> Iterator[None]:
    """What the library logs and warns of, as lines on standard error."""
    logger, handler = logging.getLogger("weft"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("weft: note: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _refuse(sentence: str) -> int:
    print(f"weft: {sentence}", file=sys.stderr)
    return WRONG_INPUT


def _show_warning(message: Warning | str, *rest: Any, **options: Any) -> None:
    print(f"weft: note: {' '.join(str(message).split())}", file=sys.stderr)
