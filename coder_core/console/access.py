"""Host names beyond this machine's own that the app's server answers, and the token that it then asks for.

The command `coder-lab app --allow-host NAME` hands both to the server in its environment.
"""

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from coder_core.console.faults import InputError

ALLOWED_HOSTS = "CODER_ALLOWED_HOSTS"  # names, separated by commas
TOKEN = "CODER_TOKEN"
SHORTEST_TOKEN = 16  # characters
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


@dataclass(frozen=True)
class Access:
    """Who is answered besides this machine's own pages, which need no token unless one is set."""

    hosts: frozenset[str] = frozenset()  # lower-case host names, or addresses, without port
    token: str = ""  # which every visitor has to show; "" for nobody


def read_access(environment: Mapping[str, str] | None = None) -> Access:
    """Read the names and the token from the environment. InputError: a malformed name, names without a token, or a
    token that is too short.

    >>> read_access({"CODER_ALLOWED_HOSTS": "lab.example.org", "CODER_TOKEN": "0123456789abcdef"}).hosts
    frozenset({'lab.example.org'})
    """
    variables = os.environ if environment is None else environment
    names = [name.strip().lower() for name in variables.get(ALLOWED_HOSTS, "").split(",")]
    hosts = frozenset(filter(None, names))
    token = variables.get(TOKEN, "")
    for name in sorted(hosts):
        check_host(name, ALLOWED_HOSTS)
    if hosts and not token:
        raise InputError.at(ALLOWED_HOSTS, f"is set without {TOKEN}", "a token of your choice", "set both")
    if token and len(token) < SHORTEST_TOKEN:
        fact = f"has {len(token)} characters"
        raise InputError.at(TOKEN, fact, f"at least {SHORTEST_TOKEN}", "leave it out to get a random one")
    return Access(hosts, token)


def check_host(name: str, where: str) -> None:
    """Raise InputError, located at `where`, if a host name has a port, a wildcard or another unusual letter."""
    if not NAME.fullmatch(name.lower()):
        expected = "one name such as lab.example.org, without http:// and port"
        raise InputError.at(f"{where} {name}", "is not a host name", expected)


def new_token() -> str:
    """Return the token of $CODER_TOKEN, or a random one."""
    return os.environ.get(TOKEN) or secrets.token_urlsafe(24)
