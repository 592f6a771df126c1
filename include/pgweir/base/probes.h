/* SPDX-License-Identifier: ISC */
/*
 * USDT probes: places in the program at which tools of the kernel (perf, bpftrace, SystemTap) and
 * gdb can look. doc/probes.md has their arguments, which are an interface.
 *
 * Only in a build with --enable-probes; otherwise a probe is nothing, and its arguments are not
 * evaluated. In such a build a probe is one nop, but its arguments are evaluated even if nobody
 * looks: they must cost little and have no effects.
 */
#ifndef PGWEIR_BASE_PROBES_H
#define PGWEIR_BASE_PROBES_H

#if PGWEIR_PROBES

#define SDT_USE_VARIADIC
#include <sys/sdt.h>

#define PROBES_AT(name, ...) STAP_PROBEV(pgweir, name, __VA_ARGS__)

#else

#define PROBES_AT(name, ...) ((void)0)

#endif

/* A client has logged in. Times are microseconds. */
#define PROBE_CLIENT_LOGIN(client, database, user, time) \
	PROBES_AT(client__login, client, database, user, time)

/* A client begins a statement, and has its complete answer. pid: of the server. */
#define PROBE_STATEMENT_START(client, database, user) \
	PROBES_AT(statement__start, client, database, user)
#define PROBE_STATEMENT_END(client, database, user, pid, time, waited, digest) \
	PROBES_AT(statement__end, client, database, user, pid, time, waited, digest)

/* A server is lent to a client (0: to ourselves), and returned or lost. */
#define PROBE_SERVER_LENT(client, database, user, pid) \
	PROBES_AT(server__lent, client, database, user, pid)
#define PROBE_SERVER_RETURNED(client, database, user, pid, time) \
	PROBES_AT(server__returned, client, database, user, pid, time)

/* A client does not wait for a server any more. */
#define PROBE_WAIT(client, database, user, time) PROBES_AT(wait, client, database, user, time)

/* A client gets an error. is_ours: it is not PostgreSQL's. gdb cannot read a bool in a register. */
#define PROBE_ERROR(client, database, user, sqlstate, is_ours) \
	PROBES_AT(error, client, database, user, sqlstate, (int)(is_ours))

#endif
