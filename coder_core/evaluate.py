"""python -m coder_core.evaluate RUN [RUN …] --split test: retrieval metrics, and the folder that the app reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from coder_core.config.split_name import SplitName
from coder_core.console import tables
from coder_core.console.faults import Fault, InputError, stop_on_errors
from coder_core.console.output import open_console, print_faults, say
from coder_core.console.plain_files import MISSING_RUN, check_folder
from coder_core.console.progress import watching
from coder_core.console.runner import command
from coder_core.data.judgements import COCO_JUDGEMENTS, Probe, package_folder, read_probes
from coder_core.files.atomic import check_new_files

if TYPE_CHECKING:
    from coder_core.data.reviews import Reviews
    from coder_core.runs.analysis.rows import RunRow

FIVE_FOLD_IMAGES = 5000


@dataclass(frozen=True)
class EvaluateArguments:
    """Evaluate runs: R@1/5/10, MRR, nDCG@10, MedR, MeanR both ways, R@sum, MD, ties; write each run's analysis/SPLIT for the app.

    The rank of an image is that of its best caption; candidates with exactly the same score count above the right
    answer. With several runs their scores are averaged as well (ensemble). For 5,000 images or more, the mean over five
    folds of 1,000 is printed too. MD is the mean score of matching pairs minus that of all others.
    """

    runs: tyro.conf.Positional[tuple[Path, ...]]  # Run folders, for example checkpoints/coder-demo.
    split: SplitName = "dev"  # Split to evaluate: dev, test, testall …
    data: str = ""
    """Data folder; empty: the one the run was trained on. Embeddings alone keep their own data."""
    pictures: str = ""  # Folder with the picture files; empty: the run's.
    ties: Literal["pessimistic", "optimistic"] = "pessimistic"
    """Treatment of equal scores in the ensemble and five-fold rows; the runs' own rows are always pessimistic."""
    device: str = "auto"  # One of "auto", "cpu", "cuda".
    ways: tuple[int, ...] = ()
    """Also c-way accuracy: how often the match scores above c − 1 candidates of other images, for example 5 20 100."""
    ways_repeats: int = 10  # Random draws of candidates for a mean and its 95% interval.
    ways_seed: int = 0  # Seed of those draws; every run gets the same candidates.
    blend: tuple[float, ...] = ()
    """Blend a run whose towers were tuned by lora or in full: one row for every α, 0 to 1, with the towers' weights at
    α · tuned + (1 − α) · zero-shot (WiSE-FT, Wortsman et al. 2022): 0.0 0.25 0.5 0.75 1.0. Projection, pooling, scale
    and concept branch have no zero-shot weights and stay as trained. Choose α on dev, report it on test. Nothing is
    written into the run's folder: its analysis stays that of α = 1."""
    curve: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Plot R@sum against α of --blend, as HTML."""
    groups: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Groups of images that show the same thing, such as a product: lines of y.jpg, a tab and an id. One more row for
    every run, "by group": every caption of a group is right for all of its images. Groups that are stored with the data
    need no file. Intervals then draw whole groups."""
    equal_texts: Literal["match", "label"] | None = None
    """Captions with the same text, apart from spaces at the ends, at different images: "match" adds a row in which they
    are right for all of these images, "label" only counts the labels. Without the flag both are printed, with a warning,
    if more than 1% of the captions are affected."""
    positives: Annotated[Path | None, tyro.conf.arg(metavar="FILE|eccv|cxc")] = None
    """Captions that fit other images too: mAP@R, R-Precision, extended R@K, MRR and nDCG@10. Lines of
    x.jpg#2, a tab and y.jpg (the third caption of x.jpg fits y.jpg; a caption id of the data set works as well), or
    Flickr8k's expert or crowd annotations (with the experts': also whether diversity is low where grades disagree). For
    COCO's test images: eccv (ECCV Caption, Chun et al. 2022) or cxc (CxC, Parekh et al. 2021), from eccv-caption."""
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """People's verdicts on pairs (docs/data.md, section 12): R@K, MRR and nDCG@10 without the labels judged wrong and
    with the pairs that also match, beside the same metrics with the original labels."""
    qrels: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Graded judgements as TREC (query 0 document grade) or BEIR (query-id, corpus-id, score and a header): metrics as
    trec_eval defines them, with 95% intervals. Ids are names of images, y.jpg, and of captions, x.jpg#2. Ties are
    pessimistic: among equal scores relevant documents come last (trec_eval: the later id first). Overview and
    the report show the result."""
    qrels_metrics: tuple[str, ...] = ("ndcg@10", "mrr@10", "map", "recall@100", "success@10")
    """Metrics of --qrels: ndcg@k, mrr@k, map, recall@k, success@k."""
    run_out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the best candidates of every caption and image of one run as a TREC run: query Q0 document rank score tag."""
    run_depth: int = 100  # Candidates per query in --run-out.
    hub_correction: bool = False
    """One more row for every run: scores minus α times the candidate's mean score with its k nearest queries of the
    train split (Chowdhury et al. 2024). k and α are chosen on dev for each direction. For a run made by
    `coder_core.embed`, embed train and dev too. Retrieval's hubs view shows which failures it fixes."""
    probe: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE …")] = ()
    """Also how often a picture's caption scores above a wrong version of it: files in SugarCrepe's layout, for example
    add_att.json swap_obj.json. Their pictures are images of the split or, for a run that reads pictures, files in
    --pictures."""
    similarities: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write how often each score occurs among matching and among other pairs, as CSV: one row per run and bin."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # Write the table as JSON.
    csv: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None  # Write the table as CSV.
    overwrite: bool = False  # Replace files that exist.


@command
def main(arguments: list[str]) -> int:
    """Evaluate the runs, write their analyses, print the tables."""
    parsed = tyro.cli(EvaluateArguments, prog="python -m coder_core.evaluate", args=arguments)
    stop_on_errors(_faults(parsed))

    if str(parsed.positives) in COCO_JUDGEMENTS:
        package_folder(f"--positives {parsed.positives}")
    probes = read_probes(parsed.probe)

    from coder_core.data.reviews import read_reviews

    reviews = None if parsed.reviews is None else read_reviews(parsed.reviews)

    from coder_core.model.products import use_onednn
    from coder_core.runs.analysis.blend import best_row
    from coder_core.runs.analysis.rows import CHOOSING, widened_rows

    use_onednn()
    console = open_console()
    rows = _rows(parsed, console)
    if parsed.groups is not None:
        print_faults(console, _read_groups(rows, parsed.groups))
    print_faults(console, _add_metrics(rows, parsed, reviews))
    if probes:
        for row, folder in zip(rows, parsed.runs, strict=False):
            print_faults(console, _add_probe_accuracy(row, folder, parsed, probes, console))
    wide, warnings = widened_rows(rows, parsed.equal_texts)
    print_faults(console, warnings)
    measured = [*rows, *wide]
    if rows[0].split.n_images >= FIVE_FOLD_IMAGES:
        measured += [row.five_folds(parsed.ties) for row in rows]
    _write_files(rows, measured, parsed, reviews)
    best = best_row(rows) if len(parsed.blend) > 1 and parsed.split in CHOOSING else None
    _print_tables(measured, best.alpha if best else None, parsed, console)
    return 0


def _rows(parsed: EvaluateArguments, console: Console) -> list[RunRow]:
    """Compute a row for every run or blend, one for their ensemble, and one for every run corrected for hubs."""
    from coder_core.model.device import choose_device
    from coder_core.model.splits import data_folder
    from coder_core.runs.analysis import rows as analysed
    from coder_core.runs.analysis.blend import blend_rows, check_tuned
    from coder_core.runs.analysis.import_embeddings import is_imported, rank_imported
    from coder_core.runs.load import load_model

    if parsed.data and all(map(is_imported, parsed.runs)):
        problem = "is given, but these runs have only embeddings, of the captions they were made from"
        fix = "leave it out; embed other data as another split (coder_core.embed)"
        raise InputError.at(f"--data {parsed.data}", problem, "a trained run", fix)
    rows = list["RunRow"]()
    corrected = list["RunRow"]()
    for folder in parsed.runs:
        loaded = None
        data = None
        pictures = None
        if parsed.blend:
            check_tuned(folder)
        if parsed.blend or not is_imported(folder):
            loaded = load_model(folder, device=str(choose_device(parsed.device)))
            data = data_folder(parsed.data or loaded.config.data.data)
            pictures = parsed.pictures or loaded.config.data.pictures or None
        if loaded is None or data is None:
            with watching(console, f"{folder.name}: ranks") as watch:
                rank_imported(folder, parsed.split, watch)
            rows.append(analysed.embedded_row(folder, parsed.split))
        elif parsed.blend:
            split = analysed.read_data(loaded, data, parsed.split, pictures, console)
            rows += blend_rows(folder, loaded, split, parsed.blend, console)
        else:
            rows.append(analysed.evaluate_run(folder, loaded, data, parsed.split, pictures, console))
        if parsed.hub_correction:
            source = (folder, loaded, data, pictures, parsed.split)
            row, note = analysed.hub_corrected_row(rows[-1], *source, console)
            corrected.append(row)
            print_faults(console, [note])
    if len(rows) > 1 and not parsed.blend:
        rows.append(analysed.ensemble(rows, parsed.ties))
    return [*rows, *corrected]


def _read_groups(rows: list[RunRow], file: Path) -> list[Fault]:
    """Give all rows the groups of a file, and return a note on its contents."""
    from coder_core.data.groups import read_groups

    for row in rows:
        row.split.image_groups, note = read_groups(file, row.split.image_names)
    return [note]


def _add_metrics(rows: list[RunRow], parsed: EvaluateArguments, reviews: Reviews | None) -> list[Fault]:
    """Add further metrics requested by flags to every row; return warnings and notes."""
    from coder_core.runs.analysis.rows import add_c_way_accuracy, add_extended_metrics, add_reviewed_metrics

    faults: list[Fault] = []
    if parsed.ways:
        faults += add_c_way_accuracy(
            rows, parsed.ways, repeats=parsed.ways_repeats, seed=parsed.ways_seed, ties=parsed.ties
        )
    if parsed.positives is not None:
        faults += add_extended_metrics(rows, parsed.positives)
    if reviews is not None and parsed.reviews is not None:
        faults += add_reviewed_metrics(rows, reviews, parsed.reviews)
    if parsed.qrels is not None:
        from coder_core.runs.analysis.graded import add_graded_metrics

        faults += add_graded_metrics(rows, parsed.qrels, parsed.qrels_metrics, parsed.split)
    return faults


def _write_files(
    rows: list[RunRow], measured: list[RunRow], parsed: EvaluateArguments, reviews: Reviews | None
) -> None:
    """Write the files named by flags; `measured` are the rows and their means over five folds."""
    from coder_core.runs.analysis.blend import write_curve
    from coder_core.runs.analysis.rows import write_csv, write_json, write_similarities

    table = {row.name: row.metrics for row in measured}
    if parsed.similarities is not None:
        write_similarities(rows, parsed.similarities, parsed.split)
    if parsed.json is not None:
        facts = {} if reviews is None else {"reviews_sha256": reviews.fingerprint()}
        write_json(table, parsed.json, parsed.split, parsed.ties, **facts)
    if parsed.run_out is not None:
        from coder_core.runs.analysis.graded import write_trec_run

        write_trec_run(rows[0], parsed.run_out, parsed.run_depth)
    if parsed.csv is not None:
        write_csv(table, parsed.csv, parsed.split)
    if parsed.curve is not None:
        write_curve(rows, parsed.curve, f"{parsed.runs[0].resolve().name}: R@sum on {parsed.split}")


def _print_tables(
    rows: Sequence[RunRow], best: float | None, parsed: EvaluateArguments, console: Console
) -> None:
    """Print the recalls and a table for each further metric requested; `best` is the α to mark."""
    names = display_names(rows, best)
    table = {name: row.metrics for name, row in zip(names, rows, strict=True)}
    ties = (
        "pessimistic ties"
        if parsed.ties == "pessimistic"
        else "ties: pessimistic, ensembles and folds optimistic"
    )
    console.print(tables.metrics_table(table, f"{parsed.split} · {ties}"))
    whole = {name: row.metrics for name, row in zip(names, rows, strict=True) if not (row.folds or row.by)}
    if parsed.ways:
        title = f"c-way accuracy · mean of {parsed.ways_repeats} draws ± 95% · seed {parsed.ways_seed}"
        console.print(tables.choices_table(whole, parsed.ways, title))
    if parsed.positives is not None:
        source = COCO_JUDGEMENTS.get(str(parsed.positives), f"labels and {parsed.positives.name}")
        title = f"{source} · tied results count against a query"
        console.print(tables.extended_table(whole, title))
    if parsed.qrels is not None:
        from coder_core.evaluation.metrics import metric_label

        title = f"{parsed.qrels.name} · % and 95% intervals · relevant documents last among equal scores"
        labels = [metric_label(name) for name in parsed.qrels_metrics]
        console.print(tables.graded_table(whole, labels, title))
    if parsed.probe:
        console.print(tables.probe_table(whole, "probes · caption above wrong caption, %"))
    if parsed.reviews is not None:
        title = f"by the labels, and by the labels as corrected by {parsed.reviews.name}"
        console.print(tables.reviewed_table(whole, title))
    if parsed.blend:
        say(console, "Choose α on dev, and report the chosen one on test.")


def _add_probe_accuracy(
    row: RunRow, folder: Path, parsed: EvaluateArguments, probes: Sequence[Probe], console: Console
) -> list[Fault]:
    """Add the accuracy of every kind of probe to the metrics of a run; return notes on probes left out."""
    from coder_core.api import open_run
    from coder_core.api.retrieval.judged import accuracies, probe_run

    with watching(console, f"{folder.name}: pictures of probes") as watch:
        table = probe_run(open_run(folder), parsed.split, probes, pictures=parsed.pictures, progress=watch)
    row.metrics |= {f"{tables.PROBE}{kind}": accuracy for kind, accuracy in accuracies(table).items()}
    missing = len(probes) - len(table)
    if not missing:
        return []
    fact = f"{missing:,} of {len(probes):,} probes are left out: their pictures are not in the split or cannot be read"
    return [Fault(str(folder), fact, severity="note")]


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
        ("--groups", parsed.groups),
    ):
        if file is not None and not file.is_file():
            faults.append(Fault(f"{flag} {file}", "is not a file"))
    for name in ("json", "csv", "similarities", "curve", "run_out"):
        if file := getattr(parsed, name):
            faults += check_new_files(f"--{name.replace('_', '-')}", file, overwrite=parsed.overwrite)
    faults += _graded_faults(parsed)
    for folder in parsed.runs if not parsed.blend else ():
        faults += check_folder(str(folder), folder / "analysis")
    return faults


def _graded_faults(parsed: EvaluateArguments) -> list[Fault]:
    from coder_core.evaluation.metrics import METRICS, parse_metric

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
    for flag, value in (("--hub-correction", parsed.hub_correction), ("--probe", parsed.probe)):
        if value:
            faults.append(Fault(flag, "is given with --blend", "one of them"))
    return faults


def display_names(rows: Sequence[RunRow], best: float | None = None) -> list[str]:
    """Name rows for a terminal: a run by its name, or its path if two share a name; mark the blend with α `best`."""
    folders = {row.run for row in rows if row.run is not None}
    unique = len({folder.resolve().name for folder in folders}) == len(folders)
    names = [row.run.resolve().name if row.run and unique else str(row.run) for row in rows]
    marked = [best is not None and row.alpha == best and not row.folds for row in rows]
    return [row.named(name, best=mark) for row, name, mark in zip(rows, names, marked, strict=True)]


if __name__ == "__main__":
    raise SystemExit(main())
