/* SPDX-License-Identifier: ISC */
/*
 * The entries of [peers].
 */
#define HASH_NONFATAL_OOM 1 /* out of memory: the element is not added and its hh.tbl is NULL */

#include "pgweir/config/peers.h"

#include <stdlib.h>
#include <string.h>

#include "entries_priv.h"
#include "value_priv.h"

#include "pgweir/base/banned.h"

#define PEER_PORT 6432

static void peer_free(struct config_peer **peer)
{
	if (!*peer)
		return;
	config_entry_free(*peer, peer_keys, peer_keys_count);
	free(*peer);
	*peer = NULL;
}

void peers_free(struct config_entries *entries)
{
	struct config_peer *peer, *next;

	HASH_ITER (hh, entries->peers, peer, next) {
		HASH_DEL(entries->peers, peer);
		peer_free(&peer);
	}
}

static struct config_peer *peer_new(int id)
{
	struct config_peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	entry_reset(peer, peer_keys, peer_keys_count);
	peer->id = id;
	peer->port = PEER_PORT;
	return peer;
}

/* Adds a peer, or replaces the one of the same id. false: no memory. */
static bool file_peer(struct config_entries *entries, struct config_peer *peer)
{
	struct config_peer *old;

	HASH_FIND_INT(entries->peers, &peer->id, old);
	if (old) {
		HASH_DEL(entries->peers, old);
		peer_free(&old);
	}
	HASH_ADD_INT(entries->peers, id, peer);
	return peer->hh.tbl != NULL;
}

static bool judge_host(const struct config_peer *peer, struct err *err)
{
	if (!peer->host)
		return err_set(err, ERR_CONFIG, "host is missing");
	if (strchr(peer->host, ','))
		return err_set(err, ERR_CONFIG, "host: a peer has one host only");
	return true;
}

static bool read_id(const char *name, int *id, struct err *err)
{
	int64_t value;

	if (!value_int(name, 10, &value, NULL) || value < 1 || value > CONFIG_PEER_ID_MAX)
		return err_set(err, ERR_CONFIG, "its id must be a number from 1 to %d",
		               CONFIG_PEER_ID_MAX);
	*id = (int)value;
	return true;
}

static bool add_peer(struct config_entries *entries, const char *name, char *text,
                     struct buf *notes, struct err *err)
{
	struct config_peer *peer;
	bool ok;
	int id = 0;

	if (!read_id(name, &id, err))
		return false;
	peer = peer_new(id);
	if (!peer)
		return err_set(err, ERR_MEMORY, "no memory");
	ok =
	    entry_read(peer, peer_keys, peer_keys_count, text, notes, err) && judge_host(peer, err);
	if (ok && !file_peer(entries, peer))
		ok = err_set(err, ERR_MEMORY, "no memory");
	if (!ok)
		peer_free(&peer);
	return ok;
}

bool peers_add(struct config_entries *entries, const char *name, char *text, struct buf *notes,
               struct err *err)
{
	return add_peer(entries, name, text, notes, err) ||
	       err_prefix(err, "peer \"%.64s\": ", name);
}

struct source_pos *peers_source_pos(struct config_entries *entries, const char *name)
{
	struct config_peer *peer;
	struct err err;
	int id = 0;

	if (!read_id(name, &id, &err))
		return NULL;
	HASH_FIND_INT(entries->peers, &id, peer);
	return peer ? &peer->pos : NULL;
}

static int compare_id(const struct config_peer *a, const struct config_peer *b)
{
	return (a->id > b->id) - (a->id < b->id);
}

void peers_sort(struct config_entries *entries) { HASH_SORT(entries->peers, compare_id); }

const struct config_peer *config_peer_find(const struct config *config, int id)
{
	const struct config_peer *peer;

	HASH_FIND_INT(config->entries->peers, &id, peer);
	return peer;
}

const struct config_peer *config_peer_after(const struct config *config, int id)
{
	const struct config_peer *peer = config_peer_find(config, id);

	if (peer)
		return peer->hh.next;
	for (peer = config->entries->peers; peer && peer->id <= id;)
		peer = peer->hh.next;
	return peer;
}

size_t config_peer_count(const struct config *config) { return HASH_COUNT(config->entries->peers); }

int config_peer_pool_size(const struct config *config, const struct config_peer *peer)
{
	return peer->pool_size == CONFIG_INHERIT ? config->default_pool_size : peer->pool_size;
}
