/* SPDX-License-Identifier: ISC */
/*
 * hosts_from: where the hosts of an entry are found, if its line does not name them; and those that
 * were found, as part of a snapshot.
 */
#ifndef PGWEIR_CONFIG_HOSTS_FROM_H
#define PGWEIR_CONFIG_HOSTS_FROM_H

#include "pgweir/base/text.h"
#include "pgweir/config/config.h"

#define HOSTS_SOURCE_MAX 1024 /* bytes of a text */

enum hosts_source_kind {
	HOSTS_FROM_SRV,    /* the SRV records of `path` */
	HOSTS_FROM_PATRONI /* the REST interface of Patroni */
};

/* A text of hosts_from in parts, which borrow from it. */
struct hosts_source {
	enum hosts_source_kind kind;
	bool is_tls;
	struct bytes login; /* user:password; empty: none */
	struct bytes hosts; /* separated by commas */
	struct bytes path;  /* with its slash; empty: that of the cluster */
};

/* false: *err says what it must be. */
bool hosts_source_read(const char *text, struct hosts_source *source, struct err *err);

/* How many hosts it has to ask, and one of them with its port: config_host_port(). */
unsigned int hosts_source_count(const struct hosts_source *source);
struct bytes hosts_source_host(const struct hosts_source *source, unsigned int number);

/*
 * Whether an answer names a host by that: a name or an address that can be an item of a list, and
 * is no directory of a Unix socket.
 */
bool hosts_source_names_host(struct bytes name);

/* As people may see it: without the login. */
void hosts_source_show(const struct hosts_source *source, struct strbuf *out);

/* The list that was found for a text of hosts_from; NULL: none yet. */
const char *config_found_hosts(const struct config *config, const char *source);

/* A snapshot with this list. The caller owns a new reference; NULL: no memory. */
const struct config *config_with_found(const struct config *old, const char *source,
                                       const char *list);

#endif
