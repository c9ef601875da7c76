"""Banzhaf interactions of two players, and insertion and deletion curves, as loops over all subsets or steps."""

from itertools import pairwise, product


def banzhaf_interaction(score, players, first, second):
    """Mean over all subsets S of the other players of v(S ∪ ij) − v(S ∪ i) − v(S ∪ j) + v(S)."""
    others = [player for player in range(players) if player not in (first, second)]
    differences = []
    for choice in product((False, True), repeat=len(others)):
        kept = dict(zip(others, choice, strict=True))
        for_pair = {}
        for with_first, with_second in product((False, True), repeat=2):
            subset = kept | {first: with_first, second: with_second}
            for_pair[with_first, with_second] = score(tuple(subset[player] for player in range(players)))
        differences.append(
            for_pair[True, True] - for_pair[True, False] - for_pair[False, True] + for_pair[False, False]
        )
    return sum(differences) / len(differences)


def area_between(score, importance, counts):
    """Trapezoids under the insertion curve minus those under the deletion curve, over the share of players."""
    order = sorted(range(len(importance)), key=lambda player: -importance[player])
    differences = []
    for count in counts:
        strongest = set(order[:count])
        inserted = score(tuple(player in strongest for player in range(len(order))))
        deleted = score(tuple(player not in strongest for player in range(len(order))))
        differences.append(inserted - deleted)
    width = 1 / (len(counts) - 1)
    return sum(width * (a + b) / 2 for a, b in pairwise(differences))
