# SPDX-License-Identifier: MIT
"""The README's tables of real data, from the results of `real.py` and `whole_sets.py`: no number there is typed in.

    python benchmarks/readme_tables.py [--check]

Writes each table between its two marks in the README; with `--check`, only says whether they are what they should be.
"""

import argparse
import pathlib
import re
import sys

from results import BASELINES, read_results

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
TITLES = {
    "ghcn_pnw, paper's box": "temperature, the paper's box, 20 years daily",
    "ghcn_pnw, HCN": "temperature, Pacific North-West, 18 years daily",
    "ghcn_conus": "temperature, lower 48 states, 18 years daily",
    "beijing_air": "PM2.5, Beijing, 4 years hourly",
    "germany_pm10": "PM10, Germany, 12 years daily",
    "italy_covid": "new COVID-19 cases, Italian provinces, 3 years daily",
    "price_paid, London": "flats sold, London, 10 years (log price)",
    "price_paid, SW19": "flats sold, SW19, 10 years (log price)",
    "price_paid, January 2016": "flats sold, England and Wales, a month (log price)",
    "price_paid": "flats sold, London",
}
HELD_OUT = {"random": "rows", "station": "stations"}


def beside_peer(results: dict) -> list[str]:
    """Weft and GPBoost on the same rows."""
    lines = [
        "| | rows, held out | weft: RMSE, NLD | time | GPBoost: RMSE, NLD | time |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        ours, peer = found["weft"], found["gpboost"]
        pairs = [pair_of(ours["scores"])]
        cells = [pairs[0], seconds_of(ours)]
        if "failure" in peer:
            cells += [peer["failure"], ""]
        else:
            pairs.append(pair_of(peer))
            cells += [pairs[1], seconds_of(peer)]
        best = [min(pair[position] for pair in pairs) for position in (0, 1)]
        cells = [
            cell if isinstance(cell, str) else ", ".join(in_bold(*each) for each in zip(cell, best, strict=True))
            for cell in cells
        ]
        title = TITLES[name].partition(",")[0] + "," + TITLES[name].partition(",")[2].partition(",")[0]
        first, last = found["days"]
        rows = f"{found['num_train'] + found['num_test']:,}, {found['num_test']:,}"
        lines.append(f"| {title}, {first[:7]} to {last[:7]} | {rows} | {' | '.join(cells)} |")
    return lines


def pair_of(scores: dict) -> tuple[float, float]:
    """Rounded as they are shown, so that what looks equal counts as equal."""
    return tuple(round(scores[name], 3) for name in ("standardised_rmse", "standardised_mean_negative_log_density"))  # type: ignore[return-value]


def in_bold(value: float, best: float) -> str:
    return f"**{value:.3f}**" if value == best else f"{value:.3f}"


def seconds_of(found: dict) -> str:
    return f"{found['processor_seconds']:.0f} s"


def whole_files(results: dict) -> list[str]:
    """Weft and the best naive guess on whole files."""
    lines = [
        "| | rows | held out | weft | best naive | 90 % coverage | time, memory |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        for number, (by, models) in enumerate(found["scores"].items()):
            ours = models["weft"]["mean_crps"]
            naive = min(models[baseline]["mean_crps"] for baseline in BASELINES)
            took = f"{found['processor_seconds'] / 60:.1f} min, {found['memory_gigabytes']:.1f} GB"
            title, rows = (TITLES[name], f"{found['rows']:,}") if number == 0 else ("", "")
            cells = [f"**{value:.3g}**" if value == min(ours, naive) else f"{value:.3g}" for value in (ours, naive)]
            coverage = f"{models['weft']['coverage_90']:.1%}".replace("%", " %")
            last = took if number == 0 else ""
            lines.append(f"| {title} | {rows} | {HELD_OUT[by]} | {cells[0]} | {cells[1]} | {coverage} | {last} |")
    return lines


def with_table(text: str, mark: str, lines: list[str]) -> str:
    """The text with these lines between its two marks."""
    found = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    if not found.search(text):
        raise SystemExit(f"the README has no marks for {mark!r}")
    return found.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing; status 1 if a table is not up to date")
    check = options.parse_args().check
    before = README.read_text(encoding="utf-8")
    after = with_table(before, "beside a peer", beside_peer(read_results("real")))
    after = with_table(after, "whole files", whole_files(read_results("whole_sets")))
    if not check:
        README.write_text(after, encoding="utf-8")
    elif after != before:
        print("the README's tables are not those of benchmarks/results: run benchmarks/readme_tables.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
