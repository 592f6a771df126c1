/* SPDX-License-Identifier: ISC */
/*
 * The texts of the question about a database's catalog.
 *
 * Whatever leads to session state behind a client's back is code in the catalog: a function, or an
 * expression of a view, rule, default, check, policy or trigger. What a body or an expression does
 * by itself is found first (CTE d), and then all that leads there (CTE t): a body that has the name
 * as a word, and what PostgreSQL has noted as depending on it. Names are compared without schema,
 * so this may find too much.
 *
 * A body in SQL or PL/pgSQL does what some words outside of strings and comments say; an UPDATE has
 * one SET. SET LOCAL leaves nothing, but until then it may change how statements are read. In SQL
 * each statement begins with a known word. What cannot be read may do anything: other languages,
 * dynamic SQL, bodies with a backslash, dollar quotes or a comment in a comment, in which the end of
 * a string or a comment is not certain. Operators, casts, types and the like have no name that a
 * text must show: if one of them leads to such a function, any text may.
 *
 * Sequences: a text that does not write uses one only through a function, a view or a policy.
 * Defaults and triggers work for texts that write.
 *
 * Hard here: the session may be in any state. search_path is set to pg_catalog for the question.
 * Brackets and chr() instead of backslashes: those mean other things with other values of
 * standard_conforming_strings. No semicolon is within a statement: order.is_apart.
 */
#include "pgweir/pool/catalog.h"

#include "pgweir/pgwire/sql_touch.h"

/* PostgreSQL's own functions that touch the session, by what they touch: catalog.c. */
#define OWN                                                                                    \
	"('p','{set_config}'),('s','{set_config}'),('n','{pg_notify}'),('l','{pg_advisory_lock,"                    \
	"pg_advisory_lock_shared,pg_try_advisory_lock,pg_try_advisory_lock_shared}'),"         \
	"('x','{setseed,pg_backup_start,pg_start_backup,pg_create_physical_replication_slot,"  \
	"pg_create_logical_replication_slot,pg_copy_physical_replication_slot,"                \
	"pg_copy_logical_replication_slot,pg_replication_origin_session_setup}'),"             \
	"('h','{ts_stat,ts_rewrite,query_to_xml,query_to_xml_and_xmlschema,"                   \
	"query_to_xmlschema,table_to_xml,table_to_xml_and_xmlschema,cursor_to_xml,"            \
	"schema_to_xml,schema_to_xml_and_xmlschema,database_to_xml,"                           \
	"database_to_xml_and_xmlschema}')"

/*
 * Those that are VOLATILE and leave nothing, or are known to the scan of texts, or, as they work on
 * indexes, in catalog.c. One that is not here, of a newer PostgreSQL, may do anything.
 */
#define HARMLESS \
	"amvalidate,array_sample,array_shuffle,bernoulli,clock_timestamp,current_query," \
	"currtid2,currval,cursor_to_xml,cursor_to_xmlschema,gen_random_uuid," \
	"gin_clean_pending_list,lastval,loread,lowrite,nextval,pg_available_wal_summaries," \
	"pg_blocking_pids,pg_cancel_backend,pg_collation_actual_version," \
	"pg_column_toast_chunk_id,pg_export_snapshot,pg_extension_config_dump," \
	"pg_hba_file_rules,pg_ident_file_mappings,pg_indexes_size,pg_jit_available," \
	"pg_lock_status,pg_nextoid,pg_notification_queue_usage,pg_notify,pg_prepared_xact," \
	"pg_promote,pg_relation_size,pg_reload_conf,pg_sequence_last_value," \
	"pg_show_all_file_settings,pg_show_replication_origin_status," \
	"pg_sync_replication_slots,pg_total_relation_size,plpgsql_validator,random," \
	"random_normal,set_config,setseed,setval,system,timeofday,timezone,ts_rewrite," \
	"ts_stat,txid_status,uuidv4,uuidv7"

/* And families of them: how their names begin. */
#define HARMLESS_FAMILIES \
	"binary_upgrade_,brin_,lo_,pg_advisory_,pg_backup_,pg_clear_,pg_control_,pg_copy_," \
	"pg_create_,pg_current_,pg_database_,pg_drop_,pg_get_,pg_import_,pg_is_," \
	"pg_isolation_,pg_last_,pg_log_,pg_logical_,pg_ls_,pg_numa_,pg_partition_,pg_read_," \
	"pg_replication_,pg_restore_,pg_rotate_,pg_safe_snapshot_,pg_set_,pg_sleep," \
	"pg_start_backup,pg_stat_,pg_stop_,pg_switch_,pg_table_,pg_tablespace_,pg_terminate_," \
	"pg_try_advisory_,pg_wal_,pg_xact_,query_to_xml"

/*
 * Of PostgreSQL's manual, "Additional Supplied Modules", and some that many use. Those that run
 * texts, as triggers of refint do, are not in it. What set_limit() of pg_trgm does is known by its
 * name.
 */
#define EXTENSIONS                                                                                 \
	"amcheck,autoinc,bloom,btree_gin,btree_gist,citext,cube,dict_int,dict_xsyn,"               \
	"earthdistance,file_fdw,fuzzystrmatch,h3,hll,hstore,insert_username,intarray,ip4r,isn,lo," \
	"ltree,moddatetime,pageinspect,pg_bigm,pg_buffercache,pg_freespacemap,pg_prewarm,"         \
	"pg_stat_statements,pg_trgm,pg_visibility,pg_walinspect,pgcrypto,pgrowlocks,pgstattuple,"  \
	"plpgsql,postgis,postgis_raster,postgis_sfcgal,postgres_fdw,prefix,rum,seg,semver,"        \
	"sslinfo,tcn,tsm_system_rows,tsm_system_time,unaccent,uuid-ossp,vector"

/* Functions of extensions that keep something which nobody can ask for. */
#define KEEPERS                                                                             \
	"dblink_connect(_u)?|hll_set_(defaults|max_sparse|output_version)|isn_weak|sepgsql_setcon"

/* Of the functions of EXTENSIONS, those that leave something; one a temporary table. */
#define EXCEPTIONS "addauth|" KEEPERS

#define BODIES_MAX "4194304"

const char catalog_sql_begin[] =
    "SET TRANSACTION ISOLATION LEVEL READ COMMITTED,READ ONLY,NOT DEFERRABLE;"
    "SET LOCAL search_path=pg_catalog,pg_temp;SET LOCAL statement_timeout=5000;"
    "SET LOCAL jit=off;SET LOCAL max_parallel_workers_per_gather=0;";

/*
 * Which server it is, and how often rows of these catalogs were written there. A new name of a table
 * or view changes a row of pg_type. Temporary tables only come and go there, and in pg_class.
 */
const char catalog_sql_changes[] =
    "SELECT concat(date_part('epoch',pg_postmaster_start_time()),' ',"
    "(SELECT sum(pg_stat_get_tuples_updated(oid)+CASE WHEN relname='pg_type'THEN 0 ELSE "
    "pg_stat_get_tuples_inserted(oid)+pg_stat_get_tuples_deleted(oid)END)"
    "FROM pg_class WHERE relnamespace=11 AND relname=ANY("
    "'{pg_proc,pg_rewrite,pg_attrdef,pg_constraint,pg_policy,pg_trigger,pg_extension,pg_operator,"
    "pg_cast,pg_event_trigger,pg_sequence,pg_inherits,pg_amproc,pg_statistic_ext,pg_foreign_table,"
    "pg_type}')))";

/* How expressions call PostgreSQL's own functions: as pg_node_tree has them. */
#define NODES                                                                        \
	"WITH RECURSIVE o(letter,names)AS(VALUES" OWN "),"                           \
	"own(oid,letter)AS MATERIALIZED(SELECT oid,letter FROM o JOIN pg_proc "      \
	"ON proname=ANY(CAST(names AS text[]))WHERE oid<16384),"                     \
	"b(letter,re)AS MATERIALIZED("                                               \
	"SELECT letter,concat(':(funcid|opfuncid|aggfnoid|winfnoid) ('"              \
	",string_agg(CAST(oid AS text),'|'),')[[:>:]]',CASE WHEN letter=ANY('{p,s}')"         \
	"THEN concat('|:relid ',CAST(CAST('pg_settings'AS regclass)AS oid),'[[:>:]]')" \
	"WHEN letter='n'THEN'|NOTIFY'END)FROM own GROUP BY letter),"

/* The functions of the database. src: what can be read; NULL in other languages. */
#define FUNCTIONS                                                                          \
	"f AS MATERIALIZED(SELECT p.oid,CAST(proname AS text)AS name,prokind,"             \
	"CASE WHEN lanname=ANY('{sql,plpgsql}')THEN prosrc COLLATE\"C\"END AS src,"        \
	"concat(CAST(prosqlbody AS text),CAST(proargdefaults AS text))AS tree,"            \
	"prosqlbody IS NOT NULL AS is_tree,lanname='sql'AS is_sql FROM pg_proc AS p "      \
	"JOIN pg_language AS l ON l.oid=prolang WHERE p.oid>=16384 "                       \
	"AND(SELECT COALESCE(sum(octet_length(prosrc)),0)FROM pg_proc WHERE oid>=16384)<=" \
	BODIES_MAX " AND NOT EXISTS(SELECT FROM pg_depend AS d "                           \
	"JOIN pg_extension AS e ON e.oid=d.refobjid "                                      \
	"WHERE d.classid=CAST('pg_proc'AS regclass)AND d.objid=p.oid "                     \
	"AND d.refclassid=CAST('pg_extension'AS regclass)AND d.deptype='e'"                \
	"AND e.extname=ANY('{" EXTENSIONS "}')AND p.proname!~'^(" EXCEPTIONS ")$')),"

/* sql_touch.h has them; '-' is in no name. */
#define OR(text) text "|"
#define PLAIN_NAMES                                                                     \
	"[a-z_]+_(" SQL_PLAIN_ENDS(OR) "-)|(" SQL_PLAIN_BEGINNINGS(OR) "-)_[a-z_]+|" SQL_PLAIN_NAMES(OR) "-"
#define PLAIN "(?=\"?[a-z_0-9]+[\" ]*[.]|\"?(" PLAIN_NAMES ")[[:>:]])"
#define PLAIN_CONSTANT "''([a-z_0-9]+[.][a-z_0-9.]+|" PLAIN_NAMES ")''"
#define SET_CONFIG "[[:<:]]set_config[[:space:]]*[(][[:space:]]*"

/*
 * A body without strings and comments, FOR UPDATE, ON CONFLICT DO, and the SET of each UPDATE. What
 * ends with the transaction is 0local, or 0scope if it may change how statements are read; what sets
 * a plain parameter is 0set. Until that is found, the name that set_config() gets is not taken away.
 * NULL: the body cannot be read.
 */
#define BODIES                                                                               \
	"s AS MATERIALIZED(SELECT name,src,is_sql,"                                          \
	"CASE WHEN strpos(src,chr(92))=0 AND src!~'[$]([A-Za-z_0-9]|[^ -~[:cntrl:]])*[$]'"   \
	"AND src!~'/[*]([^*]|[*]+[^*/])*/[*]'THEN "                                          \
	"regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace("        \
	"regexp_replace(regexp_replace(regexp_replace(regexp_replace(lower("                 \
	"regexp_replace(src,"                                                                \
	"concat('(" SET_CONFIG "''[a-z_0-9.]+'')(?=[[:space:]]*,)|"                          \
	"(\"[^\"]*\")|''[^'']*''|--[^',chr(10),chr(13),']*|"                                 \
	"/[*]([^*]|[*]+[^*/])*[*]+/'),concat(chr(92),'1',chr(92),'2 '),'gi')),"              \
	"'[[:<:]](for[[:space:]]+(no[[:space:]]+key[[:space:]]+)?update[[:>:]]|"             \
	"do[[:space:]]+(?=(nothing|update|instead|also)[[:>:]]))',' ','g'),"                 \
	"concat('[[:<:]]update[[:>:]](((?![[:<:]](loop|then|else|begin)[[:>:]])"             \
	"[^',chr(59),'])*?)[[:<:]]set[[:>:]]'),"                                             \
	"concat('update',chr(92),'1'),'g'),"                                                 \
	"'[[:<:]]set[[:space:]]+(local[[:space:]]+" PLAIN                                    \
	"|(transaction|constraints)[[:space:]]+(?!to[[:>:]])(?=[a-z\"]))',' 0local ','g'),"  \
	"'[[:<:]]set[[:space:]]+local[[:space:]]+(?!to[[:>:]])(?=[a-z\"])',' 0scope ','g')," \
	"'[[:<:]]set[[:space:]]+(session[[:space:]]+)?" PLAIN "',' 0set ','g'),"             \
	"concat('" SET_CONFIG PLAIN_CONSTANT "[[:space:]]*,[^()',chr(59),"                   \
	"''']*,[[:space:]]*true[[:space:]]*[)]'),' 0local ','g'),"                           \
	"'" SET_CONFIG PLAIN_CONSTANT "',' 0set ','g'),"                                     \
	"'(" SET_CONFIG ")''([a-z_0-9.]+)''',concat(chr(92),'1',chr(92),'2'),'g'),"          \
	"concat('[[:<:]]set_config[[:space:]]*[(]([^()',chr(59),"                            \
	"''']*),[[:space:]]*true[[:space:]]*[)]'),concat(' 0scope ',chr(92),'1'),'g')"       \
	"END AS bare FROM f WHERE NOT is_tree AND prokind<>'a'),"

#define WORDS                                                                                \
	"(VALUES('p','set|0set|reset|discard|set_config|set_limit|pg_settings'),"            \
	"('s','set|0scope|reset|discard|set_config|pg_settings'),"                           \
	"('t','temp|temporary|pg_temp|pg_temp_[0-9]+|create'),"                              \
	"('l','pg_(try_)?advisory_lock(_shared)?'),('c','listen'),('n','notify|pg_notify')," \
	"('u','hold'),('x','" KEEPERS "|setseed|seed|pg_backup_start|"                       \
	"pg_start_backup|pg_(create|copy)_(logical|physical)_replication_slot|"              \
	"pg_replication_origin_session_setup'),('h','u&|execute|prepare|"                    \
	"deallocate|do|load|extension|import|ts_stat|ts_rewrite|"                            \
	"(query|table|schema|cursor|database)_to_xml[a-z_]*|"                                \
	"crosstab[0-9a-z_]*|connectby|xpath_table|dblink[a-z_]*'))"

/* With what a statement of a body in SQL may begin: it leaves nothing, or what a word above says. */
#define STATEMENTS                                                                           \
	"0local|0scope|0set|alter|analyze|call|close|comment|create|deallocate|declare|"     \
	"delete|discard|do|drop|execute|explain|fetch|grant|import|insert|listen|load|lock|" \
	"merge|move|notify|prepare|refresh|reindex|reset|revoke|security|select|set|show|"   \
	"table|truncate|unlisten|update|values|with"

/* Expressions, by the name of the relation that has them. '*': of none, so of any text. */
#define OF_RELATION(table, column) \
	table " AS r LEFT JOIN pg_class AS c ON c.oid=" column " WHERE r.oid>=16384 "
#define EXPRESSIONS                                                                         \
	"SELECT name,tree FROM f WHERE tree<>''"                                            \
	"UNION ALL SELECT relname,concat(CAST(ev_action AS text),CAST(ev_qual AS text))"    \
	"FROM " OF_RELATION("pg_rewrite", "ev_class")                                       \
	"UNION ALL SELECT relname,CAST(adbin AS text)FROM "                                 \
	OF_RELATION("pg_attrdef", "adrelid")                                                \
	"UNION ALL SELECT COALESCE(relname,'*'),CAST(conbin AS text)FROM "                  \
	OF_RELATION("pg_constraint", "conrelid") "AND conbin IS NOT NULL "                  \
	"UNION ALL SELECT'*',CAST(typdefaultbin AS text)FROM pg_type "                      \
	"WHERE oid>=16384 AND typdefaultbin IS NOT NULL "                                   \
	"UNION ALL SELECT'*',CAST(stxexprs AS text)FROM pg_statistic_ext "                  \
	"WHERE stxexprs IS NOT NULL "                                                       \
	"UNION ALL SELECT relname,concat(CAST(polqual AS text),CAST(polwithcheck AS text))" \
	"FROM " OF_RELATION("pg_policy", "polrelid")                                        \
	"UNION ALL SELECT relname,CAST(tgqual AS text)FROM "                                \
	OF_RELATION("pg_trigger", "tgrelid") "AND tgqual IS NOT NULL"

/* What each does by itself: also by its own name, and where set_config() is not PostgreSQL's. */
#define DIRECT                                                                       \
	"d(name,letter)AS MATERIALIZED("                                             \
	"SELECT name,'h'FROM s WHERE bare IS NULL OR bare~''''OR is_sql AND bare~concat("  \
	"'(^|',chr(59),')[[:space:](]*(?!(" STATEMENTS ")[[:>:]])[^[:space:](',chr(59),']')" \
	"UNION SELECT name,'t'FROM s WHERE is_sql AND regexp_replace(bare,"                \
	"'[[:<:]](insert|merge)[[:space:]]+into[[:>:]]','','g')~'[[:<:]]into[[:>:]]'"      \
	"UNION SELECT name,k.letter FROM s," WORDS "AS k(letter,re)"                 \
	"WHERE bare~concat('[[:<:]](',k.re,')[[:>:]]')"                              \
	"UNION SELECT name,'x'FROM f WHERE name~'^(" KEEPERS ")$'"                   \
	"UNION SELECT name,'h'FROM s WHERE strpos(lower(src),'set_config')>0 "       \
	"AND EXISTS(SELECT FROM f WHERE name='set_config')"                          \
	"UNION SELECT CAST(x.name AS text),b.letter FROM b,(" EXPRESSIONS            \
	")AS x(name,tree)WHERE x.tree~b.re "                                         \
	"UNION SELECT'*','h'FROM own WHERE oid=ANY(ARRAY("                           \
	"SELECT CAST(oprcode AS oid)FROM pg_operator WHERE oid>=16384 "              \
	"UNION ALL SELECT castfunc FROM pg_cast WHERE oid>=16384))"                  \
	"UNION SELECT CAST(proname AS text),letter FROM pg_aggregate JOIN own ON "   \
	"own.oid=ANY(ARRAY[CAST(aggtransfn AS oid),CAST(aggfinalfn AS oid),"         \
	"CAST(aggmtransfn AS oid),CAST(aggmfinalfn AS oid)])"                        \
	"JOIN pg_proc AS p ON p.oid=CAST(aggfnoid AS oid)WHERE p.oid>=16384),"

/* The first word of a name: what a body must have if it has the name. */
#define BLANKED(text)                                                                    \
	"translate(" text ",concat('\"(),.:=<>+-*/%~!@#^&|?[]{}$`',chr(59),chr(9),chr(10),chr(11)," \
	"chr(12),chr(13)),'                                     ')"
#define KEY(name) "split_part(btrim(" BLANKED("lower(" name ")") "),' ',1)"

/*
 * What belongs to a function or a relation, by its catalog and oid, and how that one is called.
 * '0event': the event triggers, which any definition may start. '0index': all indexes.
 */
#define NODE(catalog, column)                                                           \
	"UNION ALL SELECT r.oid,'" catalog "',COALESCE(CAST(relname AS text),'*')FROM " \
	OF_RELATION(catalog, column)
#define OWNERS                                                                       \
	"n(oid,class,name)AS MATERIALIZED(SELECT oid,'pg_proc',name FROM f "         \
	"UNION ALL SELECT oid,'pg_class',CAST(relname AS text)FROM pg_class "        \
	"WHERE oid>=16384 AND relkind=ANY('{r,v,m,p,f,S}')"                          \
	"UNION ALL SELECT indexrelid,'pg_class',CAST(relname AS text)FROM pg_index " \
	"JOIN pg_class AS c ON c.oid=indrelid WHERE indexrelid>=16384 "              \
	"UNION ALL SELECT indexrelid,'pg_class','0index'FROM pg_index "              \
	"WHERE indexrelid>=16384 "                                                   \
	NODE("pg_rewrite", "ev_class") NODE("pg_attrdef", "adrelid")                 \
	NODE("pg_constraint", "conrelid") NODE("pg_policy", "polrelid")              \
	NODE("pg_trigger", "tgrelid")                                                \
	"UNION ALL SELECT oid,'pg_event_trigger','0event'FROM pg_event_trigger),"

/* What leads where: name to key. */
#define EDGES                                                                                \
	"e(name,key)AS MATERIALIZED("                                                        \
	"SELECT w.name,w.word FROM(SELECT name,unnest(string_to_array(" BLANKED("bare")      \
	",' '))FROM s WHERE bare IS NOT NULL AND EXISTS(SELECT FROM d))AS w(name,word)"      \
	"JOIN(SELECT DISTINCT " KEY("name") "FROM n)AS k(word)USING(word)WHERE w.word<>''"   \
	"UNION SELECT COALESCE(a.name,'*')," KEY("z.name") "FROM pg_depend AS p "            \
	"JOIN n AS z ON z.oid=refobjid AND refclassid=CAST(z.class AS regclass)"             \
	"LEFT JOIN n AS a ON a.oid=objid AND classid=CAST(a.class AS regclass)"              \
	"WHERE z.class=ANY('{pg_proc,pg_class}')AND(a.oid IS NOT NULL OR z.class='pg_proc'"  \
	"AND NOT classid=ANY(CAST('{pg_proc,pg_class,pg_language,pg_transform,"              \
	"pg_foreign_data_wrapper,pg_publication_rel}'AS regclass[])))"                       \
	"UNION SELECT CAST(c.relname AS text)," KEY("h.relname") "FROM pg_inherits "         \
	"JOIN pg_class AS c ON c.oid=inhparent JOIN pg_class AS h ON h.oid=inhrelid "        \
	"UNION SELECT CAST(c.relname AS text)," KEY("h.relname") "FROM pg_constraint "       \
	"JOIN pg_class AS c ON c.oid=confrelid JOIN pg_class AS h ON h.oid=conrelid "        \
	"WHERE confdeltype=ANY('{c,n,d}')OR confupdtype=ANY('{c,n,d}')"                      \
	"OR EXISTS(SELECT FROM pg_trigger WHERE tgtype&32<>0)" /* TRUNCATE CASCADE */        \
	"UNION SELECT CAST(c.relname AS text)," KEY("f.name") "FROM pg_foreign_table "       \
	"JOIN pg_class AS c ON c.oid=ftrelid JOIN pg_foreign_server AS v ON v.oid=ftserver " \
	"JOIN pg_foreign_data_wrapper AS m ON m.oid=srvfdw JOIN f ON f.oid=fdwhandler "      \
	"UNION SELECT'*',''),"                                                               \
	"t(name,letter)AS(SELECT name,letter FROM d "                                        \
	"UNION SELECT e.name,t.letter FROM t JOIN e ON e.key=" KEY("t.name") "),"

/* Names of parameters in the bodies that set some, behind a quote or behind SET. */
#define PARAMETERS                                                                            \
	"(SELECT DISTINCT'parameter',lower(m[1]),''FROM(SELECT name,src FROM s UNION ALL "     \
	"SELECT name,pg_get_functiondef(oid)FROM f WHERE is_tree AND name=ANY(ARRAY("         \
	"SELECT name FROM d)))AS s,regexp_matches(src,"                                       \
	"'(?:[''\"$]|[[:<:]]set[[:space:]]+(?:session[[:space:]]+|local[[:space:]]+)?)"       \
	"([a-z_][a-z0-9_$]*(?:[.][a-z_][a-z0-9_$]*)+)','gi')AS m "                            \
	"WHERE name=ANY(ARRAY(SELECT name FROM d WHERE letter=ANY('{p,h}')))LIMIT 201)"

/* nextval(), currval(), setval(), lastval(), by their oids. */
#define SEQUENCE_CALLS ":funcid (1574|1575|1576|1765|2559) "

/* How they are used, or would be if there were some; and whether there are none. */
#define SEQUENCES                                                                            \
	"SELECT'sequences',CASE WHEN(SELECT sum(octet_length(prosrc))FROM pg_proc WHERE oid>=16384)>" BODIES_MAX    \
	" OR EXISTS(SELECT FROM f JOIN pg_proc AS p USING(oid)WHERE f.prokind<>'p'"          \
	"AND prorettype<>ALL('{trigger,event_trigger}'::regtype[])AND("                      \
	"f.tree~'" SEQUENCE_CALLS "|:commandType [2356] 'OR NOT is_tree AND("                \
	"src IS NULL OR strpos(src,chr(92))>0 OR lower(src)~'[[:<:]](u&|(nextval|currval|"   \
	"setval|lastval|insert|update|merge|copy|execute|call|alter|refresh)[[:>:]])')))"    \
	"OR EXISTS(SELECT FROM pg_rewrite WHERE oid>=16384 "                                 \
	"AND concat(ev_action,ev_qual)~'" SEQUENCE_CALLS "')"                                \
	"OR EXISTS(SELECT FROM pg_policy WHERE concat(polqual,polwithcheck)~'" SEQUENCE_CALLS \
	"')THEN'called'ELSE'written'END,CASE WHEN NOT EXISTS(SELECT FROM pg_class "           \
	"WHERE relkind='S'AND relpersistence<>'t')THEN'none'ELSE''END "

#define RELATION_KINDS                                           \
	"CASE relkind WHEN'v'THEN'view'WHEN'm'THEN'materialized view'" \
	"WHEN'f'THEN'foreign table'ELSE'table'END"

const char catalog_sql_names[] =
    NODES FUNCTIONS BODIES DIRECT OWNERS EDGES
    "k(kind,name)AS(SELECT CASE prokind WHEN'p'THEN'procedure'WHEN'a'THEN'aggregate'"
    "ELSE'function'END,name FROM f UNION SELECT " RELATION_KINDS ",CAST(relname AS text)"
    "FROM pg_class WHERE oid>=16384 AND relkind=ANY('{r,v,m,p,f}')"
    "UNION VALUES('any text','*'),('event trigger','0event'),('index','0index'))"
    "SELECT*,''FROM((SELECT kind,regexp_replace(name,'[^ -~]','?','g'),string_agg(letter,'')"
    "FROM t JOIN k USING(name)GROUP BY kind,name ORDER BY kind,name LIMIT 1001)"
    "UNION ALL " PARAMETERS
    "UNION ALL " SEQUENCES
    "UNION ALL(SELECT DISTINCT'function',CAST(proname AS text),'h'FROM pg_proc WHERE oid<16384 "
    "AND provolatile='v'AND prokind<>'a'AND proname<>ALL('{" HARMLESS "}')"
    "AND prorettype<>ALL('{2279,3838,2280,2281,325,269,3310,3115}')"
    "AND NOT 2281=ANY(proargtypes)AND NOT EXISTS(SELECT FROM "
    "unnest(CAST('{" HARMLESS_FAMILIES "}'AS text[]))AS h(head)WHERE starts_with(proname,head))"
    "LIMIT 1000)"
    "UNION ALL SELECT'any text','more than 4 MB of functions','h'FROM pg_proc WHERE oid>=16384 "
    "HAVING sum(octet_length(prosrc))>" BODIES_MAX ")AS r";
