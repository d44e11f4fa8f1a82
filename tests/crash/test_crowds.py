"""Many processes at once: no row is lost, no task fails, and whoever reads waits for nobody."""

from __future__ import annotations

from contextlib import closing

import psycopg2
import pytest

from crash.stories import STORIES
from crash.test_every_point import integrity_of

STORY = "answer lost, performed again"
"""A run with an effect that fails, a retry, and all that goes with them."""

WRITERS = {"sqlite": 4, "postgresql": 8}
RUNS = {"sqlite": 40, "postgresql": 10}
READERS = 1


def crowd(nursery, store, place, tmp_path, *, runs=None):
    """Bring up writers, all at the same moment and before there is a ledger; return them."""
    writers = [
        nursery.start(
            "crash.crowds:write",
            story=STORY,
            url=place["url"],
            # Shops of their own: it is not the shop that is to be crowded.
            shop=str(tmp_path / f"shop-{who}.db"),
            who=f"writer-{who}",
            runs=runs or RUNS[store],
        )
        for who in range(WRITERS[store])
    ]
    for writer in writers:
        assert writer.said() == "ready"
    for writer in writers:
        writer.say("go")
    return writers


def prove_all(nursery, store, place, tmp_path, played, *, runs=None):
    """Every run is there, whole, and came out as if it had been alone."""
    runs = runs or RUNS[store]
    assert [len(cases) for cases in played] == [runs] * WRITERS[store]
    for who, cases in enumerate(played):
        shop = str(tmp_path / f"shop-{who}.db")
        faults = nursery.call("crash.children:look_at", story=STORY, cases=cases, url=place["url"], shop=shop)
        assert faults == []
    assert nursery.call("crash.children:look_around", url=place["url"]) == []
    rows = nursery.call("crash.rivals:snapshot", url=place["url"])
    assert len(rows["RunRecord"]) == runs * WRITERS[store]


def test_many_processes_write_whole_runs_at_once_while_others_read(nursery, store, place, tmp_path):
    writers = crowd(nursery, store, place, tmp_path)
    dag_id = STORIES[STORY].workflow.name
    readers = [
        nursery.start("crash.crowds:read_along", url=place["url"], dag_id=dag_id) for _ in range(READERS)
    ]
    for writer in writers:
        assert writer.said() == "open"
    played = [writer.result() for writer in writers]
    for reader in readers:
        assert reader.said() == "ready"
        reader.say("enough")
        assert reader.result() > 0

    prove_all(nursery, store, place, tmp_path, played)
    if store == "sqlite":
        assert integrity_of(place["url"]) == [("ok",)]


def test_whoever_reads_does_not_wait_for_one_that_writes(nursery, store, place):
    """The writer stands in the middle of its transaction for as long as the reader takes, not for a time."""
    assert nursery.call("crash.children:play", story=STORY, case="before", **place) == []
    reader = nursery.start("crash.rivals:snapshot", url=place["url"], when_told=True)
    assert reader.said() == "open"
    writer = nursery.start(
        "crash.children:play_and_pause",
        story=STORY,
        case="slow",
        paused_at=("lose_effect.inside", 1),
        **place,
    )
    assert writer.said() == "paused"
    reader.say("read")
    # To wait for the writer would be to wait for good: SQLite and Postgres give up after 30 s.
    seen = reader.result()
    assert "started" in {record.state.value for record in seen["EffectRecord"]}
    writer.say("go on")
    assert writer.result() == []


@pytest.fixture(scope="module")
def impatient(start_postgres):
    """A server that looks for deadlocks at once, and not after a second."""
    return start_postgres(settings={"deadlock_timeout": "5ms"})


def test_who_is_given_up_in_a_deadlock_does_its_work_again(nursery, impatient, tmp_path):
    place = {"url": impatient.fresh_schema()}
    writers = crowd(nursery, "postgresql", place, tmp_path, runs=4)
    for writer in writers:
        # Its first run is there, and the tables with it.
        assert writer.said() == "open"
    others = [nursery.start("crash.crowds:get_in_the_way", url=place["url"]) for _ in range(2)]
    played = [writer.result() for writer in writers]
    given_up = 0
    for other in others:
        assert other.said() == "ready"
        other.say("enough")
        given_up += other.result()

    # The rest of them was the ledger's to try again.
    assert deadlocks(impatient) > given_up
    prove_all(nursery, "postgresql", place, tmp_path, played, runs=4)


EVERY = 17
"""More rows than one decision writes: what was given up comes through when it is done again."""


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_what_the_server_gives_up_is_done_again(code, nursery, postgres, scratch):
    """A serialization failure, or a deadlock, at any row that is written."""
    story = "undo fails for good"
    given = {"story": story, "url": postgres.fresh_schema(), "shop": str(scratch / f"shop-{code}.db")}
    assert nursery.call("crash.children:play", case="before", **given) == []
    spoil(postgres, given["url"], code)

    assert nursery.call("crash.children:play", case="spoilt", **given) == []

    assert given_up(postgres, given["url"]) > EVERY
    assert nursery.call("crash.children:look_around", url=given["url"]) == []


def spoil(server, url, code):
    """Have every so-manieth row that is written refused."""
    schema = schema_of(url)
    for statement in (
        f"CREATE SEQUENCE {schema}.written",
        f"GRANT USAGE ON {schema}.written TO {server.role.name}",
        f"""
        CREATE FUNCTION {schema}.spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('{schema}.written') % {EVERY} = 0 THEN
                RAISE EXCEPTION 'given up' USING ERRCODE = '{code}';
            END IF;
            RETURN NEW;
        END $$
        """,
        *(
            f"CREATE TRIGGER spoil BEFORE INSERT OR UPDATE ON {schema}.louver_{table} "
            f"FOR EACH ROW EXECUTE FUNCTION {schema}.spoil()"
            for table in ("run", "task", "transition", "effect", "payload", "checkpoint", "seal")
        ),
    ):
        server.execute(statement, database=server.database)


def given_up(server, url):
    rows = server.execute(f"SELECT last_value FROM {schema_of(url)}.written", database=server.database)
    return rows[0][0]


def schema_of(url):
    return url.rpartition("%3D")[2]


def deadlocks(server):
    # The counts are told a moment later, by the end of each session at the latest.
    with closing(psycopg2.connect(server.url())) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
        return cursor.fetchone()[0]
