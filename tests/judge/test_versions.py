"""The version of a system as an axis: which cells there are, and what theory says of one version
only.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import registry
from harness.matrix.selection import choose
from harness.model.pipeline import SettingsError
from harness.provision.kafka import VERSION, kafka_versions
from harness.report.summary import rerun_line
from harness.systems.kafka.system import KafkaSystem
from scenarios.plain import ACK_LOST, ALO, AMO, EOS, LOSES, NONE
from tests.judge.runs import PLAN

OLDER = "kafka==4.2.0"
ONE = replace(ACK_LOST, by_system={"kafka<4.3": {EOS: LOSES}})


def test_a_version_is_part_of_the_name_and_of_every_id() -> None:
    """The same scenarios, by the same client; the system of that name is deployed."""
    named, default = (choose([NONE], system=name) for name in (OLDER, "kafka"))
    assert [cell.id.replace(OLDER, "kafka") for cell in named] == [cell.id for cell in default]
    assert {cell.client for cell in named} == {"kafka-python"}
    assert registry.system(OLDER).name == OLDER
    assert registry.system("kafka").name == KafkaSystem().name == "kafka"
    assert {OLDER.partition("==")[2], VERSION} <= set(kafka_versions())


@pytest.mark.parametrize(
    ("name", "runtime", "said"),
    [
        (
            "kafka==9.9.9",
            "process",
            r"kafka==9\.9\.9: the checksums of its jars are not known; known versions: 4\.2\.0, ",
        ),
        ("kafka==", "process", "the checksums of its jars are not known"),
        (
            OLDER,
            "docker",
            (
                r"can be chosen in runtime process only; in docker the image sets the version "
                r"\(LOSTACK_IMAGE_KAFKA\)"
            ),
        ),
        (
            "spark==4.0.0",
            "process",
            "spark has no versions to choose from; these systems have: activemq, artemis, .*kafka",
        ),
        ("kafca==4.1.1", "process", "no system is called kafca; did you mean kafka?"),
    ],
)
def test_a_version_that_cannot_be_had_is_told(name: str, runtime: str, said: str) -> None:
    """One line, with what there is, before anything begins."""
    with pytest.raises(registry.UnknownNameError, match=said):
        choose([NONE], system=name, runtime=runtime)


def test_what_theory_says_of_some_versions_only() -> None:
    """A system at no version of its own is the default one; what is said of a client
    comes first.
    """
    assert ONE.expectation(EOS, "", OLDER) == LOSES
    assert (
        ONE.expectation(EOS, "", "kafka==4.3.0")
        == ONE.expectation(EOS, "", "kafka")
        == ACK_LOST.expect[EOS]
    )
    assert ONE.expectation(ALO, "", OLDER) == ACK_LOST.expect[ALO]
    both = replace(ONE, by_client={"java": {EOS: ACK_LOST.expect[AMO]}})
    assert both.expectation(EOS, "java", OLDER) == ACK_LOST.expect[AMO]
    with pytest.raises(SettingsError, match=r"kafka<4\.3 has an expectation, and expect has none"):
        replace(NONE, expect={ALO: NONE.expect[ALO]}, by_system={"kafka<4.3": {AMO: LOSES}})


def test_the_line_that_runs_a_cell_again_names_the_version() -> None:
    """As it does every system that is not run by default."""
    assert f" --system {OLDER} " in rerun_line(replace(PLAN, system=OLDER))
