"""Metrics of graded judgements by trec_eval's definitions, in loops over Python floats, one query at a time."""

from math import inf, log2


def order_of(scores, grades, sign=1):
    """Sort candidates by score, equal scores by grade, lowest first (`sign` −1: highest first). `grades`: candidate →
    grade."""
    return sorted(range(len(scores)), key=lambda c: (-scores[c], sign * max(0, grades.get(c, 0)), c))


def label_means(scores, owner, sign=1, asked=None):
    """Return key → metric in percent, the mean over all queries or over those in `asked` (direction → numbers).
    `scores` has one row per image; a matching pair has grade 1."""
    means = {}
    for way, rows in (("i2t", scores), ("t2i", list(zip(*scores, strict=True)))):
        of_query = [{} for _ in rows]
        for text, image in enumerate(owner):
            query, candidate = (image, text) if way == "i2t" else (text, image)
            of_query[query][candidate] = 1
        asking = [(rows[q], of_query[q]) for q in (asked[way] if asked else range(len(rows))) if of_query[q]]
        for key, name, k in (("mrr", "mrr", inf), ("ndcg10", "ndcg", 10)):
            values = [metric(name, k, order_of(row, grades, sign), grades) for row, grades in asking]
            means[f"{way}_{key}"] = 100 * sum(values) / len(values)
    return means


def metric(name, k, order, grades):
    """Return one metric of one query; `order` holds the candidates, `grades` may hold further documents."""
    gains = [max(0, grades.get(candidate, 0)) for candidate in order]
    relevant = sum(grade > 0 for grade in grades.values())
    top = gains[: min(k, len(gains))]
    if not relevant:
        return 0.0
    if name == "ndcg":
        best = sorted((max(0, grade) for grade in grades.values()), reverse=True)
        best = best[: min(k, len(best))]
        ideal = sum(gain / log2(place + 2) for place, gain in enumerate(best))
        return sum(gain / log2(place + 2) for place, gain in enumerate(top)) / ideal

    if name == "mrr":
        return next((1 / (place + 1) for place, gain in enumerate(top) if gain), 0.0)
    if name == "recall":
        return sum(gain > 0 for gain in top) / relevant
    if name == "success":
        return float(any(top))

    found = 0
    total = 0.0
    for place, gain in enumerate(gains):
        if gain:
            found += 1
            total += found / (place + 1)

    return total / relevant
