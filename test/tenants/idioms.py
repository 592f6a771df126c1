# SPDX-License-Identifier: ISC
"""How applications say for which tenant a connection works, and what makes PostgreSQL obey.

An idiom has a table, whose rows it may see and write, and says the tenant either outside of
transactions, for all that follow, or within each. Each table has two columns: the tenant that
PostgreSQL believed in when the row was written, and the writer, who knows better.
"""

from collections import namedtuple

from attack.guest import quote
from e2e.kit.wire import query

# What PostgreSQL believes, by table. The tables "role" and "path" have rules of their own.
BELIEFS = {
    "setting": "nullif(current_setting('app.tenant', true), '')",
    "json": "nullif(current_setting('hasura.user', true), '')::json ->> 'x-hasura-tenant'",
    "jwt": "nullif(current_setting('request.jwt.claims', true), '')::json ->> 'tenant'",
    "role": "current_user::text",
}

ROLES = """
CREATE ROLE web_user
GRANT web_user TO alice, bob
"""

FUNCTIONS = """
CREATE FUNCTION set_tenant(tenant text) RETURNS text LANGUAGE sql
	AS 'SELECT set_config(''app.tenant'', $1, false)';
CREATE FUNCTION use_tenant(tenant text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN EXECUTE format(''SET app.tenant = %L'', tenant); END';
CREATE FUNCTION outer_tenant(tenant text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN PERFORM set_tenant(tenant); END';
CREATE FUNCTION be_tenant(tenant text) RETURNS void LANGUAGE plpgsql
	AS 'BEGIN PERFORM set_config(''role'', tenant, false); END';
CREATE PROCEDURE enter(name text, tenant text) LANGUAGE plpgsql
	AS 'BEGIN PERFORM set_config(name, tenant, false); END';
"""


def roles(tenants):
    yield from ROLES.strip().splitlines()
    for tenant in tenants:
        yield f"CREATE ROLE {tenant}; GRANT {tenant} TO alice, bob"


def objects(tenants, rows):
    """The texts that make the tables; each tenant has so many rows in each."""
    for name, belief in BELIEFS.items():
        yield f"""CREATE TABLE by_{name} (id bigserial, tenant text NOT NULL CHECK (tenant ~ '^t[0-9]+$')
			DEFAULT {belief}, writer text NOT NULL);
			CREATE INDEX ON by_{name} (tenant, id);
			ALTER TABLE by_{name} ENABLE ROW LEVEL SECURITY;
			CREATE POLICY own ON by_{name} USING (tenant = {belief});
			GRANT SELECT, INSERT ON by_{name} TO PUBLIC; GRANT ALL ON by_{name}_id_seq TO PUBLIC"""
        yield (f"INSERT INTO by_{name} (tenant, writer) SELECT 't' || t, 't' || t"
               f" FROM generate_series(0, {len(tenants) - 1}) t, generate_series(1, {rows})")
    for tenant in tenants:
        yield f"""CREATE SCHEMA {tenant}; GRANT USAGE ON SCHEMA {tenant} TO PUBLIC;
			CREATE TABLE {tenant}.by_path (id bigserial, tenant text DEFAULT '{tenant}', writer text);
			GRANT SELECT, INSERT ON {tenant}.by_path TO PUBLIC; GRANT ALL ON {tenant}.by_path_id_seq TO PUBLIC;
			INSERT INTO {tenant}.by_path (writer) SELECT '{tenant}' FROM generate_series(1, {rows})"""


# `enter`: says the tenant outside of a transaction. `begin`: within each. Both get the client and
# the tenant, and return the messages, one response each. `leave` is run when the tenant changes.
# `calls`: it needs FUNCTIONS. `may_lose`: the tenant may be forgotten today (but never be another's):
# it is counted, and no finding.
Idiom = namedtuple("Idiom", "name table enter begin leave may_lose startup calls",
                   defaults=(None, None, None, False, None, False))


def plain(text):
    return lambda client, tenant: [query(text.format(t=tenant))]


def some(*texts):
    return lambda client, tenant: [query(client.rng.choice(texts).format(t=tenant))]


def called(text):
    """A text with the tenant as its only value: a constant, or bound."""
    def enter(client, tenant):
        if client.rng.random() < 0.4:
            return [query(text.replace("$1", quote(tenant)))]
        return [client.bound(text, (tenant,), client.rng.random() < 0.5)]
    return enter


def postgrest(client, tenant):
    claims = f'{{"role": "web_user", "tenant": "{tenant}"}}'
    if client.rng.random() < 0.5:
        return [client.bound("SELECT set_config('request.jwt.claims', $1, true), set_config('role', $2, true),"
                             " set_config('search_path', 'public', true)", (claims, "web_user"), True)]
    return [query(f"SELECT set_config('request.jwt.claims', {quote(claims)}, true)"), query("SET LOCAL ROLE web_user")]


def hasura(client, tenant):
    user = f'{{"x-hasura-role": "user", "x-hasura-tenant": "{tenant}"}}'
    if client.rng.random() < 0.5:
        return [client.bound("SELECT set_config('hasura.user', $1, true)", (user,))]
    return [query(f'SET LOCAL "hasura.user" = {quote(user)}')]


def hasura_session(client, tenant):
    user = f'{{"x-hasura-role": "user", "x-hasura-tenant": "{tenant}"}}'
    return [client.bound("SELECT set_config('hasura.user', $1, false)", (user,), client.rng.random() < 0.5)]


def hibernate(client, tenant):
    return [client.bound("select set_config($1, $2, false)", ("app.tenant", tenant), True)]


def execute(client, tenant):
    """A prepared statement whose parameter is the name."""
    begin = []
    if "execute" not in client.known:
        client.known.add("execute")
        client.saying = f"says{client.mark().replace('.', '_')}"
        begin = [query(f"PREPARE {client.saying} AS SELECT set_config($1, $2, false)")]
    text = f"EXECUTE {client.saying}('app.tenant', '{tenant}')"
    how = client.rng.randrange(4)
    if how == 0:
        return begin + [query(f"EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) {text}")]
    return begin + [client.bound(text) if how == 1 else query(text)]


def computed(client, tenant):
    return [query(client.rng.choice((
        f"SELECT set_config('app.' || 'tenant', '{tenant}', false)",
        f"SELECT set_config('app.tenant'::text, '{tenant}', false)",
        f"SELECT set_config($$app.tenant$$, '{tenant}', false)",
        f"SELECT set_config(E'app.tenant', '{tenant}', false)")))]


def procedure(client, tenant):
    if client.rng.random() < 0.5:
        return [query(f"CALL enter('app.tenant', '{tenant}')")]
    return [client.bound("CALL enter($1, $2)", ("app.tenant", tenant))]


SPELLINGS = ("SET app . tenant = '{t}'", "SET app/* dot */.tenant TO '{t}'", "SET app.\n\ttenant = '{t}'",
             'SET "app" . "tenant" = \'{t}\'', 'SET SESSION "app"."tenant" = {t}', "SET APP.TENANT TO {t};",
             "SELECT 1; SET app . tenant = '{t}'", "SET app -- so\n . tenant = '{t}'")

IDIOMS = (
    Idiom("PostgREST", "jwt", begin=postgrest),
    Idiom("Hasura", "json", begin=hasura),
    Idiom("Hasura, for the session", "json", enter=hasura_session),
    Idiom("Django", "setting", enter=plain("SET app.tenant = '{t}'")),
    Idiom("Django, ATOMIC", "setting", begin=plain("SET app.tenant = '{t}'")),
    Idiom("Rails, apartment", "path", enter=plain("SET search_path TO \"{t}\", \"public\"")),
    Idiom("Rails", "setting", enter=plain("SET app.tenant = '{t}'"), leave=plain("RESET app.tenant")),
    Idiom("Hibernate", "setting", enter=hibernate),
    Idiom("Hibernate, schema", "path", enter=called("select set_config('search_path', $1, false)")),
    Idiom("SET LOCAL", "setting", begin=some("SET LOCAL app.tenant = '{t}'",
                                             "SELECT set_config('app.tenant', '{t}', true)")),
    Idiom("SQL function", "setting", enter=called("SELECT set_tenant($1)"), calls=True, may_lose=True),
    Idiom("PL/pgSQL, dynamic", "setting", enter=called("SELECT use_tenant($1)"), calls=True, may_lose=True),
    Idiom("nested functions", "setting", enter=called("SELECT * FROM outer_tenant($1)"), calls=True, may_lose=True),
    Idiom("function sets the role", "role", enter=called("SELECT be_tenant($1)"), calls=True, may_lose=True),
    Idiom("function, within a transaction", "setting", begin=called("SELECT set_tenant($1)"), calls=True),
    Idiom("procedure", "setting", enter=procedure, calls=True),
    Idiom("DO", "setting", enter=plain("DO $$ BEGIN PERFORM set_tenant('{t}'); END $$"), calls=True),
    Idiom("EXECUTE", "setting", enter=execute, may_lose=True),
    Idiom("spelled strangely", "setting", enter=some(*SPELLINGS), may_lose=True),
    Idiom("name is computed", "setting", enter=computed, leave=plain("DISCARD ALL")),
    Idiom("startup packet", "setting", startup="-c app.tenant={t}"),
    Idiom("startup packet, path", "path", startup="-c search_path={t}"),
    Idiom("SET ROLE", "role", enter=plain("SET ROLE {t}")),
    Idiom("SET LOCAL ROLE", "role", begin=plain("SET LOCAL ROLE {t}")),
)
# Has no tenant, and must see and write nothing.
NOBODY = Idiom("nobody", "setting")
