/* SPDX-License-Identifier: ISC
 *
 * Functions of PostgreSQL that leave something in their session. No text and no catalog shows what.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/async.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

/* Runs any statement. */
PG_FUNCTION_INFO_V1(hidden_exec);
Datum hidden_exec(PG_FUNCTION_ARGS)
{
	char *sql = text_to_cstring(PG_GETARG_TEXT_PP(0));

	SPI_connect();
	if (SPI_execute(sql, false, 0) < 0)
		elog(ERROR, "hidden_exec: %s", sql);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Sets a parameter without any statement. */
PG_FUNCTION_INFO_V1(hidden_set);
Datum hidden_set(PG_FUNCTION_ARGS)
{
	char *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char *value = text_to_cstring(PG_GETARG_TEXT_PP(1));

	SetConfigOption(name, value, superuser() ? PGC_SUSET : PGC_USERSET, PGC_S_SESSION);
	PG_RETURN_VOID();
}

/* Takes a session's advisory lock with two keys, as pg_advisory_lock(key1, key2) does. */
PG_FUNCTION_INFO_V1(hidden_lock);
Datum hidden_lock(PG_FUNCTION_ARGS)
{
	LOCKTAG tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, PG_GETARG_INT32(0), PG_GETARG_INT32(1), 2);
	(void)LockAcquire(&tag, ExclusiveLock, true, false);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(hidden_listen);
Datum hidden_listen(PG_FUNCTION_ARGS)
{
	Async_Listen(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	PG_RETURN_VOID();
}
