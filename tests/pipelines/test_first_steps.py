"""How far a load has come is counted by first steps, and the load bounds the count."""

from __future__ import annotations

from harness.systems.declared.wire.firsts import MOST_TOPICS, FirstSteps


def test_what_is_done_again_does_not_count() -> None:
    """Nor what is done with a record that the program made up; in another topic it does."""
    steps = FirstSteps({"a", "b"})
    assert steps.note("sent", "producer", "orders", "a")
    assert not steps.note("sent", "producer", "orders", "a")
    assert steps.note("sent", "producer", "orders", "made-up")
    assert steps.count == 1
    assert steps.note("sent", "processor", "priced", "a")
    assert steps.count == 2
    assert steps.did("sent") == {"a", "made-up"}


def test_positions_count_as_often_as_the_load_has_records() -> None:
    """A program that sends again what it reads moves its position for ever."""
    steps = FirstSteps({"a", "b"})
    steps.note_position("consumer", "g", "orders", 0, 1)
    steps.note_position("consumer", "g", "orders", 0, 1)
    assert steps.count == 1
    for offset in range(2, 50):
        steps.note_position("consumer", "g", "orders", 0, offset)
    assert steps.count == 2


def test_only_so_many_topics_count() -> None:
    """A program may write into new topics for ever."""
    steps = FirstSteps({"a"})
    for number in range(MOST_TOPICS + 5):
        steps.note("sent", "producer", f"t{number}", "a")
    assert steps.count == MOST_TOPICS


def test_a_step_that_names_no_topic_counts_once_for_each_topic_of_the_record() -> None:
    """An acknowledgement of a record that came from two topics is two steps, and no third."""
    steps = FirstSteps({"a"})
    for topic in ("orders", "late"):
        steps.met("consumer", topic, "a")
    for _ in range(3):
        steps.note_in_some_topic("acknowledged", "consumer", "a")
    assert steps.count == 2
