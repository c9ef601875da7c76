"""Actions of buttons that may be refused, and the reason, which the page shows after the click."""

from collections.abc import Callable
from typing import Any

import streamlit as st

from app.ask import InputError

_REFUSED = "refused"


def attempt(failure: str, action: Callable[..., object], *arguments: Any) -> None:
    """Call `action`. If it is refused, keep `failure` ("Nothing was started.") and the reason for `refused`."""
    try:
        action(*arguments)
    except (InputError, OSError) as error:
        st.session_state[_REFUSED] = failure, str(error)


def refused() -> tuple[str, str] | None:
    """Return the refused action of the last click and the reason, once; None if it succeeded."""
    reason: tuple[str, str] | None = st.session_state.pop(_REFUSED, None)
    return reason
