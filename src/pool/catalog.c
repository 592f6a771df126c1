/* SPDX-License-Identifier: ISC */
/*
 * The question about a database's catalog.
 *
 * Whatever leads to session state behind a client's back is code in the catalog: a function, or an
 * expression of a view, rule, default, check, policy or trigger that calls one of PostgreSQL's own.
 * Which of them a text reaches is not looked for: if there is any, nobody is sure of any text.
 *
 * A body in SQL or PL/pgSQL is harmless if it has none of some words outside of strings and
 * comments; an UPDATE has one SET. What cannot be read counts as found: other languages, dynamic
 * SQL, bodies with a backslash or dollar quotes, in which the end of a string is not certain.
 * Functions of PostgreSQL's own extensions are harmless.
 *
 * Sequences, in the same way: a text that does not write uses one only through a function, a view
 * or a policy. Defaults and triggers work for texts that write.
 *
 * Hard here: the session may be in any state. search_path is set to pg_catalog for the question.
 * Brackets and chr() instead of backslashes: those mean other things with other values of
 * standard_conforming_strings.
 */
#include "pgweir/pool/catalog.h"

#include <string.h>

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/fields.h"

#include "pgweir/base/banned.h"

#define COLUMNS 3 /* of the answer */

#define USEC_CHECK USEC_PER_SEC             /* between two looks for changes */
#define USEC_READ_AGAIN (60 * USEC_PER_SEC) /* what could not be read, or has no counts */

/* PostgreSQL's own functions that touch the session, as words in bodies and by name. */
#define WORDS                                                                                     \
	"set_config|setseed|set_limit|ts_stat|ts_rewrite|query_to_xml[a-z_]*|crosstab[0-9a-z_]*|" \
	"connectby|xpath_table|dblink[a-z_]*|pg_(try_)?advisory_lock(_shared)?|pg_backup_start|"  \
	"pg_start_backup|pg_(create|copy)_(logical|physical)_replication_slot|"                   \
	"pg_replication_origin_session_setup|sepgsql_setcon|pg_settings"
#define NAMES                                                                               \
	"set_config,setseed,ts_stat,ts_rewrite,query_to_xml,query_to_xmlschema,"            \
	"query_to_xml_and_xmlschema,pg_advisory_lock,pg_advisory_lock_shared,"              \
	"pg_try_advisory_lock,pg_try_advisory_lock_shared,pg_backup_start,pg_start_backup," \
	"pg_create_physical_replication_slot,pg_create_logical_replication_slot,"           \
	"pg_copy_physical_replication_slot,pg_copy_logical_replication_slot,"               \
	"pg_replication_origin_session_setup"

/* Of PostgreSQL's manual, "Additional Supplied Modules". Those that run texts are not in it. */
#define EXTENSIONS                                                                                 \
	"amcheck,autoinc,bloom,btree_gin,btree_gist,citext,cube,dict_int,dict_xsyn,"               \
	"earthdistance,file_fdw,fuzzystrmatch,hstore,insert_username,intarray,isn,lo,ltree,"       \
	"moddatetime,pageinspect,pg_buffercache,pg_freespacemap,pg_prewarm,pg_stat_statements,"    \
	"pg_visibility,pg_walinspect,pgcrypto,pgrowlocks,pgstattuple,plpgsql,postgres_fdw,refint," \
	"seg,sslinfo,tcn,tsm_system_rows,tsm_system_time,unaccent,uuid-ossp"

static const char begin[] =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY,NOT DEFERRABLE;"
    "SET LOCAL search_path=pg_catalog,pg_temp;SET LOCAL statement_timeout=5000;";

/* Which server it is, and how often rows of these catalogs were written there. */
static const char changes[] =
    "SELECT concat(date_part('epoch',pg_postmaster_start_time()),' ',"
    "(SELECT sum(pg_stat_get_tuples_inserted(oid)+pg_stat_get_tuples_updated(oid)"
    "+pg_stat_get_tuples_deleted(oid))FROM pg_class WHERE relnamespace=11 AND relname=ANY("
    "'{pg_proc,pg_rewrite,pg_attrdef,pg_constraint,pg_policy,pg_trigger,pg_extension,'"
    "'pg_sequence}'))),";

/* Expressions that call those: as pg_node_tree has them. */
static const char nodes[] =
    "WITH b(re)AS MATERIALIZED(SELECT concat(':(funcid|opfuncid|aggfnoid|winfnoid) (',"
    "string_agg(CAST(oid AS text),'|'),')[[:>:]]|:relid ',"
    "CAST(CAST('pg_catalog.pg_settings'AS regclass)AS oid),'[[:>:]]')"
    "FROM pg_proc WHERE oid<16384 AND proname=ANY('{" NAMES "}')),";

static const char functions[] =
    "f(name,lang,src,tree,is_called)AS MATERIALIZED(SELECT p.proname,l.lanname,"
    "p.prosrc COLLATE\"C\",CAST(p.prosqlbody AS text),"
    "p.prokind<>'p'AND p.prorettype<>ALL('{trigger,event_trigger}'::regtype[])"
    "FROM pg_proc AS p JOIN pg_language AS l ON l.oid=p.prolang "
    "WHERE p.oid>=16384 AND NOT EXISTS(SELECT FROM pg_depend AS d "
    "JOIN pg_extension AS e ON e.oid=d.refobjid "
    "WHERE d.classid=CAST('pg_catalog.pg_proc'AS regclass)AND d.objid=p.oid "
    "AND d.refclassid=CAST('pg_catalog.pg_extension'AS regclass)AND d.deptype='e'"
    "AND e.extname=ANY('{" EXTENSIONS "}'))),";

static const char expressions[] =
    "x(what,tree)AS("
    "SELECT concat('view or rule of ',CAST(ev_class AS regclass)),"
    "concat(CAST(ev_action AS text),CAST(ev_qual AS text))FROM pg_rewrite WHERE oid>=16384 "
    "UNION ALL SELECT concat('default of ',CAST(adrelid AS regclass)),CAST(adbin AS text)"
    "FROM pg_attrdef WHERE oid>=16384 "
    "UNION ALL SELECT concat('constraint ',conname),CAST(conbin AS text)"
    "FROM pg_constraint WHERE oid>=16384 AND conbin IS NOT NULL "
    "UNION ALL SELECT concat('policy ',polname),"
    "concat(CAST(polqual AS text),CAST(polwithcheck AS text))FROM pg_policy "
    "UNION ALL SELECT concat('trigger ',tgname),CAST(tgqual AS text)"
    "FROM pg_trigger WHERE oid>=16384 AND tgqual IS NOT NULL)";

/* A body without strings and comments, FOR UPDATE, ON CONFLICT DO, and the SET of each UPDATE. */
static const char bare_body[] =
    "regexp_replace(regexp_replace(lower(regexp_replace(src,"
    "concat('(\"[^\"]*\")|''[^'']*''|--[^',chr(10),chr(13),']*|/[*]([^*]|[*]+[^*/])*[*]+/'),"
    "concat(chr(92),'1 '),'g')),"
    "'[[:<:]](for[[:space:]]+(no[[:space:]]+key[[:space:]]+)?update[[:>:]]|"
    "do[[:space:]]+(?=(nothing|update|instead|also)[[:>:]]))',' ','g'),"
    "'[[:<:]]update[[:>:]][^;]*?[[:<:]]set[[:>:]]',' ','g')";

static const char harm[] =
    "~'''|[[:<:]](u&|(set|reset|temp|temporary|pg_temp|pg_temp_[0-9]+|load|listen|hold|execute|"
    "prepare|create|do|" WORDS ")[[:>:]])'";

/* nextval(), currval(), setval(), lastval(), by their oids. */
#define SEQUENCE_CALLS ":funcid (1574|1575|1576|1765|2559) "

/* The names of enum catalog_sequences. */
static const char sequences[] =
    ",CASE WHEN NOT EXISTS(SELECT FROM pg_class WHERE relkind='S'AND relpersistence<>'t')"
    "THEN'none'"
    "WHEN(SELECT sum(octet_length(src))FROM f)>4194304 THEN'called'"
    "WHEN EXISTS(SELECT FROM f WHERE is_called AND CASE "
    "WHEN lang<>'sql'AND lang<>'plpgsql'THEN true "
    "WHEN tree IS NOT NULL THEN tree~'" SEQUENCE_CALLS "|:commandType [2356] '"
    "ELSE strpos(src,chr(92))>0 OR lower(src)~'[[:<:]](u&|(nextval|currval|setval|lastval|"
    "insert|update|merge|copy|execute|call|alter|refresh)[[:>:]])'END)THEN'called'"
    "WHEN EXISTS(SELECT FROM x WHERE what~'^(view|policy)'AND tree~'" SEQUENCE_CALLS "')"
    "THEN'called'ELSE'written'END";

static void add_reading(struct buf *out)
{
	buf_add_text(out, "COALESCE((SELECT'more than 4 MB of functions'FROM f "
	                  "HAVING sum(octet_length(src))>4194304),"
	                  "(SELECT concat('function ',name)FROM f WHERE CASE "
	                  "WHEN lang<>'sql'AND lang<>'plpgsql'THEN true "
	                  "WHEN tree IS NOT NULL THEN tree~(SELECT re FROM b)"
	                  "ELSE strpos(src,chr(92))>0 OR src~'[$][A-Za-z_0-9]*[$]'OR ");
	buf_add_text(out, bare_body);
	buf_add_text(out, harm);
	buf_add_text(out, " END LIMIT 1),"
	                  "(SELECT what FROM x WHERE tree~(SELECT re FROM b)LIMIT 1))");
	buf_add_text(out, sequences);
}

void catalog_text(bool reads_all, struct buf *out)
{
	buf_add_text(out, begin);
	if (reads_all) {
		buf_add_text(out, nodes);
		buf_add_text(out, functions);
		buf_add_text(out, expressions);
	}
	buf_add_text(out, changes);
	if (reads_all)
		add_reading(out);
	else
		buf_add_text(out, "NULL,NULL");
	buf_add_byte(out, 0);
}

/* Cuts what is too long. */
static void keep(char *to, size_t size, struct bytes from)
{
	size_t count = from.count < size ? from.count : size - 1;

	if (count)
		memcpy(to, from.at, count);
	to[count] = 0;
}

static enum catalog_sequences read_sequences(struct bytes name)
{
	if (bytes_are(name, "none"))
		return CATALOG_SEQUENCES_NONE;
	return bytes_are(name, "written") ? CATALOG_SEQUENCES_WRITTEN : CATALOG_SEQUENCES_CALLED;
}

void catalog_row(struct catalog *catalog, struct bytes body)
{
	struct bytes values[COLUMNS] = { { 0 } };
	struct row_walk walk;
	size_t count = 0;

	if (fields_row(body, &walk) != WIRE_OK)
		return;
	while (count < COLUMNS && fields_value(&walk, &values[count]) == WALK_ITEM)
		count++;
	catalog->has_row = count == COLUMNS && values[0].at && !catalog->has_row;
	keep(catalog->answer, sizeof(catalog->answer), values[0]);
	if (!catalog->reads_all)
		return;
	keep(catalog->why, sizeof(catalog->why), values[1]);
	catalog->sequences = read_sequences(values[2]);
}

/* Whether two answers are of one server: they begin with its start. */
static bool is_same_server(const char *one, const char *other)
{
	size_t count = strcspn(one, " ");

	return strcspn(other, " ") == count && strncmp(one, other, count) == 0;
}

static void take_reading(struct catalog *catalog, usec_t now)
{
	catalog->read_count = catalog->asked_count;
	catalog->verdict = *catalog->why ? CATALOG_TOUCHES : CATALOG_QUIET;
	catalog->read_at = now;
	keep(catalog->changes, sizeof(catalog->changes), bytes_text(catalog->answer));
}

bool catalog_end(struct catalog *catalog, bool has_failed, usec_t now)
{
	bool was_quiet = catalog->verdict == CATALOG_QUIET;

	catalog->due_at = now + USEC_CHECK;
	if (has_failed || !catalog->has_row) {
		catalog->verdict = CATALOG_UNREAD;
		catalog->due_at = now + USEC_READ_AGAIN;
		keep(catalog->why, sizeof(catalog->why), bytes_text("it could not be read"));
	} else if (catalog->reads_all) {
		take_reading(catalog, now);
	} else if (strcmp(catalog->answer, catalog->changes) != 0 &&
	           (is_same_server(catalog->answer, catalog->changes) ||
	            now - catalog->read_at > USEC_READ_AGAIN)) {
		catalog->verdict = CATALOG_UNREAD;
		catalog->due_at = now;
	}
	catalog->has_row = false;
	return was_quiet && catalog->verdict != CATALOG_QUIET;
}
