"""A stage's settings, as its program reads them from its environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.stages.consumer_settings import (
    ConsumerSettings,
    GroupProtocol,
    SavePosition,
    ShareSettings,
)
from harness.stages.pushing import (
    Acknowledge,
    AcknowledgeSettings,
    Cursor,
    PushSettings,
    Subscription,
)
from harness.stages.queries import STREAMING
from harness.stages.querying import QuerySettings
from harness.stages.settings import PIPELINES, QUEUE_RECIPES, Settings
from harness.stages.stage import VARIABLE, Stage

RECIPES = [
    recipe
    for recipes in (*(each.recipes for each in (*PIPELINES, *STREAMING)), QUEUE_RECIPES)
    for recipe in recipes.values()
    if isinstance(recipe, Settings)
]
PUSHED = PushSettings(subscription=Subscription.KEY_SHARED, cursor=Cursor.WRITTEN)
OTHERS = [
    ConsumerSettings(
        position=SavePosition.AUTO, acknowledging=AcknowledgeSettings(Acknowledge.DUPS_OK)
    ),
    ConsumerSettings(
        position=SavePosition.CHECKPOINT, query=QuerySettings(executors=1, fail_on_loss=False)
    ),
    ConsumerSettings(position=SavePosition.AFTER_RECORDING, push=PUSHED),
    ConsumerSettings(
        position=SavePosition.BEFORE_WORK,
        protocol=GroupProtocol.SHARE,
        share=ShareSettings(implicit=True),
    ),
]


@pytest.mark.parametrize(
    "settings", [*RECIPES, *(replace(RECIPES[0], consumer=each) for each in OTHERS)]
)
def test_a_program_reads_the_settings_that_it_was_started_with(settings: Settings) -> None:
    stage = Stage(
        cell="cell",
        key="k",
        name="consumer",
        incarnation=1,
        bootstrap="",
        topic_in="k.in",
        topic_out="k.out",
        topic_cursor="k.cursor",
        group="k.group",
        outbox="",
        sink="",
        history="",
        settings=settings,
        jitter_ms=(1, 2),
    )
    assert repr(Stage.from_json(stage.environment()[VARIABLE])) == repr(stage)
