"""Kill a training child, half of the times inside a save, and continue it: nothing may be lost.

    python -m tests.attack kills --cases 200 --seed 0

A kill is silent when a save that stood before is gone or damaged, or when the run that went on from it ends with other
weights, moments, banks, positions or history than one that was never stopped.
"""

from tests.attack.campaign import Campaign, Finding, import_all
from tests.support.fork_driver import kills, train
from tests.support.tiny_runs import assert_same_run, write_tiny_data

CASES = 200


def campaign(folder, cases=CASES, seed=0, jobs=1):
    """Kill `cases` times, half of them in saves; one at a time, whatever `jobs` is."""
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
    """Difference of a run that was killed and continued from one that never was; "" without any."""
    try:
        assert_same_run(root / f"run-{number}", root / "whole")
    except Exception as error:  # no state verifies, or it is another one
        return f"{type(error).__name__}: {error}"
    return ""
