"""What a server, and a stream, are told when they are made. Without I/O."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

OF_STREAMS: Final = "stream."
"""How the name of a setting begins that is a stream's, and not the server's."""
KEPT: Final = "lostack-kept"
"""The end of the subject of a work queue's first message, which nobody reads: the server removes a
block of which all messages are acknowledged, and this one keeps it.
"""


def typed(text: str) -> object:
    """Return a setting as its type has it in JSON.

    >>> typed("1000"), typed("true"), typed("workqueue")
    (1000, True, 'workqueue')
    """
    try:
        found: object = json.loads(text)
    except ValueError:
        return text
    return found


def server_text(
    name: str, port: int, store: str, settings: Mapping[str, str], cluster: Sequence[int] = ()
) -> str:
    """Return the text of a server's configuration. ``settings``: of JetStream; ``cluster``: the
    ports at which the servers connect to each other, its own first. Clients are told no address.
    """
    own = {k: v for k, v in settings.items() if not k.startswith(OF_STREAMS)}
    lines = "".join(f"  {name}: {value}\n" for name, value in own.items())
    text = (
        f'server_name: {name}\nlisten: "127.0.0.1:{port}"\n'
        f'jetstream {{\n  store_dir: "{store}"\n{lines}}}\n'
    )
    if not cluster:
        return text
    routes = ", ".join(f'"nats://127.0.0.1:{each}"' for each in cluster)
    return (
        f'{text}cluster {{\n  name: lostack\n  listen: "127.0.0.1:{cluster[0]}"\n'
        f"  no_advertise: true\n  routes: [{routes}]\n}}\n"
    )


def stream_config(
    name: str, settings: Mapping[str, str], *, forgets: bool, replicas: int
) -> dict[str, object]:
    """Return what a stream is made of. ``forgets``: whether it forgets what is acknowledged."""
    own = {k.removeprefix(OF_STREAMS): v for k, v in settings.items() if k.startswith(OF_STREAMS)}
    return {
        "name": name,
        "subjects": [name, f"{name}.{KEPT}"] if forgets else [name],
        "retention": "workqueue" if forgets else "limits",
        "storage": "file",
        "num_replicas": replicas,
        **{name: typed(value) for name, value in own.items()},
    }
