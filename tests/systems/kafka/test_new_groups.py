"""What is asked of, and told, groups of the new protocols, in the words of kafka-python's
administrator.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError

from harness.protocols.kafka import messages
from harness.stages.consumer_settings import GroupProtocol
from harness.systems.kafka.new_groups import left_to, members_of
from harness.systems.kafka.observer import Observer

NOT_FOUND, NOT_ALLOWED, UNKNOWN_MEMBER = 69, 30, 25
"""Error codes: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, UNKNOWN_MEMBER_ID."""


class Administrator:
    """Answers what is asked of a group's coordinator. ``knows``: the settings of a group that its
    broker has.
    """

    def __init__(
        self, answer: Any = None, knows: frozenset[str] = frozenset(), said: str = "OK"
    ) -> None:
        self.asked: list[Any] = []
        self.told: list[dict[str, str]] = []
        self._answer = answer
        self._knows = knows
        self._said = said
        self._manager = SimpleNamespace(run=self._run, send=self._send)

    def _run(self, ask: Any) -> Any:
        step = ask()
        try:
            while True:
                step.send(None)
        except StopIteration as done:
            return done.value

    async def _find_coordinator_id(self, group: str) -> int:
        assert group == "g"
        return 7

    async def _send(self, request: Any, node_id: int) -> Any:
        assert node_id == 7
        self.asked.append(request)
        return self._answer

    def alter_configs(self, resources: list[Any]) -> dict[str, dict[str, str]]:
        """Take settings, or say that one of them is not known."""
        [resource] = resources
        if unknown := set(resource.configs) - self._knows:
            raise ValueError(f"Unrecognized configs: {unknown}")
        self.told.append(dict(resource.configs))
        return {"group": {resource.name: self._said}}


def offsets(error: int, *parts: tuple[int, int, int, int]) -> Any:
    """Return where a share group stands; ``parts``: partition, start, lag, error."""
    of = messages.DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup
    topic = of.DescribeShareGroupOffsetsResponseTopic
    found = [
        topic.DescribeShareGroupOffsetsResponsePartition(
            partition_index=partition,
            start_offset=start,
            leader_epoch=0,
            lag=lag,
            error_code=each,
            error_message=None,
        )
        for partition, start, lag, each in parts
    ]
    topics = [
        topic(topic_name=name, partitions=found if name == "t" else []) for name in ("other", "t")
    ]
    groups = [of(group_id="g", topics=topics, error_code=error, error_message="because")]
    return messages.DescribeShareGroupOffsetsResponse(version=1, groups=groups)


def test_what_is_left_is_told_of_partitions_that_the_group_has_begun() -> None:
    """One that it has not begun has no start; of one that nobody can count nothing is said. No
    group: nothing is known.
    """
    assert left_to(
        Administrator(offsets(0, (0, 4, 3, 0), (1, -1, 9, 0), (2, 0, -1, 0))), "g", "t"
    ) == {0: 3}
    assert left_to(Administrator(offsets(NOT_FOUND)), "g", "t") == {}


@pytest.mark.parametrize("answer", [offsets(NOT_ALLOWED), offsets(0, (0, 0, 0, NOT_ALLOWED))])
def test_a_refusal_is_no_empty_queue(answer: Any) -> None:
    with pytest.raises(GroupAuthorizationFailedError):
        left_to(Administrator(answer), "g", "t")


@pytest.mark.parametrize(
    ("protocol", "api"),
    [(GroupProtocol.CONSUMER, 69), (GroupProtocol.SHARE, 77), (GroupProtocol.STREAMS, 89)],
)
def test_a_group_is_described_by_its_own_protocol(protocol: GroupProtocol, api: int) -> None:
    member = SimpleNamespace(member_id="m-1", client_id="k.consumer.1")
    there = Administrator(SimpleNamespace(groups=[SimpleNamespace(error_code=0, members=[member])]))
    assert members_of(there, "g", protocol) == {"m-1": "k.consumer.1"}
    assert [request.API_KEY for request in there.asked] == [api]
    gone = Administrator(
        SimpleNamespace(
            groups=[SimpleNamespace(error_code=NOT_FOUND, error_message="", members=[])]
        )
    )
    assert members_of(gone, "g", protocol) == {}


def test_members_that_say_what_the_client_cannot_read_are_members() -> None:
    """Workers of Kafka Connect join by a protocol of their own."""
    member = SimpleNamespace(member_id="m-1", client_id="connect-1")
    there = Administrator(SimpleNamespace(groups=[SimpleNamespace(error_code=0, members=[member])]))

    def describe_groups(_: object) -> None:
        raise ValueError("Buffer underrun decoding string")

    setattr(there, "describe_groups", describe_groups)  # noqa: B010 - the class has none
    assert members_of(there, "g", GroupProtocol.CLASSIC) == {"m-1": "connect-1"}
    assert [request.API_KEY for request in there.asked] == [15]


def put_out(protocol: str, answer: int = 0) -> tuple[int, list[Any], list[str]]:
    """Put the members of a group out; return how many there were, what was asked of the coordinator
    and whom an administrator removed.
    """
    there = Administrator()
    member = SimpleNamespace(member_id="m-1", client_id="c")
    removed: list[str] = []
    described = SimpleNamespace(groups=[SimpleNamespace(error_code=0, members=[member])])
    left = SimpleNamespace(error_code=answer, error_message="because")
    state = {"group_id": "g", "group_type": protocol, "group_state": "Stable"}
    classic = {"members": [{"member_id": "m-1", "client_id": "c"}]}

    async def send(request: Any, node_id: int) -> Any:
        assert node_id == 7
        there.asked.append(request)
        return described if "Describe" in type(request).__name__ else left

    more = {
        "list_groups": lambda: [{"group_id": "other", "group_type": "classic"}, state],
        "describe_groups": lambda groups: dict.fromkeys(groups, classic),
        "remove_group_members": lambda _, members: removed.extend(m.member_id for m in members),
    }
    for name, does in more.items():
        setattr(there, name, does)
    there._manager.send = send
    observer = Observer("nowhere", lambda: None)
    observer._admin = there
    return observer.expel("g"), there.asked, removed


@pytest.mark.parametrize(("protocol", "api"), [("Consumer", 68), ("share", 76), ("streams", 88)])
def test_a_dead_member_leaves_its_group_in_the_words_of_its_protocol(
    protocol: str, api: int
) -> None:
    """Nobody else can put it out before its session is over: 45 s, and a ghost in the next cell."""
    count, [_, request], removed = put_out(protocol)
    assert (count, request.API_KEY, removed) == (1, api, [])
    assert (request.group_id, request.member_id, request.member_epoch) == ("g", "m-1", -1)
    assert put_out(protocol, UNKNOWN_MEMBER)[0] == 1  # it went by itself meanwhile
    with pytest.raises(GroupAuthorizationFailedError):
        put_out(protocol, NOT_ALLOWED)


@pytest.mark.parametrize("protocol", ["classic", "None", "Unknown"])
def test_an_administrator_removes_members_of_a_classic_group(protocol: str) -> None:
    assert put_out(protocol) == (1, [], ["m-1"])


def test_groups_with_members_are_known_by_their_states() -> None:
    """A broker that tells no states (before 2.6), or one that is unknown, is asked for the members
    of each group.
    """
    states = {"a": "Empty", "b": "Dead", "c": "Stable", "d": "Reconciling", "e": None, "f": None}
    states |= {"g": "Unknown", "h": "Unknown", "i": "ThoughtOfLater"}
    observer = Observer("nowhere", lambda: None)
    groups = [{"group_id": name, "group_state": state} for name, state in states.items()]
    one = [{"member_id": "m-1", "client_id": "c"}]
    members = {"e": one, "f": [], "g": one, "h": [], "i": []}
    observer._admin = SimpleNamespace(
        list_groups=lambda: groups,
        describe_groups=lambda names: {name: {"members": members[name]} for name in names},
    )
    assert observer.peopled() == {"c", "d", "e", "g"}


def test_the_members_of_an_application_are_read() -> None:
    group = messages.StreamsGroupDescribeResponse.DescribedGroup
    task = group.Topology.Subtopology
    nothing = group.Member.Assignment(active_tasks=[], standby_tasks=[], warmup_tasks=[])
    member = group.Member(
        member_id="m-1",
        client_id="k.processor.1",
        client_host="h",
        process_id="p",
        client_tags=[],
        task_offsets=[],
        task_end_offsets=[],
        assignment=nothing,
        target_assignment=nothing,
    )
    topology = group.Topology(
        epoch=0,
        subtopologies=[
            task(
                subtopology_id="0",
                source_topics=["in"],
                repartition_sink_topics=[],
                state_changelog_topics=[],
                repartition_source_topics=[],
            ),
        ],
    )
    for known in (topology, None):
        told = group(
            error_code=0, group_id="g", group_state="Stable", topology=known, members=[member]
        )
        answer = messages.StreamsGroupDescribeResponse(groups=[told]).encode(version=0)
        read = messages.StreamsGroupDescribeResponse.decode(bytes(answer), version=0)
        assert members_of(Administrator(read), "g", GroupProtocol.STREAMS) == {
            "m-1": "k.processor.1"
        }


def told(administrator: Administrator) -> list[dict[str, str]]:
    """Return what a group was told."""
    observer = Observer("nowhere", lambda: None)
    observer._admin = administrator
    observer.tell_group(
        "g", {"share.session.timeout.ms": "3000"}, {"share.assignment.interval.ms": "0"}
    )
    return administrator.told


def test_a_group_is_told_what_its_broker_knows() -> None:
    """A setting that came with Kafka 4.3 is left out before; one that must be known is not."""
    both = {"share.session.timeout.ms": "3000", "share.assignment.interval.ms": "0"}
    assert told(Administrator(knows=frozenset(both))) == [both]
    assert told(Administrator(knows=frozenset({"share.session.timeout.ms"}))) == [
        {"share.session.timeout.ms": "3000"}
    ]
    with pytest.raises(ValueError, match=r"share\.session"):
        told(Administrator())
    with pytest.raises(
        RuntimeError, match=r"the settings of the group .* could not be set: too short"
    ):
        told(Administrator(knows=frozenset(both), said="too short"))
