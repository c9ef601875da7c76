"""Check the arguments of the evaluate command, and read its small files, before torch is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coder_core.console.faults import Fault, stop_on_errors
from coder_core.console.plain_files import MISSING_RUN, check_folder
from coder_core.data.judgements import COCO_JUDGEMENTS, Probe, package_folder, read_probes
from coder_core.data.reviews import Reviews, read_reviews
from coder_core.evaluating.arguments import EvaluateArguments
from coder_core.evaluation.metrics import METRICS, parse_metric
from coder_core.files.atomic import check_new_files


@dataclass(frozen=True)
class GivenFiles:
    """Contents of the files that flags name."""

    probes: Sequence[Probe]
    reviews: Reviews | None


def read_given(parsed: EvaluateArguments) -> GivenFiles:
    """Check the arguments and read the files. InputError: names every fault."""
    stop_on_errors(_faults(parsed))
    if str(parsed.positives) in COCO_JUDGEMENTS:
        package_folder(f"--positives {parsed.positives}")
    probes = read_probes(parsed.probe)
    return GivenFiles(probes, None if parsed.reviews is None else read_reviews(parsed.reviews))


def _faults(parsed: EvaluateArguments) -> list[Fault]:
    faults = [] if parsed.runs else [MISSING_RUN]
    if parsed.ways and parsed.ways_repeats < 2:
        fix = "an interval needs two draws"
        faults.append(Fault("--ways-repeats", f"is {parsed.ways_repeats}", "2 or more", fix))
    if any(c < 2 for c in parsed.ways):
        faults.append(Fault("--ways", f"are {' '.join(map(str, parsed.ways))}", "2 or more options"))

    faults += _blend_faults(parsed)
    positives = None if str(parsed.positives) in COCO_JUDGEMENTS else parsed.positives
    for flag, file in (
        ("--positives", positives),
        ("--reviews", parsed.reviews),
        ("--qrels", parsed.qrels),
        ("--queries", parsed.queries),
        ("--groups", parsed.groups),
        ("--columns", parsed.columns),
    ):
        if file is not None and not file.is_file():
            faults.append(Fault(f"{flag} {file}", "is not a file"))

    for name in ("json", "csv", "similarities", "curve", "run_out"):
        if file := getattr(parsed, name):
            faults += check_new_files(f"--{name.replace('_', '-')}", file, overwrite=parsed.overwrite)

    faults += _graded_faults(parsed)
    faults += _log_faults(parsed)
    for folder in parsed.runs if not parsed.blend else ():
        faults += check_folder(str(folder), folder / "analysis")

    return faults


def _log_faults(parsed: EvaluateArguments) -> list[Fault]:
    """Return the faults of the flags of a search log."""
    if parsed.queries is None:
        return [Fault("--pool", "is given without --queries", fix="leave it out")] if parsed.pool else []
    faults = []
    if parsed.qrels is None or not parsed.pool:
        expected = "--queries FILE --qrels FILE --pool SPLIT"
        faults.append(Fault("--queries", "is given without --qrels or --pool", expected))
    if parsed.blend:
        faults.append(Fault("--queries", "is given with --blend", "one of them"))
    if parsed.pool == parsed.split:
        fix = "name another split to store it under, such as log"
        faults.append(Fault(f"--split {parsed.split}", "is the pool of pictures, not a search log", fix=fix))
    return faults


def _graded_faults(parsed: EvaluateArguments) -> list[Fault]:
    faults = []
    for name in parsed.qrels_metrics:
        try:
            parse_metric(name)
        except ValueError:
            faults.append(Fault(f"--qrels-metrics {name}", "is not a metric", METRICS))
    if parsed.run_out is not None and (len(parsed.runs) > 1 or parsed.blend):
        fix = "write a file for each run"
        faults.append(Fault("--run-out", "is given with several runs or blends", "one run", fix))
    if parsed.run_depth < 1:
        faults.append(Fault("--run-depth", f"is {parsed.run_depth}", "1 or more"))
    return faults


def _blend_faults(parsed: EvaluateArguments) -> list[Fault]:
    alphas = parsed.blend
    if not alphas:
        fix = "add --blend, whose R@sum it plots, or leave --curve out"
        without = Fault("--curve", "is given without --blend", "--blend 0.0 0.5 1.0", fix)
        return [] if parsed.curve is None else [without]

    faults = []
    if outside := [repr(alpha) for alpha in alphas if not 0 <= alpha <= 1]:
        fix = "0 is the zero-shot model, 1 the run"
        faults.append(Fault("--blend", f"contains {' '.join(outside)}", "numbers from 0 to 1", fix))
    if twice := dict.fromkeys(repr(alpha) for alpha in alphas if alphas.count(alpha) > 1):
        faults.append(Fault("--blend", f"contains {' '.join(twice)} more than once", fix="give every α once"))
    if len(parsed.runs) > 1:
        problem = f"is given with {len(parsed.runs)} runs"
        faults.append(Fault("--blend", problem, "one run", "evaluate them one by one"))

    others = {"--hub-correction": parsed.hub_correction, "--probe": parsed.probe}
    others |= {"--columns": parsed.columns, "--by": parsed.by}
    for flag, value in others.items():
        if value:
            faults.append(Fault(flag, "is given with --blend", "one of them"))

    return faults
