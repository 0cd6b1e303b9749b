"""What a broker with KahaDB can be told to do, or suffer, beyond the eight verbs."""

from __future__ import annotations

from typing import Protocol


class Compaction(Protocol):
    """A journal of files, which carries acknowledgements on to other files, and an index that can be made anew from it."""

    def begin_file(self) -> None:
        """Go on in another file of the journal, and let the one that ends have a message that nobody reads: so it stays."""

    def compact(self) -> tuple[str, ...]:
        """Go on in another file, and wait until the one that ends is gone, for what it has of acknowledgements was carried on.

        Return the records whose acknowledgement was committed there, and whose message is in a file that is left.

        Raises:
            OSError: the broker cannot be told.
        """

    def lose_index(self) -> None:
        """Remove the index, while the broker is down.

        Raises:
            OSError: there is none.
        """
