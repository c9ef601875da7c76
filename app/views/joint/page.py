"""The Joint space page: the maps of its samples, and the modality gap."""

from app.ask import joint_space
from app.choice import Choice
from app.components import cards
from app.views.joint.maps import explore


def show(choice: Choice) -> None:
    gaps = choice.ask_each(joint_space.modality_gap)
    cards.answer(answer(gaps))
    explore(choice)
    cards.heading("How far apart are images and texts?")
    term = "modality gap"
    distances = choice.ask_each(joint_space.distribution_distance)
    cards.metrics(
        cards.Metric(f"{term} of {name}", f"{gap:.3f}", f"distributions {distances[name]:.3f} apart", term)
        for name, gap in gaps.items()
    )


def answer(gaps: dict[str, float]) -> str:
    """State the distance between images and texts in every run."""
    names = list(gaps)
    last = f"The means of images and texts are {gaps[names[-1]]:.2f} apart in {names[-1]}"
    return last if len(names) == 1 else f"{last}, {gaps[names[0]]:.2f} in {names[0]}"
