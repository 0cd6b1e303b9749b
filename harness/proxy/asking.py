"""From what a test asks for to a rule of the wire. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from harness.model.failures import UsageError
from harness.protocols.kafka.steps import Api
from harness.wire.rules import Action, After, Direction, Rule, RuleError

if TYPE_CHECKING:
    from collections.abc import Mapping

ACTIONS: Final = {
    "lose": Action.CUT,
    "never": Action.DROP,
    "cut": Action.CUT_AFTER,
    "hold": Action.HOLD,
    "late": Action.HOLD,
    "refuse": Action.ANSWER,
    "delay": Action.DELAY,
}
"""What can be done to a frame, in the words of a test."""
_ONLY: Final = {"seconds": "delay", "error": "refuse", "applied": "refuse"}


def rule_of(name: str, do: str, api: str, **more: Any) -> Rule:
    """Return the rule of a fault; ``more`` is what :func:`_rule_of` takes.

    Raises:
        UsageError: there is no such fault; one line.
    """
    try:
        return _rule_of(name, do, api, **more)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{do}: {str(error).removeprefix('_rule_of() ')}") from error


def _rule_of(
    name: str,
    do: str,
    api: str,
    *,
    answer: bool = False,
    topic: str | None = None,
    client: str | None = None,
    transaction: str | None = None,
    record: Mapping[str, Any] | str | None = None,
    key: str | None = None,
    header: Mapping[str, str] | None = None,
    nth: int = 1,
    times: int | None = 1,
    seconds: float | None = None,
    error: str | None = None,
    applied: bool | None = None,
) -> Rule:
    """Return the rule that does this to the ``nth`` frame that fits, and to those behind it,
    ``times`` in all (``None``: to each).

    ``record``: fields of a JSON value, by their dotted paths, or a text in the value. ``key`` and
    ``header``: the record's own.

    Raises:
        UsageError: there is no such fault; one line.
    """
    if do not in ACTIONS:
        raise UsageError(f"there is no fault {do!r}: there are {', '.join(ACTIONS)}")
    for option, value in (("seconds", seconds), ("error", error), ("applied", applied)):
        if (value is not None) != (_ONLY[option] == do) and not (
            option == "applied" and value is None
        ):
            raise UsageError(f"{option} belongs to {_ONLY[option]}, and {do} was asked for")
    step = next((each for each in Api if each.value.lower() == str(api).lower()), None)
    if step is None:
        raise UsageError(f"there is no API {api!r}: there are {', '.join(Api)}")
    if do == "late" and answer:
        raise UsageError("a late answer has nobody left to go to: only a request can be late")
    carrying = _carrying(record, key, header)
    try:
        rule = Rule(
            name,
            ACTIONS[do],
            step,
            Direction.RESPONSE if answer else Direction.REQUEST,
            client=client,
            topic=topic,
            transactional_id=transaction,
            carrying=json.dumps(carrying) if carrying else None,
            occurrence=nth,
            limit=times,
            after=After.BLACK_HOLE if do == "never" else After.CUT,
            delay_s=seconds or 0.0,
            error=error,
            forward=bool(applied),
        )
        Rule.from_json(rule.to_json())  # which looks at the types, too
    except (RuleError, TypeError) as error_:
        raise UsageError(str(error_).removeprefix(f"rule {name}: ")) from error_
    return rule


def _carrying(
    record: Mapping[str, Any] | str | None, key: str | None, header: Mapping[str, str] | None
) -> dict[str, Any]:
    """Return which record is meant, as :func:`harness.model.identity.carries` takes it."""
    wanted: dict[str, Any] = {}
    if isinstance(record, str):
        wanted["text"] = record
    elif record is not None:
        wanted["json"] = dict(record)
    if key is not None:
        wanted["key"] = key
    if header is not None:
        wanted["headers"] = dict(header)
    return wanted
