"""Arguments of the evaluate command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from coder_core.config.split_name import SplitName


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
    rank: str = "auto"
    """Queries of each direction to rank against all candidates: auto (all of a split of up to 10,000,000,000 pairs of
    images and captions, a random 10,000 of a larger one), all, or a number. All of a large split takes hours; an
    interrupted command continues when it is repeated. 0 stores scores or embeddings, and prints no table."""
    device: str = "auto"  # Where the model and scores are computed: auto, cpu or cuda. Ranks are the same.
    ways: tuple[int, ...] = ()
    """Also c-way accuracy of the ranked queries: how often the match scores above c − 1 candidates of other images, for
    example 5 20 100."""
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
    columns: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Table with further facts, such as brand and price, joined to the runs by the column with names of pictures or ids
    of captions: pages and reports filter and slice by them (docs/data.md, section 14)."""
    by: Annotated[tuple[str, ...], tyro.conf.arg(metavar="COLUMN …")] = ()
    """Also R@1 both ways on every slice that these columns suggest: categories and tags with at least 20 queries,
    quarters of numbers and dates; "length" and other kinds of the Slices page work, too."""
    positives: Annotated[Path | None, tyro.conf.arg(metavar="FILE|eccv|cxc")] = None
    """Captions that fit other images too: mAP@R, R-Precision, extended R@K, MRR and nDCG@10. Lines of
    x.jpg#2, a tab and y.jpg (the third caption of x.jpg fits y.jpg; a caption id of the data set works as well), or
    Flickr8k's expert or crowd annotations (with the experts': also whether diversity is low where grades disagree). For
    COCO's test images: eccv (ECCV Caption, Chun et al. 2022) or cxc (CxC, Parekh et al. 2021), from eccv-caption."""
    reviews: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """People's verdicts on pairs (docs/data.md, section 12): R@K, MRR and nDCG@10 without the labels judged wrong and
    with the pairs that also match, beside the same metrics with the original labels."""
    queries: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """A search log in place of captions, with --qrels and --pool: lines of an id, a tab and the text of a query, or BEIR's
    JSON lines. The trained runs rank the pictures of the pool; name the result with --split, for example log."""
    pool: str = ""  # Split of the data whose pictures are ranked for --queries, such as test.
    qrels: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Graded judgments as TREC (query 0 document grade) or BEIR (query-id, corpus-id, score and a header): metrics as
    trec_eval defines them, with 95% intervals. Ids are names of images, y.jpg, and of captions, x.jpg#2. Ties are
    pessimistic: among equal scores relevant documents come last (trec_eval: the later id first). Overview and
    the report show the result."""
    qrels_metrics: tuple[str, ...] = ("ndcg@10", "mrr@10", "map", "recall@100", "success@10")
    """Metrics of --qrels: ndcg@k, mrr@k, map, recall@k, success@k."""
    run_out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None
    """Write the best candidates of every ranked caption and image of one run as a TREC run: query Q0 document rank score
    tag. Of a large split these are a sample, unless --rank all is given."""
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
