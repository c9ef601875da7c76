"""Run all campaigns or the named ones: `python -m tests.attack [links …] --seed 0`; status 1 if a finding is bad."""

import argparse
import os
import time
from importlib import import_module

import torch

from tests.attack.campaign import report, workplace

CAMPAIGNS = ("readers", "corruptions", "kills", "restarts", "inputs", "links", "numbers", "server")


def main():
    """Run the campaigns one after another, each in its own folder; print the findings and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack")
    parser.add_argument("campaigns", nargs="*", default=CAMPAIGNS, help=" ".join(CAMPAIGNS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, help="how many of a campaign; of links 0 is all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, default=20, help="how many bad findings are printed")
    parsed = parser.parse_args()
    torch.set_num_threads(1)
    campaigns = []
    for name in parsed.campaigns:
        started = time.monotonic()
        extra = {} if parsed.cases is None else {"cases": parsed.cases}
        with workplace() as folder:
            campaign = import_module(f"tests.attack.{name}").campaign
            campaigns.append(campaign(folder, seed=parsed.seed, jobs=parsed.jobs, **extra))
        print(f"{name}: {len(campaigns[-1].cases)} in {time.monotonic() - started:.0f} s", flush=True)
    return report(campaigns, parsed.show)


if __name__ == "__main__":
    raise SystemExit(main())
