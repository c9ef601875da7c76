"""Check the content of the data that a run was evaluated on, and print what was found."""

import json
from dataclasses import asdict

from coder_core.api import open_run
from coder_core.api.data_quality import LEVELS, TRAIN, cross_fitted, splits_of_run
from coder_core.api.sides import BOTH
from coder_core.checking.arguments import CheckDataArguments
from coder_core.checking.tables import print_content, print_mismatches
from coder_core.console.faults import Fault
from coder_core.console.output import open_console, print_faults, watching
from coder_core.data.content.report import check_content
from coder_core.evaluation.nearest import BY_INDEX, too_many
from coder_core.model.device import choose_device


def check_stored_run(parsed: CheckDataArguments) -> None:
    """Check the splits of a run and, with a second run, find the captions that may belong to another image."""
    run = open_run(parsed.path)
    device = str(choose_device(parsed.device))
    pairs = None
    if parsed.other is not None:
        pairs = cross_fitted(run, open_run(parsed.other), device=device)
        half = [run.count(TRAIN, modality) // 2 for modality in BOTH]
        if device == "cpu" and too_many(*half):
            note = Fault("pairs of train", f"each half has {BY_INDEX}", severity="note")
            print_faults(open_console(stderr=True), [note])
    with watching(open_console(stderr=True), file=parsed.progress) as progress:
        report = check_content(splits_of_run(run), device=device, progress=progress)

    if parsed.json:
        document: dict[str, object] = {"content": asdict(report)}
        if pairs is not None:
            document["mismatched"] = pairs[pairs["level"] != LEVELS[-1]].to_dict("records")
        print(json.dumps(document, ensure_ascii=True, indent=2))
        return

    console = open_console()
    print_content(console, report)
    if pairs is not None:
        print_mismatches(console, pairs, run.captions("train"), run.image_names("train"))
