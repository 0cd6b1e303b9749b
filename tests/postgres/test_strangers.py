"""Who may use a run's PostgreSQL server: a superuser of it can run any program as the server's
user, so whoever does not know the password is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from harness.services.postgres.program import USER

if TYPE_CHECKING:
    from harness.services.postgres.server import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("password", ["", "wrong", USER])
def test_nobody_gets_in_without_the_password(server: PostgresServer, password: str) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(
            host="127.0.0.1",
            port=server.port,
            user=USER,
            dbname="postgres",
            password=password,
            connect_timeout=5,
        ).close()


def test_its_password_is_in_no_command_line(server: PostgresServer) -> None:
    """Nor in a file beside its data, as every user may read some of these."""
    with psycopg.connect(server.address("postgres")) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)
        password = db.info.password
    assert password
    assert password not in " ".join(server.node.spec.argv)
