"""Run folders with a concept branch, written by the same code as real ones."""

import numpy as np

from coder_core.config.schema import Config
from coder_core.evaluation.ranking import rank
from coder_core.evaluation.recall import rank_metrics
from coder_core.evaluation.relevance import Relevance
from coder_core.evaluation.scores import check_scores
from coder_core.evaluation.sources import mixture
from coder_core.model.concepts.knowledge import Concepts, count_together
from coder_core.model.concepts.vocabulary import Concept, ConceptVocabulary
from coder_core.model.encode import SplitEmbeddings
from coder_core.runs.analysis.concepts import concept_tables
from coder_core.runs.analysis.tables import rank_tables
from tests.support.run_folders import CAPTIONS_PER_IMAGE, synthetic, write_configured, write_embeddings
from tests.support.tiny_runs import changed

NAMES = [("dog", "object"), ("grass", "object"), ("ball", "object"), ("red", "property"), ("run", "motion")]


def some_concepts(names=NAMES):
    """Return five concepts with these names, their occurrences and co-occurrences in seven captions."""
    together, occurrences = count_together([[0, 2], [0, 2, 3], [0, 4], [0, 4, 1], [0], [1], [1, 3]], 5)
    rows = ((*name, int(count)) for name, count in zip(names, occurrences, strict=True))
    entries = tuple(Concept(word, kind, count, (word, f"{word}s")) for word, kind, count in rows)
    vectors = np.eye(5, 3, dtype=np.float32)
    return Concepts(ConceptVocabulary(entries, "textblob"), together, occurrences, vectors)


def two_branches(images, seed=0, per_image=CAPTIONS_PER_IMAGE):
    """Return embeddings of a good instance and a worse concept branch with random attention, and image_of_text."""
    v, w, owner = synthetic(images, noise=1.0, seed=seed, per_image=per_image)
    vc, wc, _ = synthetic(images, noise=2.0, seed=seed + 1, dimension=16, per_image=per_image)
    random = np.random.default_rng(seed)
    attention = [random.dirichlet(np.full(5, 0.5), rows).astype(np.float16) for rows in (len(v), len(w))]
    return SplitEmbeddings(v, w, vc, wc, *attention), owner


def write_concept_run(root, name, *, images=30, beta=0.6, captions=(), attention=(), concepts=NAMES, **drawn):
    """Write a run whose dev analysis has both branches. `attention` (n, 5) and (m, 5) replaces the random one;
    `concepts` are five pairs of word and kind; `drawn` goes to `two_branches`."""
    folder = write_configured(root, changed(Config(name=name), data="demo", concepts=10, beta=beta))
    branches, owner = two_branches(images, **drawn)
    if attention:
        branches = branches._replace(image_attention=attention[0], text_attention=attention[1])
    labels = Relevance.of_labels(owner, images)
    ranked = rank(check_scores(mixture(branches.images, branches.texts, branches.second, beta)), labels)
    knowledge = some_concepts(concepts)
    arrays, documents = concept_tables(branches, knowledge, knowledge.graph(threshold=0.3, rescaled=True))
    arrays |= rank_tables(ranked)
    about = {"metrics": rank_metrics(ranked, labels), "documents": documents, "beta": beta}
    about["captions"] = captions or [f"scene {i}" for i in range(len(owner))]
    write_embeddings(folder, branches.images, branches.texts, owner, **about, **arrays)
    return folder
