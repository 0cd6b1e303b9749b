"""The questions of ``lostack init``: what no option gives, a user at the terminal is asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.cli.telling import ask
from harness.model.failures import UsageError
from harness.pipelines.refusing import choice, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the user for values that no option gives. ``asks``: whether a user is at
    the terminal.
    """

    asks: bool
    said: list[tuple[str, str]] = field(default_factory=list)
    """The answers, as options and values, so that a dialogue that ends early can be gone on with.
    """

    def answer(
        self,
        given: str | None,
        option: str,
        question: str,
        guess: str = "",
        among: Iterable[str] = (),
    ) -> str:
        """Return the option's value if it is given, else the user's answer, else the guess.
        ``among``: the possible values, if there are only some.

        Raises:
            UsageError: the option is missing, no user is at the terminal, and there is no guess.
            DeclarationError: the option's value is not possible. A user is asked again.
        """
        names = list(map(str, among))
        if given is not None or not self.asks:
            told = guess if given is None else given
            if not told:
                raise UsageError(f"{option} is missing: {question}")
            return choice(option, told, names) if names else told
        told = ask(question, guess or None)
        while names and told not in names:
            told = ask(f"{told!r} is not known; {nearest(told, names)}", guess or None)
        self.said.append((option, told))
        return told

    def perhaps(self, option: str, question: str) -> str:
        """Return the user's answer, which may be empty, as it is where no user is at the
        terminal.
        """
        told = ask(question, "") if self.asks else ""
        if told:
            self.said.append((option, told))
        return told
