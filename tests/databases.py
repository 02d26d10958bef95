"""How a test process comes by its database, and how it becomes empty again where no transaction does that.

Django's own ways take longer than most tests: each process would migrate for three seconds, and a TRUNCATE
of all tables makes each of them and its indexes anew, written to or not.
"""

import psycopg
from django.db import OperationalError

MIGRATED, UNFINISHED = "migrated", "unfinished"
FLUSHES = 5
OF_THE_MODELS = {"django_content_type", "auth_permission"}
"""Tables that Django fills from the models alone, after each migration and each flush."""


def copy_a_migrated_one(connection, postgres_url):
    """Let Django copy a database instead of migrating one; the first process of a run makes the original."""
    settings = connection.settings_dict
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute("SELECT pg_advisory_lock(0)")  # held until this connection ends, however it ends
        if not server.execute("SELECT FROM pg_database WHERE datname = %s", [MIGRATED]).fetchall():
            names = settings["NAME"], settings["TEST"]["NAME"]
            settings["TEST"]["NAME"] = UNFINISHED
            connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
            connection.close()  # nobody may be connected to what is copied
            settings["NAME"], settings["TEST"]["NAME"] = names
            server.execute(f"ALTER DATABASE {UNFINISHED} RENAME TO {MIGRATED}")
    settings["TEST"] |= {"TEMPLATE": MIGRATED, "MIGRATE": False}


def flush_what_has_rows(ops):
    """Empty the tables that have rows, and with them those that refer to them, instead of all tables."""
    flush_all = ops.sql_flush

    def flush(style, tables, *, reset_sequences=False, allow_cascade=False):
        if reset_sequences:  # of an empty table as well
            return flush_all(style, tables, reset_sequences=True, allow_cascade=allow_cascade)
        names = [ops.quote_name(table) for table in tables if table not in OF_THE_MODELS]
        filled = " UNION ALL ".join(
            f"SELECT '{name}' AS name WHERE EXISTS (SELECT FROM {name})" for name in names
        )
        return [
            # as TRUNCATE would: what others are about to write is waited for, and goes as well
            f"LOCK TABLE {', '.join(names)} IN ACCESS EXCLUSIVE MODE",
            f"""DO $$ DECLARE filled text; BEGIN
                SELECT string_agg(name, ', ') INTO filled FROM ({filled}) AS every;
                IF filled IS NOT NULL THEN EXECUTE 'TRUNCATE ' || filled || ' CASCADE'; END IF;
            END $$""",
        ]

    ops.sql_flush = flush


def flush_beside_readers(ops):
    """Empty the tables again where PostgreSQL ended that for the sake of a server that reads them.

    A process of the service may still be in a query as a test ends. If that query holds one table and asks
    for another one, it and the flush wait for each other.
    """
    flush = ops.execute_sql_flush

    def flush_again(statements):
        for left in reversed(range(FLUSHES)):
            try:
                flush(statements)
            except OperationalError as error:
                if not left or not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                    raise
            else:
                return

    ops.execute_sql_flush = flush_again
