"""What the observer does while its broker is out of the cluster's metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kafka import TopicPartition
from kafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidReplicationAssignmentError,
    InvalidReplicationFactorError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NotCoordinatorError,
    UnknownBrokerIdError,
)

from harness.model.failures import CellFailure
from harness.systems.kafka.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Mapping


class Admin:
    """Answers as a broker that was put out for a while, and comes back."""

    def __init__(self, *answers: Exception | list[str]) -> None:
        self.answers = list(answers)

    def list_topics(self) -> list[str]:
        """Say the next answer."""
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def create_topics(self, topics: Mapping[str, object], *, wait_for_metadata: bool) -> list[str]:
        """Say the next answer."""
        assert topics
        assert wait_for_metadata
        return self.list_topics()

    def alter_partition_reassignments(self, wanted: Mapping[TopicPartition, object]) -> list[str]:
        """Say the next answer."""
        assert list(wanted) == [TopicPartition("mine", 0)]
        return self.list_topics()


def observer_of(admin: Admin, monkeypatch: pytest.MonkeyPatch) -> Observer:
    """Return an observer with this client."""
    observer = Observer("127.0.0.1:1", lambda: None)
    monkeypatch.setattr(observer, "_admin_client", lambda: admin)
    return observer


def test_a_broker_out_of_the_metadata_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A starved broker is late with its heartbeat; what it says when it is back is the answer."""
    admin = Admin(MetadataEmptyBrokerList(), MetadataEmptyBrokerList(), ["mine"])
    assert observer_of(admin, monkeypatch).has("mine")
    assert admin.answers == []


def test_topics_are_made_once_there_are_brokers_for_their_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is not registered yet, or was put out, comes back; what was made and not seen in
    time is waited for.
    """
    admin = Admin(
        InvalidReplicationFactorError(),
        InvalidReplicationAssignmentError(),
        KafkaTimeoutError(),
        [],
        ["mine"],
    )
    observer_of(admin, monkeypatch).create_topics({"mine": (1, {})})
    assert admin.answers == []


@pytest.mark.parametrize("outdated", [UnknownBrokerIdError(2), NotCoordinatorError()])
def test_an_outdated_picture_of_the_cluster_is_replaced(
    outdated: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found in a real run: a broker that had died was asked by number, after the cluster had
    forgotten it.
    """
    first, second = Admin(outdated), Admin(["mine"])
    observer = Observer("127.0.0.1:1", lambda: None)
    monkeypatch.setattr(first, "close", lambda: None, raising=False)
    monkeypatch.setattr(observer, "_admin", first)

    def client() -> Admin:
        if observer._admin is None:
            observer._admin = second
        found = observer._admin
        assert isinstance(found, Admin)
        return found

    monkeypatch.setattr(observer, "_admin_client", client)
    assert observer.has("mine")
    assert first.answers == second.answers == []


def test_who_was_not_answered_in_time_is_replaced_for_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Found in a real run: leaders had moved, and a reader asked the old ones for 90 s."""
    admin = Admin(KafkaTimeoutError(), ["mine"])
    observer = observer_of(admin, monkeypatch)
    closed: list[bool] = []
    monkeypatch.setattr(observer, "close", lambda: closed.append(True))
    with pytest.raises(KafkaTimeoutError):
        observer.has("mine")
    assert closed == [True]
    assert observer.has("mine")


def test_any_other_complaint_is_not_asked_away(monkeypatch: pytest.MonkeyPatch) -> None:
    admin = Admin(KafkaError("no"), ["mine"])
    with pytest.raises(KafkaError):
        observer_of(admin, monkeypatch).has("mine")
    assert admin.answers == [["mine"]]


def test_what_the_cluster_does_not_allow_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A log-in without an administrator's rights may not move a leader: the cell is void, and says
    which right is missing.
    """
    admin = Admin(ClusterAuthorizationFailedError())
    with pytest.raises(CellFailure, match=r"\(reorder replicas: ClusterAuthorizationFailedError\)"):
        observer_of(admin, monkeypatch).reorder_replicas("mine", {0: (2, 1)})
