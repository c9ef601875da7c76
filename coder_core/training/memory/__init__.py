"""State without gradients that outlives a step: momentum encoder, banks, prototypes."""
