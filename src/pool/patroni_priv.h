/* SPDX-License-Identifier: ISC */
/* Reads what Patroni's REST interface answers to GET /cluster. */
#ifndef PGWEIR_POOL_PATRONI_PRIV_H
#define PGWEIR_POOL_PATRONI_PRIV_H

#include "pgweir/base/buf.h"
#include "pgweir/base/err.h"

#define PATRONI_HOST_MAX 253
#define PATRONI_PLACE_SIZE (PATRONI_HOST_MAX + sizeof("[]:65535"))

struct patroni {
	struct buf hosts;  /* the members, as a list of hosts with ports; to be freed */
	int64_t leaves_at; /* when `leaving` stops to be the leader, in seconds since 1970; 0: no
	                      plan */
	char leaving[PATRONI_PLACE_SIZE];
};

/* The caller has zeroed *found. false: *err says what is wrong with the answer. */
bool patroni_read(struct bytes text, struct patroni *found, struct err *err);

#endif
