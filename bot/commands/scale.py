"""`scale`: another number of replicas of a role, or of trials at once."""

from __future__ import annotations

import click

from bot.commands.verb import Call, Reply, Verb, argument, option
from bot.messages.answers import said
from bot.operations import scale as operations
from bot.operations.scale import ScaleOrder
from fleet.errors import BadInput


def scale(call: Call, run: str, size: str, role: str) -> Reply:
    """`scale dota worker=64`, or `scale dota 64` where there is one role."""
    named, _, number = size.rpartition("=")
    if named and role and named != role:
        raise BadInput(f"{size} and --role {role} name two roles.", hint="Keep one of them.")
    if not (number.isascii() and number.isdigit()):
        raise BadInput(f"{number or size!r} is not a number of replicas.", hint="Write: scale RUN ROLE=N.")
    order = ScaleOrder(run, named or role, int(number), call.request)
    outcome = operations.scale(call.house, call.person, order, call.now)
    words = f"{outcome.sentence} {outcome.warning}".strip()
    return Reply(said(words), outcome, ok=outcome.ok)


SCALE = Verb(
    "scale",
    "Change how many replicas of a role run",
    scale,
    params=(
        argument("run"),
        argument("size", metavar="ROLE=N"),
        option("--role", "the role, where it is not part of ROLE=N", default="", type=click.STRING),
    ),
    examples=("scale dota worker=64", "scale sweep 200"),
    acts=True,
)
