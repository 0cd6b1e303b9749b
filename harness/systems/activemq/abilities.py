"""The ability of a broker with KahaDB: compact its journal, and lose its index."""

from __future__ import annotations

from typing import Protocol


class Compaction(Protocol):
    """A journal of several files, whose acknowledgements are carried over to newer files, and an
    index made from it.
    """

    def begin_file(self) -> None:
        """Let the journal go on in a new file. The old file gets a message that no client reads, so
        that it is kept.
        """

    def compact(self) -> tuple[str, ...]:
        """Let the journal go on in a new file, and wait until the old file was compacted away.

        Its acknowledgements are then in another file. Return the records whose acknowledgement was
        committed in the old file, and whose message is in a file that is kept.

        Raises:
            OSError: the broker does not answer.
        """

    def lose_index(self) -> None:
        """Delete the index while the broker is down.

        Raises:
            OSError: there is no index.
        """
