"""All campaigns, one table: `python -m tests.attack --seed 0`. The exit status is 1 when anything was bad."""

import time

import torch

from tests.attack import corruptions, inputs, kills, links
from tests.attack.campaign import Campaign, arguments, report, workplace


def main() -> int:
    """Run them one after the other, each in a folder of its own."""
    parsed = arguments("", None)
    torch.set_num_threads(1)
    campaigns: list[Campaign] = []
    for module in (corruptions, kills, inputs, links):
        started = time.monotonic()
        extra = {} if parsed.cases is None else {"cases": parsed.cases}
        with workplace() as folder:
            campaigns.append(module.campaign(folder, seed=parsed.seed, jobs=parsed.jobs, **extra))
        print(
            f"{campaigns[-1].name}: {len(campaigns[-1].cases)} in {time.monotonic() - started:.0f} s",
            flush=True,
        )
    return report(campaigns, parsed.show)


if __name__ == "__main__":
    raise SystemExit(main())
