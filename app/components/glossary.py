"""Terms a newcomer needs, explained in one or two sentences; used as tooltips."""

from __future__ import annotations

TERMS = {
    "anchor": "The query of one comparison: an image looking for its captions, or a caption looking for its image.",
    "negative": "A candidate of the other modality that does not belong to the anchor's own image.",
    "match": "A caption written for this image, or the image this caption was written for.",
    "split": "The part of the data the run was evaluated on; dev is held out from training.",
    "R@K": "Recall at K: percentage of queries with a true match among the first K results.",
    "R@sum": "R@1 + R@5 + R@10 of both directions: one number for the whole model, at most 600.",
    "i2t": "Image → text: an image looks for its captions.",
    "t2i": "Text → image: a caption looks for its image.",
    "rank": "Position of the best true match among all candidates; 1 is best.",
    "answered by": "A run answers a query when a true match is among the first results, as many as chosen above.",
    "gain": "How many positions higher the second run ranks the match; negative is worse.",
    "MedR": "Median rank: half of all queries have their match at this position or better.",
    "similarity": "Cosine between the image's and the caption's embedding: 1 is the same direction, 0 is unrelated.",
    "SD": "Standard deviation of an anchor's similarities to its negatives: small when all negatives look alike to it.",
    "entropy": (
        "Entropy, in bits, of a softmax over the anchor's negatives. It ranks anchors in the opposite order to the "
        "standard deviation: equal similarities have the smallest deviation and the largest entropy."
    ),
    "fits": (
        "How many other images have a caption like this one: a cosine of 0.5 or more between their TF-IDF vectors. An "
        "estimate of how ambiguous the caption is, computed from captions only."
    ),
    "raw": "Diversity before division by the largest of all anchors: 1 / sigmoid(ε / spread), from 1 to 2.",
    "diversity": (
        "How much an anchor's similarities to its negatives vary (CODER eq. 3), above 0.5 and at most 1. An anchor "
        "with low diversity is ambiguous: no negative stands out."
    ),
    "epsilon": "ε of CODER eq. 3, the scale of the spread. A smaller ε moves all diversities towards 1.",
    "candidates": (
        "The negatives that diversity is computed over: the whole split, one random batch as in training, or a bank of "
        "random pairs like the momentum memory."
    ),
    "mu": "μ of CODER eq. 4, the temperature of the loss. With a smaller μ only the closest negatives count.",
    "entropy temperature": (
        "τ of the softmax inside the entropy. At 1 the entropies of cosines differ in the fourth digit only; a smaller "
        "τ separates the anchors."
    ),
    "percentile": "Percentage of anchors that are more ambiguous than this one: 0 is the most ambiguous of all.",
    "change": "Change of the percentile; below 0 the anchor is more ambiguous in the compared run.",
    "margin": (
        "Similarity of the true match minus that of the closest wrong candidate; below 0 the wrong one ranks first."
    ),
    "likely": (
        "A guess from the captions alone: the result has a caption much like one of the query’s (TF-IDF, cosine 0.6 or "
        "more), so it may be right though no label says so. It never enters the recall of the labels."
    ),
    "judged": (
        "People judged that this query and this result fit each other, though no label says so: a fact of the file of "
        "judgements, not a guess. It never enters the recall of the labels."
    ),
    "judged R@K": (
        "Extended recall at K: percentage of queries with any match, labelled or judged, among the first K results. "
        "Only queries with a match by the judgements count."
    ),
    "mAP@R": (
        "Mean average precision at R, the number of a query’s matches: how many of its first R results are matches, "
        "and how early. Low where a model finds one match and none of the others."
    ),
    "R-Precision": "Percentage of matches among a query’s first R results, R being the number of its matches.",
    "queue": (
        "At most 50 pairs, those that tell most first: captions of low diversity, near misses, or results that are "
        "probably matches. Pairs that the reviewer has judged are left out."
    ),
    "reviewed": "Recall at K by the labels as the verdicts correct them; it stands beside the recall of the labels.",
    "change of recall": (
        "R@1 reviewed minus R@1 by the labels, with the 95% interval of a paired bootstrap over images. It "
        "may be noise where the interval holds zero: other images could undo it."
    ),
    "changed queries": "All queries, or those with a label judged wrong or another match.",
    "kappa": "Cohen’s κ: agreement beyond chance. 1 is complete agreement, 0 what chance gives, below 0 less.",
    "mismatch": (
        "How unlike its image a caption is beside their neighbours (the nearest other images and captions), and how "
        "unlike the image’s other captions, in robust standard deviations. Higher is more suspicious; vague captions "
        "score high, too."
    ),
    "random pairs": (
        "Percentage of pairs of a caption and a random other image that look better than this pair. From 50 % on it "
        "looks like a random pair; from 10 % on it is doubtful. With a tenth of Flickr8k’s dev captions exchanged, "
        "99 % of the first group were exchanged ones, and 75 % of the second."
    ),
    "content words": (
        "Words that describe something: no articles, prepositions, pronouns or auxiliaries, and no words such as "
        "“picture” or “something” (an English list)."
    ),
    "likeness": (
        "Of the two least similar samples that were joined: pictures by the correlation of their colours at 16 × 16 "
        "pixels, captions by their letters. 100 % is the same."
    ),
    "heat map": (
        "Cosine between a word's and a region's features in the joint space before they are pooled, or the attention "
        "that a model computes from them. A map shows what the model compares, and no more: it proves no reason."
    ),
    "from": (
        "What the numbers come from: trained on region features; on features of a pretrained tower; on pretrained "
        "towers that stayed as they were (frozen) or changed (tuned); a pretrained model as it is (zero-shot); or "
        "embeddings that another program computed (imported)."
    ),
    "hub": "A candidate among the first results of far more queries than it belongs to.",
    "hub rank": "Position of the hub among this query’s results; 1 is first.",
    "hub correction": (
        "Subtract from every candidate’s score a share of its mean score with queries of the train split, after "
        "training: a candidate that scores high with everything falls back. Evaluate with --hub-correction to get it."
    ),
    "report": (
        "One HTML file about these runs on this split, to send or print: recall with intervals, what moved, typical "
        "failures with pictures, slices, clusters, ambiguity, settings. It takes a few seconds to write."
    ),
    "excess": "Misses of the judged run on the slice minus those it would have there at its overall recall.",
    "slice gain": (
        "Recall of the last run minus that of the first, with the 95% interval of a paired bootstrap over images. It "
        "may be noise where the interval holds zero: other images could undo it. Of many slices without any difference "
        "one in twenty is beyond noise by chance."
    ),
    "slice": (
        "Captions that every page is filtered by, in three ways. Words: dog frisbee, or a phrase in quotes, finds "
        "captions that hold all of them. Similar samples: the buttons “Similar captions” and “Similar images” below an "
        'opened sample, or 12 in neighbours. A condition: length > 15, "dog" in words, "a dog" in caption, '
        'colours >= 2 (also numbers, spatial, negations, rank, image, cluster, tenth of diversity), concept == "dog" '
        '(the one it reads most), "…" in tags (verdicts and tags of reviews), joined by and, or, not. The Slices '
        "page lists those with the most misses."
    ),
    "similar": (
        "Filters every page by the 50 captions, or the captions of the 10 images, that are nearest to this one in the "
        "space of the last run."
    ),
    "occurrences": "Number of queries with this candidate among their first results (k-occurrence).",
    "skewness": "Skewness of the k-occurrences: 0 is symmetric; above 1 a few hubs dominate the results.",
    "matrix batch": (
        "Random: pairs as training draws them. Hardest: the captions ranked furthest behind another image, each with "
        "that image. Selection: numbers of captions, or words they contain. Whole split: every image and caption."
    ),
    "matrix order": (
        "Diversity: the most ambiguous anchor first. Cluster: similar pairs next to each other. All matrices use the "
        "same order."
    ),
    "map": (
        "UMAP and t-SNE preserve neighbourhoods; distances between far groups mean little. PCA is a linear projection: "
        "undistorted, but it shows only part of the variance."
    ),
    "modalities": (
        "Images and captions together; one of them alone; or both, centred: the mean of a modality is subtracted from "
        "its embeddings, and every row gets length 1 again. Centring closes the modality gap, so that the map shows "
        "what lies inside the two islands. Numbers below the map are of the embeddings as they are."
    ),
    "find": (
        "Puts a ring around samples: by number (“image 12”, “caption 7”, “12”), by a part of the file name, or by "
        "words that a caption holds, which marks its image too."
    ),
    "perplexity": "About how many neighbours t-SNE preserves for each point; at most a third of the points.",
    "pair lines": "Lines from every selected image to its captions, and from every selected caption to its image.",
    "modality gap": (
        "Distance between the mean image and the mean caption embedding (Liang et al. 2022): 0 when the two coincide, "
        "at most 2."
    ),
    "mean similarity": "Mean cosine over all of these image-caption pairs.",
    "mean distance": (
        "Mean similarity of matching pairs minus that of all other pairs, MD of Deep Boosting Learning. Larger is "
        "better."
    ),
    "prototype": (
        "A centroid that training maintains for a group of image-caption pairs; every pair belongs to the nearest one "
        "(CODER eq. 7)."
    ),
    "agreement": "Percentage of pairs whose image and caption, each assigned alone, fall into the same cluster.",
    "cohesion": "Mean cosine of a cluster’s pairs to its centroid; 1 when all coincide.",
    "in training": "Pairs of the training data that belong to the cluster.",
    "grouping": (
        "Adjusted mutual information of the two runs’ clusters over the same pairs: 0 as by chance, 1 for the same "
        "clusters."
    ),
    "concept": (
        "A frequent word of the training captions: an object, a property or a motion. Images and captions attend to "
        "the same list of concepts (CODER section 3.2.2)."
    ),
    "attention": "Weight of a concept in a sample’s concept embedding; the weights of all concepts sum to 100 %.",
    "concepts read": (
        "Effective number of concepts a sample attends to: perplexity of the attention, exp of its entropy. 1 when one "
        "concept has all attention, 5 when five share it equally. Over a split, the median."
    ),
    "shared": (
        "Attention that the caption and its image have in common, the sum over concepts of the smaller of the two: "
        "100 % when both attend alike, 0 when no concept gets attention from both. By chance: with a random image."
    ),
    "concept edge": (
        "An edge leads from a concept to one it reads from: captions with the first contain the second often enough "
        "(the graph's threshold)."
    ),
    "concept strength": (
        "Captions: number of training captions that contain the concept. Edges: number of edges from and to it. "
        "Attention: how much the images and captions of this split attend to it."
    ),
    "top concepts": "Number of different concepts that have the most attention of at least one sample.",
    "sample weight": (
        "Weight of a pair in the loss, computed as if the split were one batch (HAL, MITHUN and AMRANI: in random "
        "batches of the training size); the mean over all pairs is 1."
    ),
    "DIVERSITY": (
        "How far apart a sample’s semantic neighbours lie in the joint space: minus the squared length of their mean "
        "(neighbour diversity, Thomas and Kovashka, eq. 4-6). Larger is more diverse."
    ),
    "DISCREPANCY": (
        "How far a sample is from its neighbours’ neighbours: minus its mean similarity to them (neighbour "
        "discrepancy, Thomas and Kovashka, eq. 2-3). Larger is more discrepant."
    ),
    "raw scores": (
        "DIVERSITY and DISCREPANCY before Γ changes their sign: the squared length of the neighbours’ mean, and the "
        "mean similarity, as in table 1 of Thomas and Kovashka."
    ),
    "side": "A pair has a caption and an image with a neighbourhood each; the weight is computed from both.",
    "hubness": "Number of queries with the sample among their first ten results.",
    "temperature": "μ·div, the anchor's effective temperature: with a smaller one only the closest negatives count.",
    "gamma": "γ of CODER eq. 4, the margin: negatives more similar than γ are pushed away strongly.",
    "weight": "Share of the anchor's loss that one negative carries; low diversity gives more to the closest ones.",
    "fixed": "The first run misses this query, the second run answers it.",
    "broken": "The first run answers this query, the second run misses it.",
    "both wrong": "Neither run ranks a true match high enough.",
    "both right": "Both runs rank a true match high enough.",
    "loss": "The training objective: btr = triplet, dcl = CODER's eq. 4, dcl-i = the same without diversity.",
    "values": "Below every figure, a table of what the mouse reads from it: one row for every bar, point or cell.",
    "epochs": "Finished passes over the training captions.",
}


def tip(term: str) -> str:
    """The explanation of a term.

    Raises:
        KeyError: the glossary does not have it.
    """
    return TERMS[term]
