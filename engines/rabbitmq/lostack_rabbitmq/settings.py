"""What a node is told when it is started: its command, its variables, and its settings as its own
files have them. Pure: texts in, texts out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

NODE: Final = "lostack@localhost"
ADVANCED: Final = "advanced."
"""How the name of a setting begins that ``rabbitmq.conf`` cannot have."""
OURS: Final = {
    "log.console.level": "warning",
    "stomp.default_user": "guest",
    "stomp.default_pass": "guest",
}
"""lostack's, which a user may change. Over STOMP nobody has to say who he is."""
_FILES: Final = {
    "MNESIA_BASE": ".",
    "MNESIA_DIR": "node",
    "LOG_BASE": "log",
    "PLUGINS_EXPAND_DIR": "plugins",
    "ENABLED_PLUGINS_FILE": "enabled_plugins",
    "CONFIG_FILE": "rabbitmq.conf",
    "ADVANCED_CONFIG_FILE": "advanced.config",
    "CONF_ENV_FILE": "no-such-file",
    "FEATURE_FLAGS_FILE": "feature_flags",
    "GENERATED_CONFIG_DIR": "config",
    "SCHEMA_DIR": "schema",
    "PID_FILE": "pid",
}
"""The node's own files, by the end of the variable that names each."""


def command(erl: str, code: str, tells: str) -> tuple[str, ...]:
    """Return a node's command, without the scripts around it: ``erl`` becomes the server. ``code``:
    the server's; ``tells``: what it runs beside that. It needs no epmd, and listens for no other
    node.
    """
    return (
        *(erl, "-pa", code, "-noinput", "-s", "rabbit", "boot"),
        *("-boot", "start_sasl", "+W", "w", "+S", "2:2", "+sbwt", "none"),
        *("-sname", NODE, "-start_epmd", "false", "-dist_listen", "false", "-erl_epmd_port", "1"),
        *("-setcookie", "lostack", "-syslog", "logger", "[]"),
        *("-syslog", "syslog_error_logger", "false"),
        *("-kernel", "prevent_overlapping_partitions", "false"),
        *("-eval", tells),
    )


def variables(data: str, home: str, port: int) -> Mapping[str, str]:
    """Return what a node's scripts would set: all of its files are in its folder, ``data``.
    ``home``: where the server is installed.
    """
    return {
        "HOME": data,
        "ERL_LIBS": f"{home}/plugins",
        "RABBITMQ_HOME": home,
        "RABBITMQ_PLUGINS_DIR": f"{home}/plugins",
        "RABBITMQ_NODENAME": NODE,
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_LOGS": "-",
        **{f"RABBITMQ_{name}": f"{data}/{file}" for name, file in _FILES.items()},
    }


def files(settings: Mapping[str, str]) -> Mapping[str, str]:
    r"""Return the files with a node's settings. :data:`ADVANCED` ``APP.NAME`` is one of an
    application of the node.

    >>> files({"advanced.ra.wal_sync_method": "none"})["advanced.config"]
    '[{ra, [{wal_sync_method, none}]}].\n'
    """
    inside = [name for name in settings if name.startswith(ADVANCED)]
    lines = [f"{name} = {value}\n" for name, value in settings.items() if name not in inside]
    terms = [
        "{{{}, [{{{}, {}}}]}}".format(*name.removeprefix(ADVANCED).split(".", 1), settings[name])
        for name in inside
    ]
    return {
        "rabbitmq.conf": "".join(lines),
        "advanced.config": f"[{', '.join(terms)}].\n",
        "enabled_plugins": "[rabbitmq_stomp].\n",
    }
