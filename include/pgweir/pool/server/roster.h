/* SPDX-License-Identifier: ISC */
/*
 * A roster: what is known about the roles of the hosts of a cluster, and which of them may be used.
 *
 * Role and health are two things: the health of an address (hosts.h) says whether it can be
 * reached. A row of the roster is about one address of a host, or about the host itself, if that is
 * a Unix socket or its name has not been found. What is known comes from logins (in_hot_standby,
 * or the role question) and from host watches.
 *
 * Of several hosts that say that they are primary only one counts: that with the newest timeline.
 * The others are fenced. An older timeline than one that was accepted before is fenced too, and so
 * is a host of another cluster (another system identifier).
 *
 * All functions may be called from any loop. No clock and no socket: the caller passes the time.
 */
#ifndef PGWEIR_POOL_SERVER_ROSTER_H
#define PGWEIR_POOL_SERVER_ROSTER_H

#include <pthread.h>
#include <stdatomic.h>

#include "pgweir/base/clock.h"
#include "pgweir/base/close_reason.h"
#include "pgweir/base/log.h"
#include "pgweir/config/entries.h"
#include "pgweir/net/address.h"

#define ROSTER_ERROR_SIZE 192
#define ROSTER_SAMPLES 64 /* positions of the primary that are remembered */
#define ROSTER_LAG_UNKNOWN (-1)
/* a standby of an older timeline that is so far behind does not follow the primary */
#define ROSTER_DIVERGED_LAG (10 * USEC_PER_SEC)
/* after this time, a host whose role did not fit may be tried again, unless it is watched */
#define ROSTER_GAP (200 * USEC_PER_MS)
#define ROSTER_ADDRESSES 32 /* of a host; a name may have others each time it is looked up */

/* How far a standby may be behind. 0 = no limit. */
struct roster_limit {
	usec_t lag;
	uint64_t bytes;
};

/* What a pool wants of a host. */
struct roster_want {
	enum target_session_attrs target;
	struct roster_limit limit;
	bool is_strict; /* beyond it a standby does not fit; else it is the last choice */
};

enum host_role { HOST_ROLE_UNKNOWN, HOST_PRIMARY, HOST_STANDBY };

/* Set by an administrator. */
enum host_admin {
	HOST_ENABLED,
	HOST_DRAINING, /* no new transactions */
	HOST_DISABLED  /* no servers */
};

/* What a login, a server or a watch has found out about a host. 0: not known. */
struct host_report {
	enum host_role role;
	bool is_read_only; /* new sessions begin with default_transaction_read_only */
	bool is_full;      /* the answer to the role question; else only role and is_read_only */
	bool is_doubtful;  /* a server there has refused to write, which nobody has expected */
	uint32_t timeline;
	uint64_t system;   /* system identifier */
	uint64_t started;  /* when it was started: tells whether two addresses are one server */
	uint64_t position; /* in the WAL: written by a primary, replayed by a standby */
	usec_t replay_age; /* of a standby: the age of the last transaction that it has replayed */
	usec_t latency;    /* of the question */
};

struct roster_row {
	unsigned int host;      /* number of the host in the list */
	struct address address; /* port 0; AF_UNSPEC: the host itself */
	struct host_report known;
	bool is_lost;    /* it could not be reached, or did not answer; and not seen since */
	bool is_elected; /* the primary that counts */
	bool is_fenced;  /* another primary counts, or is_foreign */
	bool is_foreign;
	bool is_told;       /* the log has that it is fenced */
	bool is_sure;       /* it has answered the role question, and was not lost since */
	bool is_watched;    /* a watch asks it, and will notice another role */
	bool is_doubted;    /* it has refused to write, and has not answered the question since */
	usec_t seen_at;     /* when its role was last found out; 0: never */
	usec_t asked_at;    /* when it has answered the role question; 0: never */
	usec_t tried_at;    /* when it was last tried although its role did not fit */
	usec_t since;       /* since when it has this role */
	usec_t lost_at;     /* valid if is_lost */
	usec_t lag;         /* how old what a standby shows is; ROSTER_LAG_UNKNOWN */
	uint64_t lag_bytes; /* valid unless lag is ROSTER_LAG_UNKNOWN */
	bool is_diverged;   /* a standby of an older timeline that does not follow the primary */
	/* what the former primary had written, as far as was seen, and this one lacked when it was
	 * first seen as primary */
	uint64_t lost_bytes;
	char error[ROSTER_ERROR_SIZE]; /* the last error; "" = none */
};

enum roster_fit {
	ROSTER_NO,
	ROSTER_BEHIND, /* a standby that is too far behind, if that is no reason for NO */
	ROSTER_SPARE,  /* prefer-standby: only if there is no standby */
	ROSTER_MAYBE,  /* its role is not known: a login finds out */
	ROSTER_GOOD
};

#define ROSTER_WHERE_SIZE 320 /* roster_where() */
#define ROSTER_LINE_SIZE 1024
#define ROSTER_LINES_MAX 4

/* What a report has changed. */
struct roster_changes {
	struct {
		enum log_level level;
		char text[ROSTER_LINE_SIZE];
	} lines[ROSTER_LINES_MAX]; /* for the log */
	unsigned int count;
	bool has_news; /* roster_number() has changed: the pools must look */
	/* a primary can be used again; `without`: for how long there was none. 0: not so */
	usec_t without;
};

/* At this time the primary had written so far. */
struct roster_sample {
	uint64_t position;
	usec_t at;
};

struct roster {
	pthread_mutex_t lock; /* guards everything but number, text and host_count */
	atomic_uint number;   /* changes with everything that decides which hosts fit */
	char *text;           /* the list of hosts */
	unsigned int host_count;
	enum host_admin *admins; /* of each host */
	struct roster_row *rows; /* in order of their hosts */
	unsigned int count;
	uint32_t timeline; /* the newest one of an accepted primary; 0: none yet */
	uint64_t system;   /* 0: not known */
	/* since when there is no primary that can be used; 0: there is one */
	usec_t without_since;
	struct roster_sample samples[ROSTER_SAMPLES]; /* of the primary, the oldest first */
	unsigned int sample_count;
	struct roster_limit *limits; /* roster_add_limit() */
	unsigned int limit_count;
};

/* What is asked about. */
struct roster_at {
	unsigned int host;
	const struct address *address; /* NULL: the host itself */
};

/* list: hosts, separated by commas. false: no memory. */
bool roster_init(struct roster *roster, const char *list, usec_t now);
void roster_done(struct roster *roster);

/* Notes what was found out about a row, made if necessary. changes: for the log and the pools. */
void roster_note(struct roster *roster, const struct roster_at *at,
                 const struct host_report *report, usec_t now, struct roster_changes *changes);

enum roster_failure {
	ROSTER_FAILED,  /* that says nothing about the host's role */
	ROSTER_REFUSED, /* it answers, but not what it is: its watch cannot ask it any more */
	ROSTER_LOST     /* its watch, which goes on, cannot reach it, or gets no answer */
};

void roster_fail(struct roster *roster, const struct roster_at *at, enum roster_failure how,
                 const char *error, usec_t now, struct roster_changes *changes);

/* A watch asks the host from now on. */
void roster_watch(struct roster *roster, const struct roster_at *at);

/*
 * What another roster knew of this host: a copy of one of its rows, with the number that the host
 * has here, and its timeline and system. It counts unless this roster knows more already.
 */
void roster_remember(struct roster *roster, const struct roster_row *row, uint32_t timeline,
                     uint64_t system, usec_t now);

/* There are no watches any more: what only they find out is not known. */
void roster_unwatch(struct roster *roster);

/* The host's name has these addresses now: rows of others are removed. */
void roster_keep(struct roster *roster, unsigned int host, const struct address *addresses,
                 unsigned int count);

/*
 * The row, or with at->address NULL the best one of the host; if there is none, ROSTER_MAYBE. *due:
 * when its role is old, and it may be tried. INT64_MAX: not by time; 0: it fits.
 */
enum roster_fit roster_fit(struct roster *roster, const struct roster_at *at,
                           const struct roster_want *want, usec_t *due);

/* roster_number() changes when a standby passes one of the limits. false: no memory. */
bool roster_add_limit(struct roster *roster, const struct roster_limit *limit);
void roster_drop_limits(struct roster *roster);

/* A standby too far behind, or not known how far. */
bool roster_row_is_behind(const struct roster_row *row, const struct roster_limit *limit);

static inline bool roster_has_limit(const struct roster_limit *limit)
{
	return limit->lag || limit->bytes;
}

/* How long a standby is asked for what the primary had written before it counts as behind. */
#define ROSTER_COPY_WAIT USEC_PER_SEC
enum roster_copy {
	ROSTER_COPY_ASKED,   /* its next answer, or the primary's, will tell */
	ROSTER_COPY_UNKNOWN, /* one of the two is lost, not watched, or of another timeline */
	ROSTER_COPY_BEHIND,
	ROSTER_COPY_WHOLE
};

/*
 * Compares each standby with the primary, if that is `host`. since: clock_now(), nothing was
 * written since then that counts. missing: bytes, of ROSTER_COPY_BEHIND. Called with the lock.
 */
typedef void roster_copied(void *arg, const char *standby, enum roster_copy copy, uint64_t missing);
void roster_copies(struct roster *roster, const char *host, usec_t since, roster_copied *found,
                   void *arg);

/*
 * Why a server that is there must not stay there. CLOSE_NONE: it may; _HOST_LOST: the host does not
 * answer, so it must not be lent any more; _ROLE, _DRAINED: it ends with its transaction;
 * _DISABLED, _FENCED: it is closed at once, as what is written there may be lost.
 */
enum close_reason roster_stay(struct roster *roster, const struct roster_at *at,
                              enum target_session_attrs target);

/* Whether a server fits by what its login has shown. */
bool roster_is_target(enum target_session_attrs target, enum host_role role, bool is_read_only);

/* The row is tried although its role did not fit: nobody else tries it until it is due again. */
void roster_try(struct roster *roster, const struct roster_at *at, usec_t now);

/* A copy of the row. false: there is none. */
bool roster_find(struct roster *roster, const struct roster_at *at, struct roster_row *row);

/* A copy of the row of this number. false: there are not as many. */
bool roster_row_at(struct roster *roster, unsigned int number, struct roster_row *row);

/* A copy of the row of the primary that counts. false: none is known. */
bool roster_primary(struct roster *roster, struct roster_row *row);

/* Since when no primary can be used. 0: there is one. */
usec_t roster_without_since(struct roster *roster);

/* The state set by an administrator. */
void roster_set_admin(struct roster *roster, unsigned int host, enum host_admin admin, usec_t now);

/* Accepts whatever timeline and system identifier the hosts have now. */
void roster_trust_again(struct roster *roster, usec_t now);

/* Whether the answer of roster_fit() may be another one. One load. */
static inline unsigned int roster_number(const struct roster *roster)
{
	return atomic_load_explicit(&roster->number, memory_order_acquire);
}

/* The host as in the list, and its address if that is another text. Returns `text`. */
const char *roster_where(const struct roster *roster, const struct roster_row *row,
                         char text[ROSTER_WHERE_SIZE]);

/* "primary", "standby", "unknown". */
const char *roster_role_name(enum host_role role);

#endif
