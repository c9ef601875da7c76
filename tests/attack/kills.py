"""Kill a training process, half of the time during a save, and resume it: nothing may be lost.

    python -m tests.attack kills --cases 200 --seed 0

A kill is silent if an earlier save is missing or damaged, or if the resumed run ends with weights, moments, banks,
positions or a history that differ from those of an uninterrupted run.
"""

from tests.attack.campaign import Campaign, Finding, import_all
from tests.support.fork_driver import kills, train
from tests.support.tiny_runs import assert_same_run, write_tiny_data

CASES = 200


def campaign(folder, cases=CASES, seed=0, jobs=1):
    """Kill `cases` times, half of them during saves, one after another: `jobs` is ignored."""
    data = str(write_tiny_data(folder / "data"))
    import_all(folder, lambda base: train(data, base / "warm-up", "run"))
    in_saves = cases // 2
    report = kills(data, folder / "runs", anywhere=cases - in_saves, in_saves=in_saves, seed=seed)
    lost = {number: difference(folder / "runs", number) for number in range(report["runs"])}
    findings = []
    for number, kill in enumerate(report["kills"]):
        case = f"kill {number}, {kill['kind']}, run {kill['run']}"
        if kill["code"] != -9:
            findings.append(Finding(case, "train", "traceback", f"ended with {kill['code']}"))
        elif kill["damaged"] or kill["after"] < kill["before"] or lost[kill["run"]]:
            findings.append(Finding(case, "resume", "silent", f"{kill} {lost[kill['run']]}"))
        else:
            findings.append(Finding(case, "resume", "harmless"))
    if report["last"] or report["whole"]:
        findings.append(Finding("a run that was never killed", "train", "traceback", str(report)))
    return Campaign("kills", [[finding] for finding in findings])


def difference(root, number):
    """Describe how a killed and resumed run differs from an uninterrupted one; "" if it does not."""
    try:
        assert_same_run(root / f"run-{number}", root / "whole")
    except Exception as error:  # no state verifies, or the states differ
        return f"{type(error).__name__}: {error}"
    return ""
