"""The loss of the concept branch, L_DCL^C. CODER section 3.3."""

from __future__ import annotations

from coder_core.config.schema import Config
from coder_core.training.dcl_losses import concept_dcl
from coder_core.training.gathering import gather_anchors
from coder_core.training.losses import Losses
from coder_core.training.parts.part import Part, StepContext
from coder_core.training.prepare import Prepared


class ConceptLoss(Part):
    """Adds the symmetric DCL of the concept branch. It has no state of its own."""

    def add_losses(self, losses: Losses, step: StepContext) -> Losses:
        """With L_DCL^C, also at weight 0: several processes wait for a gradient of every parameter."""
        embedded, objective = step.embedded, step.config.objective
        assert embedded.concept_images is not None
        assert embedded.concept_texts is not None
        anchors = gather_anchors(embedded.concept_images, embedded.concept_texts, step.batch.image_groups)
        return losses.plus("dcl-concept", concept_dcl(anchors, objective), objective.weight_concept)


def make_concept_loss(config: Config, prepared: Prepared) -> ConceptLoss | None:
    """The loss of the concept branch, for a model that has one."""
    return ConceptLoss() if config.model.concepts else None
