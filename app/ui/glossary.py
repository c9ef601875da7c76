"""The words a newcomer needs, one sentence each, used as tooltips."""

from __future__ import annotations

TERMS = {
    "anchor": "The query of one comparison: an image looking for its captions, or a caption looking for its image.",
    "negative": "A candidate of the other modality that does not belong to the anchor's own image.",
    "match": "A caption that was written for this image, or the image this caption was written for.",
    "split": "The part of the data a run was evaluated on; dev is held out from training.",
    "R@K": "Share of queries, in percent, whose true match is among the first K results.",
    "R@sum": "R@1 + R@5 + R@10 of both directions: one number for the whole model, at most 600.",
    "i2t": "Image → text: an image looks for its captions.",
    "t2i": "Text → image: a caption looks for its image.",
    "rank": "Position of the best true match among all candidates; 1 is the best possible.",
    "1st run": "Rank of the match in the run chosen first in the sidebar; 1 is the best possible.",
    "2nd run": "Rank of the match in the run it is compared with.",
    "gain": "By how many places the second run ranks the match better; negative is worse.",
    "MedR": "Median rank: half of all queries find their match at this position or better.",
    "similarity": "Cosine between the image's and the caption's embedding: 1 is the same direction, 0 is unrelated.",
    "SD": "Standard deviation of an anchor's similarities to its negatives: small when they all look alike to it.",
    "entropy": (
        "How evenly a softmax over the negatives spreads, in bits. It ranks anchors in the opposite order to the "
        "standard deviation: equal similarities have the smallest deviation and the largest entropy."
    ),
    "raw": "1 / sigmoid(ε / spread), from 1 to 2: diversity before it is divided by the largest value.",
    "diversity": (
        "How differently an anchor sees its negatives (CODER eq. 3), above 0.5 and at most 1. Low diversity marks an "
        "ambiguous anchor: nothing stands out from the crowd."
    ),
    "epsilon": "ε of CODER eq. 3: where the squashing turns. A smaller ε pulls all diversities towards 1.",
    "candidates": (
        "Over which negatives diversity is taken: everything in the split, one random batch, or a bank of random pairs "
        "as the memory of training holds them."
    ),
    "mu": "μ of CODER eq. 4: the temperature of the loss; smaller lets only the closest negatives count.",
    "entropy temperature": (
        "τ of the softmax inside entropy. At 1 the entropy of cosines varies in its fourth digit only; smaller tells "
        "anchors apart."
    ),
    "place": "Percent of the anchors that are more ambiguous than this one: 0 is the most ambiguous of all.",
    "move": "By how many percent the place changed; below 0 the 2nd run finds the anchor more ambiguous than the 1st.",
    "margin": (
        "Similarity of the true match minus that of the closest wrong candidate; below 0 the wrong one stands first."
    ),
    "hub": "A candidate among the first results of far more queries than it belongs to.",
    "stands at": "Position of the hub among this query’s results; 1 is the first.",
    "1st margin": "The margin in the run chosen first in the sidebar.",
    "occurrences": "How many queries have this candidate among their first results (its k-occurrence).",
    "skewness": "How lopsided the occurrences are: 0 is even, above 1 a few hubs take most of the places.",
    "matrix batch": (
        "At random: pairs as training draws them. Hardest: the captions furthest behind another image, each with that "
        "image. My selection: numbers of captions, or words they hold. Whole split: every image and caption."
    ),
    "matrix order": (
        "Diversity: the most ambiguous anchor first. Cluster: alike pairs side by side. All pictures share it."
    ),
    "map": (
        "UMAP and t-SNE keep neighbours together, distances between far groups mean little; UMAP shows more of the "
        "whole. PCA is the plane in which the points vary most: honest, but most of the structure lies outside it."
    ),
    "perplexity": "About how many neighbours each point of t-SNE keeps; at most a third of the points.",
    "pair lines": "From every chosen image to its captions, and from every chosen caption to its image.",
    "modality gap": (
        "Distance between the mean image and the mean caption (Liang et al. 2022): 0 when the two modalities lie on "
        "top of each other; two unit vectors are at most 2 apart."
    ),
    "mean similarity": "Mean cosine over these image-caption pairs, all of them.",
    "mean distance": (
        "Mean similarity of matching pairs minus that of all others, MD of Deep Boosting Learning; larger separates "
        "better."
    ),
    "prototype": (
        "A centre that training keeps for a group of image-caption pairs; every pair belongs to the nearest one "
        "(CODER eq. 7)."
    ),
    "agreement": "Share of the pairs whose image and caption, each looked at alone, fall into the same cluster.",
    "cohesion": "Mean cosine of a cluster’s pairs to its centre: 1 is one spot.",
    "in training": "Pairs of the training data that belong to it.",
    "grouping": (
        "Adjusted mutual information of the two runs’ clusters over the same pairs: 0 is what chance gives, 1 the same "
        "groups."
    ),
    "concept": (
        "A word that is frequent in the training captions: an object, a property or a motion. Images and captions read "
        "the same list of concepts (CODER section 3.2.2)."
    ),
    "attention": "How much of a sample’s concept embedding comes from a concept; over all concepts it sums to 100 %.",
    "concepts read": (
        "Perplexity of the attention, exp of its entropy: 1 when one concept has everything, 5 when it is spread as "
        "widely as over five concepts alike."
    ),
    "shared": (
        "Attention that the caption and its image have in common, the sum over concepts of the smaller of the two: "
        "100 % when they read alike, 0 when no concept is read by both."
    ),
    "concept edge": (
        "An arrow from a concept to one that it reads: the second stands in the training captions of the first often "
        "enough (the threshold of its graph)."
    ),
    "concept strength": (
        "Captions: how many training captions hold the concept. Edges: how many arrows lead to and from it. Reading: "
        "how much attention the images and captions of this split give it."
    ),
    "most read": "How many different concepts are the most read one of some sample.",
    "sample weight": (
        "How often a pair counts in the loss, as if the split were one batch (of HAL, MITHUN and AMRANI: in random "
        "batches of training’s size); the mean over all pairs is 1."
    ),
    "DIVERSITY": (
        "How far apart a sample’s semantic neighbours lie in the joint space: minus the squared length of their mean "
        "(Thomas and Kovashka, eq. 4-6). Larger is more diverse."
    ),
    "DISCREPANCY": (
        "How far a sample is from its neighbours’ neighbours: minus its mean similarity to them (Thomas and Kovashka, "
        "eq. 2-3). Larger is more discrepant."
    ),
    "raw scores": (
        "Of DIVERSITY the squared length of the neighbours’ mean, of DISCREPANCY the mean similarity, before Γ turns "
        "their sign: the numbers of table 1 of Thomas and Kovashka."
    ),
    "side": "A pair has a caption and an image, and each has its own neighbourhood; the weight comes from both.",
    "hubness": "Among the first ten results of how many queries a sample stands.",
    "temperature": "μ·div, the anchor's effective temperature: smaller lets only the closest negatives count.",
    "gamma": "γ of CODER eq. 4: negatives more similar than this are pushed away hard, those below hardly at all.",
    "weight": "Share of the anchor's loss that one negative carries; with small diversity the closest ones get more.",
    "fixed": "The baseline missed this query, the second run finds it.",
    "broken": "The baseline found this query, the second run misses it.",
    "both wrong": "Neither run puts a true match first enough.",
    "both right": "Both runs find a true match.",
    "loss": "The training objective: btr = triplet, dcl = CODER's eq. 4, dcl-i = the same without diversity.",
    "epochs": "Passes over the training captions that ran.",
}


def tip(term: str) -> str:
    """The sentence of a term.

    Raises:
        KeyError: the glossary does not have it.
    """
    return TERMS[term]
