"""A list beside what is opened from it. Both run again without the rest of the page when another row is opened."""

from collections.abc import Callable

import numpy as np
import streamlit as st

from app import judging
from app.choice import Choice
from app.components import opened, reviewing, samples
from app.components.table import ENLARGED

# key of a container below a list, which follows the detail on narrow screens (style.css)
BELOW_LIST = "below-list"
SHARES = (6, 7)  # of the width


@st.fragment
def list_and_detail(
    choice: Choice, draw_list: Callable[[], np.ndarray], draw_detail: Callable[[np.ndarray], None]
) -> None:
    """Draw a list, which returns its samples in order, and beside it the opened sample and what the page adds to it.

    A verdict and an enlarged picture need the whole page, which then runs again.
    """
    if opened.state().drawn:  # only this part runs
        if ENLARGED in st.session_state or reviewing.is_new():
            st.rerun()
        judging.begin()
        opened.begin_fragment()
    left, right = st.columns(SHARES, gap="medium")
    with left:
        order = draw_list()
    with right:
        panel = st.container()
        draw_detail(order)
        samples.show_opened(choice, panel)
