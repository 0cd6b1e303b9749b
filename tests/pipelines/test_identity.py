"""Where a foreign record carries its id, and that the wire sees it there."""

from __future__ import annotations

from typing import Any

import pytest

from harness.model.identity import Identity, IdentityError
from harness.protocols.kafka import batches, codec
from harness.protocols.kafka.tracker import Tracker

VALUE = b'{"order": {"no": 17, "lines": ["a", "b"]}, "note": "id=k-3."}'


@pytest.mark.parametrize(
    ("identity", "wanted"),
    [
        (Identity(r"id=(k-\d+)\."), "k-3"),
        (Identity(r"id=(k-\d+)\.", where="value"), "k-3"),
        (Identity(where="value", json="order.no"), "17"),
        (Identity(where="value", json="order.lines.1"), "b"),
        (Identity(where="value", json="order.gone"), None),
        (Identity(where="key"), "the-key"),
        (Identity(r"\w+$", where="key"), "key"),
        (Identity(where="header:id"), "h-9"),
        (Identity(r"h-\d", where="anywhere"), "h-9"),
        (Identity(r"nowhere"), None),
    ],
)
def test_an_id_is_found_where_it_is_declared(identity: Identity, wanted: str | None) -> None:
    """In value, key or header, by JSON path or pattern; nothing elsewhere."""
    assert identity.find(b"the-key", VALUE, [("other", None), ("id", b"h-9")]) == wanted
    assert Identity.from_json(identity.to_json()) == identity


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"where": "body"}, "cannot be in 'body'"),
        ({"pattern": "("}, "no regular expression"),
        ({"pattern": "(a)(b)"}, "has 2 groups"),
    ],
)
def test_a_place_that_can_find_nothing_is_refused(fields: dict[str, Any], said: str) -> None:
    """With one line that says why."""
    with pytest.raises(IdentityError, match=said.replace("(", r"\(")):
        Identity(**fields)


def test_the_wire_looks_where_it_is_told() -> None:
    """The subject of a Produce request are the ids found by the cell's own rule, not our format."""
    item = batches.Item(0, VALUE, None, b"the-key")
    batch = batches.Batch(0, 0, 0, -1, -1, -1, False, False, False, (item,))
    content = codec.Produce(None, -1, (("orders", 0, (batch,)),))
    tracker = Tracker({}, Identity(where="value", json="order.no"))
    assert tracker.look_at_request(content, "1:1").subject.records == {"17"}
    assert not Tracker({}).look_at_request(content, "1:1").subject.records


@pytest.mark.parametrize("where", ["anywhere", "key"])
def test_what_has_no_value_deletes_what_has_its_key(where: str) -> None:
    """Whoever made it: it is no copy of a record, on the wire and in the log. An id in a header is
    that of the record itself.
    """
    identity = Identity(r"o-\d+", where=where)
    assert identity.find(b"o-17", b"{}") == "o-17"
    assert identity.find(b"o-17", None) is None
    assert identity.find_every(b"o-17", None) == ()
    assert Identity(r"o-\d+", where="header:id").find(b"", None, [("id", b"o-17")]) == "o-17"
