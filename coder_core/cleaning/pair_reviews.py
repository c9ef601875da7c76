"""Write the reviews of a cleaned run: one for every suspicious pair, with the rule that made it, and people's."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
from rich.console import Console

from coder_core.cleaning.origin import given_scorers
from coder_core.cleaning.scorers import by_regression
from coder_core.config.schema import Config
from coder_core.console.faults import Fault, InputError
from coder_core.console.output import print_faults, say
from coder_core.data.reviews import CLEANING, LONGEST_TAG, WEIGHT, Review, Verdict, merge, read_reviews
from coder_core.files.atomic import replace_file
from coder_core.training.reviewed import weights_by_verdict

LEAST = 0.05  # least probability of being wrong for which --clean-weigh weighs a pair


def write_reviews(file: Path, table: pd.DataFrame, config: Config, console: Console) -> None:
    """Write one review per pair to leave out or, with --clean-weigh, to weigh; without any, a remark with the rule. Add
    people's, and print what training will leave out. A review is about all copies of a pair (unnamed images with equal
    captions), so the least suspicious copy decides."""
    above = config.cleaning.clean_above
    estimated = table["probability"]
    table = table.assign(probability=table.groupby("pair")["probability"].transform("min"))
    suspicious = table["probability"] >= above
    _warn_of_unnamed(int(((estimated >= above) & ~suspicious).sum()), console)

    wrong = table[table["probability"] >= LEAST] if config.cleaning.clean_weigh else table[suspicious]
    reviewed = wrong.drop_duplicates("pair") if len(wrong) else table[:1]
    reviews = [
        _review(row["pair"], row["probability"], row["scorer"], config) for row in reviewed.to_dict("records")
    ]
    replace_file(file, "".join(f"{json.dumps(review.document())}\n" for review in reviews))
    add_people(file, config)

    weights = weights_by_verdict(table["pair"], read_reviews(file), config.data)
    left_out = (weights == 0).sum()
    less = ((weights > 0) & (weights < 1)).sum()
    expected = f"{estimated.mean():.1%} of all, {estimated[~suspicious].mean():.1%} of the others"
    summary = f"left out: {left_out:,} of {len(table):,}, given less weight: {less:,}"
    say(console, f"pairs of train {summary}; estimated wrong pairs: {expected}")


def _warn_of_unnamed(pairs: int, console: Console) -> None:
    """Warn of suspicious pairs that stay because a copy of each is not suspicious."""
    if pairs:
        fact = (
            f"{pairs:,} suspicious pairs stay: unnamed images share their captions, so no review can name one"
        )
        fix = "name the images (docs/data.md)"
        print_faults(console, [Fault("--clean", fact, fix=fix, severity="warning")])


def _review(pair: tuple[str, str], probability: float, scorer: str, config: Config) -> Review:
    """Return the review of a pair: a verdict if it is suspicious and, with --clean-weigh, a weight."""
    image, caption = pair
    verdict: Verdict = "wrong-caption" if probability >= config.cleaning.clean_above else "none"
    tags = [_rule(config)]
    if config.cleaning.clean_weigh:
        tags.append(f"{WEIGHT}{1 - probability:.3f}")
    note = f"{probability:.0%} probable, scored by {scorer}"
    return Review(image, caption, verdict, CLEANING, tuple(tags), note)


def add_people(file: Path, config: Config) -> None:
    """Add people's reviews, named in the configuration, that the file lacks."""
    if not config.data.reviews:
        return
    people = read_reviews(Path(config.data.reviews))
    written = read_reviews(file)
    lines = tuple(line for line in people.lines if line["reviewer"] != CLEANING)
    if {line["id"] for line in lines} - {line["id"] for line in written.lines}:
        replace_file(file, merge([replace(people, lines=lines), written]))


def _rule(config: Config) -> str:
    """Return the tag of the reviews: the rule that made them, and the data they are about."""
    cleaning = config.cleaning
    given = [scorer.name for scorer in given_scorers(config)]
    rule = [
        f"{cleaning.clean_above:g}",
        str(config.training.seed),
        f"{config.data.wrong_captions:g}",
        Path(config.data.data).name,
    ]
    if by_regression(config):
        rule = [cleaning.clean_by, *rule]
    elif given:
        rule = [*rule, *given]
    else:
        rule = [cleaning.clean_by, cleaning.clean_loss, *rule]

    text = ", ".join(rule)
    if len(text) <= LONGEST_TAG:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: LONGEST_TAG - 10]}… {digest}"


def check_rule(file: Path, config: Config) -> None:
    """Refuse (InputError) reviews that were made by another rule or for other data."""
    rule = _rule(config)
    tags = {review.tags[:1] for review in read_reviews(file).all if review.reviewer == CLEANING}
    others = tags - {(rule,)}
    if others:
        fact = f"contains reviews made by another rule or for other data: {others.pop()}"
        fix = "give the --data, --seed and --clean-… that it was made with, or choose another --name"
        raise InputError.at(file, fact, rule, fix)
