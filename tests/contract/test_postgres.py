"""A ledger in Postgres: who may connect, where its URL leads, and what a session is like."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from urllib.parse import quote

import psycopg2
import pytest
from support.certificates import Authority
from support.ledgers import EVENT, await_, hold_connections, place, read, refused, schema_of, write
from support.postgres import AWKWARD, sql

from louver.errors import ConfigurationError, LedgerClosed, LedgerSchemaError
from louver.ledger import open_ledger
from louver.ledger.sql.postgres import connections
from louver.ledger.sql.postgres.statements import COMMIT
from louver.ledger.sql.schema import upgrade
from louver.ledger.sql.tables import METADATA, VERSION_TABLE
from louver.testing import CHECKS, run_contract
from louver.testing.scene import Scene


@pytest.fixture(scope="module")
def authority():
    return Authority("Louver's tests")


@pytest.fixture(scope="module")
def encrypted(start_postgres, authority):
    """A server that may be spoken to by TLS."""
    return start_postgres(tls=authority.issue("127.0.0.1"))


def ask(ledger, statement):
    """What a session of the ledger's own says."""
    with ledger._engines.begin() as connection:
        return connection.exec_driver_sql(statement).scalar()


def test_awkward_names_and_an_awkward_password(postgres, opening):
    role = postgres.fresh_role("Rôle @:/%41 'x' \"y\"")
    name = postgres.fresh_database("däta/base?#%41 &=", role=role)
    ledger = opening(postgres.url(database=name, role=role))
    write(ledger)
    assert read(ledger) == EVENT
    assert ask(ledger, "SELECT current_user") == role.name
    assert ask(ledger, "SELECT current_database()") == name
    assert AWKWARD not in repr(ledger)
    assert quote(AWKWARD, safe="") not in repr(ledger)


def test_a_wrong_password_a_wrong_role_and_a_wrong_database_are_told(postgres):
    wrong = type(postgres.role)(postgres.role.name, AWKWARD + "!")
    said = refused(lambda: open_ledger(postgres.url(role=wrong)))
    assert place(postgres) in said
    assert "password authentication failed" in said
    assert "check that the server runs, and host, port, database, user and password" in said

    missing = type(postgres.role)("nobody", AWKWARD)
    said = refused(lambda: open_ledger(postgres.url(role=missing)))
    assert f"postgresql://nobody:***@127.0.0.1:{postgres.port}/louver" in said

    said = refused(lambda: open_ledger(postgres.url(database="missing")))
    assert f"127.0.0.1:{postgres.port}/missing" in said
    assert 'database "missing" does not exist' in said


def test_a_database_that_cannot_hold_all_text_is_refused_at_open(postgres):
    postgres.execute("CREATE DATABASE narrow OWNER louver ENCODING 'LATIN1' TEMPLATE template0")
    said = refused(lambda: open_ledger(postgres.url(database="narrow")), ConfigurationError)
    assert f"127.0.0.1:{postgres.port}/narrow" in said
    assert "LATIN1" in said
    assert "ENCODING 'UTF8'" in said


def test_two_ledgers_in_two_schemas_of_one_database_do_not_meet(postgres, opening):
    name = postgres.fresh_database()
    for schema in ("one", "Two & three"):
        postgres.execute(
            sql.SQL("CREATE SCHEMA {} AUTHORIZATION louver").format(sql.Identifier(schema)), database=name
        )
    one = opening(postgres.url(database=name, options="-csearch_path=one"))
    other = opening(postgres.url(database=name, options='-csearch_path="Two\\ &\\ three"'))
    write(one)
    assert read(one) == EVENT
    assert read(other) is None
    write(other, "b")
    assert read(one, "b") is None
    found = postgres.execute(
        "SELECT schemaname, tablename FROM pg_tables "
        "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')",
        database=name,
    )
    expected = {*METADATA.tables, VERSION_TABLE}
    assert sorted(found) == sorted((schema, table) for schema in ("one", "Two & three") for table in expected)


def test_a_schema_that_does_not_exist_is_told(postgres):
    url = postgres.url(options="-csearch_path=missing")
    said = refused(lambda: open_ledger(url), LedgerSchemaError)
    assert place(postgres) in said
    assert "search_path" in said


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"application_name": "louver", "lock_timeout": "30s"}),
        ({"application_name": "shop"}, {"application_name": "shop"}),
        ({"options": "-clock_timeout=7s"}, {"lock_timeout": "7s"}),
        ({"options": "-clock_timeout=0"}, {"lock_timeout": "0"}),
    ],
    ids=["as we set it", "name", "limit", "no limit"],
)
def test_what_the_url_says_about_the_session_goes_first(postgres, opening, given, expected):
    name = postgres.fresh_database()
    ledger = opening(postgres.url(database=name, **given))
    assert {setting: ask(ledger, f"SHOW {setting}") for setting in expected} == expected


def test_what_an_administrator_set_for_the_role_is_kept(postgres, opening):
    role = postgres.fresh_role()
    name = postgres.fresh_database(role=role)
    postgres.execute(f"ALTER ROLE {role.name} SET idle_in_transaction_session_timeout = '9min'")
    postgres.execute(f"ALTER ROLE {role.name} SET default_transaction_isolation = 'serializable'")
    ledger = opening(postgres.url(database=name, role=role))
    assert ask(ledger, "SHOW idle_in_transaction_session_timeout") == "9min"
    # But not this: the ledger is written for it.
    assert ask(ledger, "SHOW transaction_isolation") == "read committed"


def test_a_session_speaks_utf8_whatever_the_environment_says(postgres_url, opening, monkeypatch):
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    monkeypatch.setenv("PGAPPNAME", "given")
    ledger = opening(postgres_url)
    assert ask(ledger, "SHOW client_encoding") == "UTF8"
    assert ask(ledger, "SHOW application_name") == "given"


TCP = {
    "TCP_KEEPIDLE": 5,
    "TCP_KEEPINTVL": 2,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 10_000,
}


@pytest.mark.skipif(not all(hasattr(socket, name) for name in TCP), reason="needs Linux's socket options")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, TCP),
        ({"tcp_user_timeout": "3000"}, {**TCP, "TCP_USER_TIMEOUT": 3000}),
        ({"keepalives_idle": "60", "keepalives_count": "9"}, {**TCP, "TCP_KEEPIDLE": 60, "TCP_KEEPCNT": 9}),
    ],
    ids=["as we set it", "timeout", "keepalives"],
)
def test_a_network_that_falls_silent_is_noticed_after_some_seconds(postgres, opening, given, expected):
    ledger = opening(postgres.fresh_schema(**given))
    with ledger._engines.begin() as connection:
        end = socket.socket(fileno=connection.connection.dbapi_connection.fileno())
        try:
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            found = {name: end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in expected}
        finally:
            end.detach()
    assert found == expected


def test_a_server_that_takes_the_call_and_says_nothing_is_given_up():
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        said = refused(
            lambda: open_ledger(f"postgresql://me:{quote(AWKWARD)}@127.0.0.1:{port}/db?connect_timeout=2")
        )
    assert f"postgresql://me:***@127.0.0.1:{port}/db" in said
    assert "timeout expired" in said


def test_tls_with_the_root_that_signed(encrypted, authority, opening, tmp_path):
    root = tmp_path / "röot 1.crt"
    root.write_text(authority.root)
    ledger = opening(encrypted.fresh_schema(sslmode="verify-full", sslrootcert=str(root)))
    write(ledger)
    assert read(ledger) == EVENT
    assert ask(ledger, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") is True


def test_tls_with_another_root_is_refused(encrypted, tmp_path):
    root = tmp_path / "other.crt"
    root.write_text(Authority("Somebody else").root)
    url = encrypted.url(sslmode="verify-full", sslrootcert=str(root))
    said = refused(lambda: open_ledger(url))
    assert place(encrypted) in said
    assert "certificate verify failed" in said
    assert "sslrootcert" in said


def test_tls_by_another_name_is_refused(encrypted, authority, tmp_path):
    root = tmp_path / "root.crt"
    root.write_text(authority.root)
    url = encrypted.url(sslmode="verify-full", sslrootcert=str(root), hostaddr="127.0.0.1")
    said = refused(lambda: open_ledger(url.replace("@127.0.0.1:", "@elsewhere.example:")))
    assert "does not match host name" in said
    assert "@elsewhere.example:" in said


def test_tls_where_there_is_none_is_refused(postgres):
    said = refused(lambda: open_ledger(postgres.url(sslmode="require")))
    assert place(postgres) in said
    assert "SSL" in said


def limited(server, *, rights, database, schema="public"):
    """A role that has these rights on the tables of the schema, and none to make or change tables."""
    role = server.fresh_role()
    for statement in (
        f"GRANT USAGE ON SCHEMA {schema} TO {role.name}",
        *([f"GRANT {rights} ON ALL TABLES IN SCHEMA {schema} TO {role.name}"] if rights else []),
    ):
        server.execute(statement, database=database)
    return role


def test_a_role_that_may_not_change_tables_works_on_those_that_are_there(postgres):
    url = postgres.fresh_schema()
    upgrade(url)
    role = limited(
        postgres, rights="SELECT, INSERT, UPDATE, DELETE", database=postgres.database, schema=schema_of(url)
    )
    mine = postgres.url(role=role, options=f"-csearch_path={schema_of(url)}")
    assert run_contract(lambda: open_ledger(mine)) == [check.__name__ for check in CHECKS]


def test_a_role_that_may_not_make_the_tables_is_told_who_has_to(postgres):
    url = postgres.fresh_schema()
    role = limited(postgres, rights=None, database=postgres.database, schema=schema_of(url))
    mine = postgres.url(role=role, options=f"-csearch_path={schema_of(url)}")
    for way in (open_ledger, upgrade):
        said = refused(lambda way=way: way(mine), LedgerSchemaError)
        assert f"postgresql://{role.name}:***@" in said
        assert "may not create or change tables" in said
        assert "run `airflow louver db upgrade` once with a role that may" in said


@pytest.mark.parametrize("rights", ["SELECT", "INSERT, UPDATE"])
def test_a_role_that_lacks_rights_on_the_tables_is_told_which(postgres, rights):
    url = postgres.fresh_schema()
    upgrade(url)
    role = limited(postgres, rights=rights, database=postgres.database, schema=schema_of(url))
    mine = postgres.url(role=role, options=f"-csearch_path={schema_of(url)}")

    def use():
        with closing(open_ledger(mine)) as ledger:
            write(ledger)

    said = refused(use)
    assert f"postgresql://{role.name}:***@" in said
    assert "permission denied for table louver_" in said
    assert "grant the role SELECT, INSERT" in said


def test_a_role_that_may_not_enter_the_schema_is_told(postgres):
    url = postgres.fresh_schema()
    upgrade(url)
    role = postgres.fresh_role()
    mine = postgres.url(role=role, options=f"-csearch_path={schema_of(url)}")
    said = refused(lambda: open_ledger(mine), LedgerSchemaError)
    assert f"postgresql://{role.name}:***@" in said
    assert "USAGE" in said


def test_a_server_that_only_reads_is_told_at_open_and_in_use(postgres, opening):
    role = postgres.fresh_role()
    url = postgres.fresh_schema(role=role)
    ledger = opening(url)
    write(ledger)
    postgres.execute(f"ALTER ROLE {role.name} SET default_transaction_read_only = on")
    assert "the server is read-only; name the primary" in refused(lambda: open_ledger(url))
    postgres.end_sessions(role)
    assert "the server is read-only; name the primary" in refused(lambda: write(ledger, "b"))
    assert read(ledger) == EVENT
    postgres.execute(f"ALTER ROLE {role.name} RESET default_transaction_read_only")
    postgres.end_sessions(role)
    write(ledger, "b")
    assert read(ledger, "b") == EVENT


def test_close_twice_is_fine_and_use_after_it_a_clear_error(postgres_url):
    ledger = open_ledger(postgres_url)
    write(ledger)
    ledger.close()
    ledger.close()
    for use in (write, read):
        with pytest.raises(LedgerClosed, match="open it again"):
            use(ledger)


def test_close_leaves_no_session_behind(postgres):
    role = postgres.fresh_role()
    ledger = open_ledger(postgres.fresh_schema(role=role))
    hold_connections(ledger, 3)
    assert len(postgres.sessions(role)) == 3
    ledger.close()
    # A server needs a moment to see that a client is gone.
    await_(lambda: not postgres.sessions(role))


@pytest.mark.parametrize(("borrows", "form"), [(0, "EXECUTE {}"), (99, "/* {} */")], ids=["held", "borrowed"])
def test_a_frequent_decision_is_one_statement_and_nobody_asks_first_whether_the_server_is_there(
    postgres, opening, monkeypatch, borrows, form
):
    monkeypatch.setattr(connections, "_BORROWS", borrows)
    role = postgres.fresh_role()
    postgres.execute(f"ALTER ROLE {role.name} SET log_statement = 'all'")
    url = postgres.fresh_schema(role=role)
    scene = Scene(name="scene", open_ledger=lambda: opening(url))
    token = scene.launch()
    scene.current(scene.committed(token, "first"))
    before = len(postgres.log())

    scene.committed(token, "second")

    told = [line for line in postgres.log()[before:].splitlines() if "LOG:  statement:" in line]
    assert [line.partition("statement: ")[2].split("(")[0].rstrip() for line in told] == [
        form.format("louver_begin_effect").rstrip(),
        form.format("louver_commit_effect").rstrip(),
    ]


def test_an_effect_is_committed_by_its_key_however_many_its_run_has(postgres, opening):
    """The server keeps the plan that it made when there were few, so it must be one that is good for many."""
    url = postgres.fresh_schema()
    opening(url)
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.execute("SET plan_cache_mode = force_generic_plan")
        cursor.execute(COMMIT.prepare)
        cursor.execute(f"EXPLAIN {COMMIT.execute}", [None] * len(COMMIT.parameters))
        plan = "\n".join(line for (line,) in cursor.fetchall())

    assert "louver_effect_pkey" in plan
    assert "louver_effect_by_run" not in plan


def test_threads_that_come_and_go_share_the_connections_of_those_before_them(postgres, opening):
    role = postgres.fresh_role()
    url = postgres.fresh_schema(role=role)
    scene = Scene(name="threads", open_ledger=lambda: opening(url))
    token = scene.launch()
    failures = []

    def work():
        # More often than a process borrows for: from then on connections are kept.
        try:
            for _ in range(20):
                scene.ledger.advance(token, now=scene.now)
        except BaseException as error:
            failures.append(error)

    def in_a_thread():
        one = threading.Thread(target=work)
        one.start()
        one.join()
        return postgres.sessions(role)

    first = in_a_thread()

    assert len(first) == 1
    assert [in_a_thread() for _ in range(5)] == [first] * 5
    assert not failures
