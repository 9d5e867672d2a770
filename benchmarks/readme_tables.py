# SPDX-License-Identifier: MIT
"""Tables of the README and of the benchmarks' page, from the results of the benchmarks: no number there is typed in.

    python benchmarks/readme_tables.py [--check]

Writes each table between its two marks, wherever a page has them; with `--check`, only says whether they are what they should be.
"""

import argparse
import pathlib
import re
import sys

from results import read_results, version_of

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "benchmarks.md",
    ROOT / "docs" / "guide" / "more-than-one-machine.md",
    ROOT / "docs" / "guide" / "big-data.md",
    ROOT / "docs" / "guide" / "counts.md",
    ROOT / "docs" / "guide" / "promises.md",
)
# Others' tables: what is asked for there, and the score that is shown.
PUBLISHED = {
    "croatia": ("daily temperature, Croatia, hidden stations", "RMSE", "°C"),
    "pm10_germany_2005": ("daily PM10, Germany, hidden stations", "RMSE", "µg/m³"),
    "aqi36": ("hourly PM2.5, Beijing, hidden hours", "MAE", "µg/m³"),
    "heaton": ("land surface temperature, one satellite image, hidden pixels", "CRPS", "°C"),
    "argo_north_pacific": ("ocean temperature, Argo floats, hidden profiles", "CRPS", "°C"),
    "us_2017, rows": ("daily temperature, United States, hidden rows", "CRPS", "°C"),
    "us_2017, stations": ("daily temperature, United States, hidden stations", "CRPS", "°C"),
}
# Scores of the demo: their names, and by what they are multiplied to be shown.
DEMO = {
    "mean_crps": "mean CRPS (°C)",
    "rmse": "root mean squared error (°C)",
    "standardised_rmse": "RMSE / deviation of the target",
    "standardised_mean_negative_log_density": "mean negative log density, standardised target",
    "coverage_90": "coverage of the 90 % interval",
}
RAIN = {
    "drizzle": "made: drizzle",
    "convective": "made: showers that drift",
    "monsoon": "made: dry weeks, wet weeks",
    "two_fields": "made: whether and how much by two fields",
    "own": "made: as the likelihood has it",
    "northwest": "daily rain around Seattle, 60 days",
    "beijing": "daily rain in Beijing, 120 days",
}
TARGETS = {
    "made": "made, fields alike",
    "independent": "made, independent",
    "argo": "ocean floats, three depths",
    "beijing": "Beijing, two pollutants, twelve days",
}
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


def beside_peer(results: dict) -> list[str]:
    """Weft and GPBoost on the same rows."""
    lines = [
        "| | rows, held out | weft: RMSE, NLD | time | GPBoost: RMSE, NLD | time |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        ours, peer = found["weft"], found.get("gpboost", {"failure": "not run"})
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


def published(results: dict) -> list[str]:
    """Weft with nothing chosen and the best that others published, a score a set."""
    lines = ["| | score | best published | weft | 90 % intervals hold |", "|---|---|---|---|---|"]
    for name, (title, score, unit) in PUBLISHED.items():
        if name not in results:
            lines.append(f"| {title} | {score} ({unit}) | | not measured yet | |")
            continue
        found = results[name]
        if "failure" in found:
            lines.append(f"| {title} | {score} ({unit}) | | {found['failure']} | |")
            continue
        (theirs, who), ours = found["published"][score], found["scores"][score]
        cells = [in_bold_if(theirs < ours, f"{theirs:.3g}") + f" ({who})", in_bold_if(ours <= theirs, f"{ours:.3g}")]
        lines.append(
            f"| {title} | {score} ({unit}) | {' | '.join(cells)} | {percent(found['scores']['coverage 90 %'])} |"
        )
    return lines


def demo(results: dict) -> list[str]:
    """The demo's held-out rows: weft and naive guesses."""
    models = {"weft": "weft"} | {name: name.replace("_", " ") for name in results["scores"] if name != "weft"}
    ordered = sorted(models, key=lambda name: results["scores"][name]["mean_crps"])
    lines = [f"| | {' | '.join(models[name] for name in ordered)} |", "|---" * (len(ordered) + 1) + "|"]
    for score, title in DEMO.items():
        values = {name: results["scores"][name][score] for name in ordered}
        if score.startswith("coverage"):
            cells = [percent(value) for value in values.values()]
        else:
            cells = [in_bold_if(value == min(values.values()), f"{value:.3g}") for value in values.values()]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    minutes = results["processor_seconds"] / 60
    return [*lines, "", f"It took {minutes:.1f} minutes of processor time, compiling included."]


# Parts of the work that workers share, as the page calls them.
SHARED = {
    "learning": "learning, one evaluation of an ordinary fit",
    "much_learning": "learning from twenty times as much",
    "regions": "fitted values of all regions",
}
MANY_ROWS, MANY_WORKERS = 1_000_000_000, 128


def workers(results: dict) -> list[str]:
    """What a second worker brought, and what more of them would, by a replay of the tasks."""
    lines = [
        "| | tasks | one worker | two | gain | overhead of tasks: one worker | two | imbalance of two | load meanwhile "
        "| efficiency, replayed: 8 workers | 32 | 128 |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, title in SHARED.items():
        if name not in results:
            continue
        found = results[name]
        replayed = [percent(each["efficiency"]) for each in found["replay"].values()]
        cells = [str(found["tasks"]), f"{found['seconds_1']:.2f} s", f"{found['seconds_2']:.2f} s"]
        cells += [f"{found['speedup']:.2f}"]
        cells += [f"{100 * found[part]:.1f} %" for part in ("overhead_1", "overhead_2", "imbalance_2")]
        cells += [f"{found['load']:.0f}", *replayed]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def time_blocks(results: dict) -> list[str]:
    """One long series in blocks, beside the engine that runs it from both ends."""
    if "times" not in results:
        return ["Not measured yet."]
    found = results["times"]
    return [
        f"200,000 times at 20 places, value and gradient: {found['time_blocks']['seconds']:.1f} s in two blocks on two workers, "
        f"{found['both_ends']['seconds']:.1f} s from both ends on two threads of one process ({found['ratio']:.2f} times as long, "
        f"{found['operations_ratio']:.2f} times the operations, the same numbers to {found['relative_difference']:.0e}; "
        f"load of the machine meanwhile: {found['load']:.0f})."
    ]


def large_table(results: dict) -> list[str]:
    """A made table, and what a larger one would take by its figures."""
    if "table" not in results or "answers" not in results:
        return ["Not measured yet."]
    found, asked = results["table"], results["answers"]
    rows, fitted, answered = found["rows"], found["after_save"], asked["after_predict"]
    count, larger = len(fitted["peak_gigabytes_of_workers"]), MANY_ROWS / found["rows"]
    fit = sum(found["after_fit"][f"processor_seconds_of_{who}_so_far"] for who in ("workers", "client"))
    predict = asked["one_file_of"] * answered["processor_seconds_of_workers_so_far"]
    peaks = [
        ", ".join(f"{peak:.2f}" for peak in each["peak_gigabytes_of_workers"])
        + f" and {each['peak_gigabytes_of_client']:.2f}"
        for each in (fitted, answered)
    ]
    part = "" if asked["one_file_of"] == 1 else f" (measured: {asked['rows_predicted']:,})"
    lost = found["workers_lost"] + asked["workers_lost"]
    stopped = (
        "No worker was lost."
        if lost == 0
        else f"Dask stopped {lost} worker{'' if lost == 1 else 's'} at 95 % of the limit, and the task was done again."
    )
    load, clock = [*found["load"], *asked["load"]], found["after_fit"]["seconds_on_the_clock_so_far"]
    predicting = asked["seconds_on_the_clock"]
    return [
        f"| | {rows:,} rows, {count} workers, measured | {MANY_ROWS:,} rows, {MANY_WORKERS} workers, on paper |",
        "|---|---|---|",
        f"| parquet files | {found['gigabytes_of_files']:.1f} GB | {found['gigabytes_of_files'] * larger:.0f} GB |",
        f"| file of the model, with all rows | {found['gigabytes_of_model']:.1f} GB | {found['gigabytes_of_model'] * larger:.0f} GB |",
        f"| fit, seconds of processors | {fit:.0f} | {in_time(fit * larger / MANY_WORKERS)} on the clock |",
        f"| predict every row{part}, seconds of processors | {predict:.0f} | {in_time(predict * larger / MANY_WORKERS)} on the clock |",
        f"| most memory of each worker, of {found['memory_of_a_worker']}, and of the client: fit | {peaks[0]} GB | the same |",
        f"| predict | {peaks[1]} GB | the same |",
        "",
        f"{found['places']:,} places, one component, files of half a million rows, answered one at a time. Rows seen are predicted "
        f"with an error of {asked['rmse']:.2f}, where the noise is 2, and {percent(asked['within_two_sd'])} of them lie within two "
        f"deviations. {stopped} On the clock the fit took {in_time(clock)} and predicting {in_time(predicting)}, on two processors with "
        f"a load of {min(load):.0f} to {max(load):.0f}.",
        "",
        "On paper means: seconds grow with the rows and shrink with the workers, and memory does neither, as long as places, files and the "
        "length of the series are as here. What a fit learns from does not grow with the table; counting it as if it did makes up for a "
        "network, which is in none of it.",
    ]


def in_time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def by_switches(results: dict) -> list[str]:
    """Rows by switches beside rows time by time."""
    lines = ["| pseudo-points | time by time | by switches | gain |", "|---|---|---|---|"]
    for name, found in results.get("switches", {}).items():
        lines.append(
            f"| {name} | {found['seconds_time_by_time']:.2f} s | {found['seconds_by_switches']:.2f} s | {found['ratio']:.2f} |"
        )
    return lines


def rain(results: list) -> list[str]:
    """Rain by its own likelihood and by a Gaussian of its root, averaged over what was drawn or cut of each set."""
    lines = [
        "| set | runs | zeros | log score: rain, root | CRPS | RMSE | RMSE lower in | 90 % intervals hold |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(line["set"] for line in results):
        own = [line for line in results if line["set"] == name]

        def mean(way: str, score: str, own: list = own) -> float:
            return sum(line[way][score] for line in own) / len(own)

        pairs = [
            " / ".join(
                in_bold(mean(way, score), min(mean("rain", score), mean("root", score))) for way in ("rain", "root")
            )
            for score in ("mean_negative_log_density", "mean_crps", "rmse")
        ]
        lower = sum(line["rain"]["rmse"] < line["root"]["rmse"] for line in own)
        held = " / ".join(percent(mean(way, "coverage_90")) for way in ("rain", "root"))
        zeros = percent(sum(line["zeros"] for line in own) / len(own))
        lines.append(f"| {RAIN[name]} | {len(own)} | {zeros} | {' | '.join(pairs)} | {lower} of {len(own)} | {held} |")
    return lines


def targets(results: list) -> list[str]:
    """CRPS of several targets at once by that of a model each."""
    lines = [
        "| set | target | CRPS by that of a model each, one target missing | whole rows missing | fields shared |",
        "|---|---|---|---|---|",
    ]
    found = {(line["set"], line["way"], line["target"]): line for line in results}
    for name, target in dict.fromkeys((line["set"], line["target"]) for line in results):
        apart, rows = (found[name, way, target] for way in ("apart", "rows"))
        lines.append(
            f"| {TARGETS[name]} | {target} | {apart['crps_ratio']:.2f} | {rows['crps_ratio']:.2f} | {apart['rank']} |"
        )
    return lines


def memory(results: dict) -> list[str]:
    """What a process that answers for long had grown by at the end."""
    calls, grown = results["calls"], results["megabytes_grown"]
    return [
        f"Over {calls:,} predictions the process grew by {grown['predictions']:.1f} MB, over {calls:,} values with gradients by "
        f"{grown['values_and_gradients']:.1f} MB."
    ]


def likelihoods(results: list) -> list[str]:
    """Fits under other likelihoods beside a Gaussian one of the same rows, quickest first."""
    lines = []
    for each in results:
        found = each["likelihoods"]
        ordered = sorted(found, key=lambda name: found[name]["fit"])
        cells = [
            f"{found[name]['fit']:.0f} s"
            + ("" if name == "gaussian" else f" ({found[name]['fit'] / found['gaussian']['fit']:.1f})")
            for name in ordered
        ]
        # Without an empty line between them two tables are one.
        lines += [""] if lines else []
        lines += [f"| | {' | '.join(f'`{name}`' for name in ordered)} |", "|---" * (len(ordered) + 1) + "|"]
        lines += [f"| {each['table']} | {' | '.join(cells)} |"]
    return lines


def in_bold_if(best: bool, text: str) -> str:
    return f"**{text}**" if best else text


def percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def measured_with(name: str) -> list[str]:
    """A line that says which version of weft a table is of; measuring all of them takes hours, so some are of an earlier one."""
    return [f"*Measured with weft {version_of(name)}.*"]


def with_table(text: str, mark: str, lines: list[str]) -> str:
    """The text with these lines between its two marks, if it has them."""
    found = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)", re.DOTALL)
    return found.sub(lambda match: match[1] + "\n".join(lines) + "\n" + match[2], text)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing; status 1 if a table is not up to date")
    check = options.parse_args().check
    scale = dict(read_results("scale"))
    tables = {
        "published": published(read_results("published")),
        "beside a peer": beside_peer(read_results("real")),
        "demo": demo(read_results("demo")),
        "workers": workers(scale),
        "time blocks": time_blocks(scale),
        "large table": large_table(scale),
        "switches": by_switches(scale),
        "rain": rain(read_results("rain")),
        "targets": targets(read_results("targets")),
        "likelihoods": likelihoods(read_results("likelihoods")),
        "memory": memory(dict(read_results("memory"))),
        **{
            f"version of {name}": measured_with(name)
            for name in (
                "published",
                "real",
                "wide",
                "whole_sets",
                "phases",
                "demo",
                "scale",
                "rain",
                "targets",
                "likelihoods",
            )
        },
    }
    stale = []
    for page in PAGES:
        before = after = page.read_text(encoding="utf-8")
        for mark, lines in tables.items():
            after = with_table(after, mark, lines)
        if after != before:
            stale.append(page.name)
            if not check:
                page.write_text(after, encoding="utf-8")
    if check and stale:
        print(f"tables of {' and '.join(stale)} are not those of benchmarks/results: run benchmarks/readme_tables.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
