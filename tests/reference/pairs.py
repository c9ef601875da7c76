"""Masks of negatives, entry by entry."""


def negatives(query_ids, candidate_ids):
    """The default: entries of another image. An id with several parts (product, text) differs in each of them; of a pair
    with ids of its image and of its caption, the image's differ from the other caption's, in both directions."""
    return [[_differ(query, candidate) for candidate in candidate_ids] for query in query_ids]


def _differ(query, candidate):
    if not isinstance(query, list | tuple):
        return query != candidate
    if isinstance(query[0], list | tuple):
        return _differ(query[0], candidate[1]) and _differ(candidate[0], query[1])
    return all(of_query != of_other for of_query, of_other in zip(query, candidate, strict=True))


def literal_negatives(query_ids, candidate_ids, positive_offset):
    """As printed in the paper: everything but the positive itself."""
    mask = []
    for row in range(len(query_ids)):
        positive = None if positive_offset is None else row + positive_offset
        mask.append([column != positive for column in range(len(candidate_ids))])
    return mask


def kept(row, mask):
    """The scores of one anchor's negatives."""
    return [score for score, is_negative in zip(row, mask, strict=True) if is_negative]


def transposed(scores):
    """The other direction."""
    return [[row[column] for row in scores] for column in range(len(scores[0]))]
