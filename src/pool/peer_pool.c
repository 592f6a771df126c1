/* SPDX-License-Identifier: ISC */
/*
 * Forwards cancel requests to other instances.
 *
 *   wait queue --> connecting --> sent --> the peer closes: it has handled the request
 *
 * Hard here: a reload may remove or move a peer while requests are in progress. So no pointer into
 * a snapshot is kept here. The peer's address is looked up only when a request is sent; requests
 * already connecting keep the old address.
 */
#include "pgweir/pool/peer_pool.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgweir/auth/digest.h"
#include "pgweir/base/container_of.h"
#include "pgweir/pool/pools.h"

/*
 * ---- keys and requests of peers_dns ----
 *
 * HMAC-SHA-256 with a word in front of what it is for.
 */

#define SEAL_AT 1
#define SEAL_SIZE 2
#define TAG_AT 8
#define TAG_SIZE 4
#define KEY_MIN 8
#define SECRET_MIN 16
#define SECRET_MAX 4096

static bool sign(const struct peers *peers, const char *word, struct bytes in,
                 unsigned char out[SHA256_SIZE])
{
	struct bytes secret = bytes_of(peers->secret, sizeof(peers->secret));
	struct buf text = { 0 };
	bool is_signed;

	buf_add_cstr(&text, word);
	buf_add(&text, in.at, in.count);
	is_signed = buf_ok(&text) && digest_hmac(secret, buf_bytes(&text), out);
	buf_wipe(&text);
	return is_signed;
}

static bool has_signature(const char *at, const unsigned char *signature, size_t count)
{
	return bytes_equal_secret(bytes_of(at, count), bytes_of(signature, count));
}

/* Of all bytes but the seal itself, the loop and the TTL. */
static bool sign_key(const struct peers *peers, struct bytes key, unsigned char out[SHA256_SIZE])
{
	unsigned char covered[FORWARD_KEY_MAX];

	memcpy(covered, key.at, key.count);
	covered[SEAL_AT] = covered[SEAL_AT + 1] = covered[6] = covered[7] = 0;
	return sign(peers, "key", bytes_of(covered, key.count), out);
}

static bool sign_address(const struct peers *peers, const struct address *address,
                         unsigned char out[SHA256_SIZE])
{
	char text[ADDRESS_TEXT_SIZE];

	address_format_host(address, text, sizeof(text));
	return sign(peers, "address", bytes_of(text, strlen(text)), out);
}

void peer_pool_seal_key(const struct peers *peers, unsigned char *key, size_t count,
                        const struct address *own)
{
	unsigned char digest[SHA256_SIZE];

	if (count >= TAG_AT + TAG_SIZE && sign_address(peers, own, digest))
		memcpy(key + TAG_AT, digest, TAG_SIZE);
	if (sign_key(peers, bytes_of(key, count), digest))
		memcpy(key + SEAL_AT, digest, SEAL_SIZE);
}

bool peer_pool_knows_seal(const struct peers *peers, struct bytes key)
{
	unsigned char digest[SHA256_SIZE];

	return key.count >= KEY_MIN && key.count <= FORWARD_KEY_MAX - PEER_PROOF_SIZE &&
	       sign_key(peers, key, digest) && has_signature(key.at + SEAL_AT, digest, SEAL_SIZE);
}

bool peer_pool_wrap_key(const struct peers *peers, struct bytes key, unsigned char *out)
{
	unsigned char digest[SHA256_SIZE];

	memcpy(out, key.at, key.count);
	if (!sign(peers, "request", key, digest))
		return false;
	memcpy(out + key.count, digest, PEER_PROOF_SIZE);
	return true;
}

bool peer_pool_unwrap_key(const struct peers *peers, struct bytes *key)
{
	unsigned char digest[SHA256_SIZE];
	struct bytes inner = *key;

	if (key->count < KEY_MIN + PEER_PROOF_SIZE)
		return false;
	inner.count -= PEER_PROOF_SIZE;
	if (!sign(peers, "request", inner, digest) ||
	    !has_signature(key->at + inner.count, digest, PEER_PROOF_SIZE))
		return false;
	*key = inner;
	return true;
}

static bool read_secret(struct peers *peers, const char *path, struct err *err)
{
	struct buf text = { .limit = SECRET_MAX + BUF_PIECE + 1, .is_secret = true };
	const char *failed = buf_read_file(&text, path);
	struct bytes secret = buf_bytes(&text);

	while (secret.count && strchr("\r\n", secret.at[secret.count - 1]))
		secret.count--;
	if (failed)
		err_set(err, ERR_CONFIG, "peers_secret_file: cannot %s %s: %s", failed, path,
		        strerror(errno));
	else if (secret.count < SECRET_MIN)
		err_set(err, ERR_CONFIG, "peers_secret_file: %s has less than %d bytes", path,
		        SECRET_MIN);
	else if (!digest_sha256(secret, peers->secret))
		err_set(err, ERR_CONFIG, "peers_secret_file: SHA-256 is not available");
	else
		peers->is_on = true;
	buf_free(&text);
	return peers->is_on;
}

bool peer_pool_read_peers(struct peers *peers, const struct config *config, struct err *err)
{
	struct bytes host = bytes_text(config->peers_dns);
	int port = config_host_port(&host, 0);

	*peers = (struct peers){ .is_on = false };
	if (!host.count)
		return true;
	if (config->peer_id)
		return err_set(err, ERR_CONFIG, "peers_dns excludes peer_id");
	if (!port || host.count > CONFIG_PEER_HOST_MAX)
		return err_set(err, ERR_CONFIG, "peers_dns: \"%s\" is not name:port",
		               config->peers_dns);
	memcpy(peers->host, host.at, host.count);
	peers->peer = (struct config_peer){
		.id = PEER_BY_DNS, .host = peers->host, .port = port, .pool_size = CONFIG_INHERIT
	};
	return read_secret(peers, config->peers_secret_file, err);
}

/* ---- peers ---- */

/* The peer's entry, if requests may be sent there; else NULL. */
static const struct config_peer *usable_peer(const struct pools *pools, int id)
{
	const struct config *config = pools->config;
	char name[16];

	if (id == PEER_BY_DNS)
		return pools->with.peers ? &pools->with.peers->peer : NULL;
	if (!config->peer_id || id == config->peer_id)
		return NULL;
	snprintf(name, sizeof(name), "%d", id);
	return config_entry(config, ENTRY_PEER, name);
}

const struct peer_pool *peer_pool_find(const struct pools *pools, int id)
{
	return TABLE_GET_OWN(hh, pools->peers.table, &id, sizeof(id));
}

/* ---- a request ---- */

struct forward {
	struct cancel cancel;
	/*
	 * PEER_BY_DNS: the first one looks up the addresses, and then waits for one forward for
	 * each of them, its followers, which have `first` and an address.
	 */
	struct forward *first;
	unsigned int follower_count;
	struct address address;
	struct logger log;
	struct resolver_ask ask;
	uint16_t key_size;
	unsigned char key[FORWARD_KEY_MAX];
};

static struct forward *forward_of(const struct cancel *cancel)
{
	return container_of(cancel, struct forward, cancel);
}

static struct peer_pool *pool_of(const struct forward *forward)
{
	return container_of(forward->cancel.queue, struct peer_pool, queue);
}

static struct pools *pools_of(const struct forward *forward)
{
	return forward->cancel.queue->pools;
}

/* Whether it asks for addresses, and is sent by others. */
static bool is_first(const struct forward *forward)
{
	return pool_of(forward)->id == PEER_BY_DNS && !forward->first;
}

static bool prepare_forward(const struct cancel *cancel, struct bytes *key,
                            struct securing_how *how)
{
	(void)how;
	*key = bytes_of(forward_of(cancel)->key, forward_of(cancel)->key_size);
	return true;
}

static void on_forward_state(struct cancel *cancel, enum cancel_state from)
{
	struct forward *forward = forward_of(cancel), *first = forward->first;
	struct pools *pools = pools_of(forward);

	switch (cancel->state) {
	case CANCEL_CONNECTING:
		timer_clear(&cancel->wait);
		pool_of(forward)->first_count += is_first(forward);
		break;
	case CANCEL_SENT:
		timer_set(&cancel->way, cancel->way.queue, loop_now(pools->shared.loop));
		if (pools->config->log_connections && !is_first(forward))
			log_info(&forward->log, "new connection to peer");
		break;
	default:
		resolver_cancel(&forward->ask);
		explicit_bzero(forward->key, sizeof(forward->key));
		loop_defer(pools->shared.loop, &pool_of(forward)->serve_task);
		pool_of(forward)->first_count -= from != CANCEL_WAITING && is_first(forward);
		if (first && --first->follower_count == 0)
			cancel_finish(&first->cancel);
	}
}

/* Any client can send cancel requests, so that a peer is down is logged once a second only. */
static void tell_forward(struct cancel *cancel, enum cancel_end end, const char *text)
{
	struct forward *forward = forward_of(cancel);
	struct peer_pool *pool = pool_of(forward);
	usec_t now = loop_now(pools_of(forward)->shared.loop);
	bool is_new = !pool->complained_at || now - pool->complained_at >= USEC_PER_SEC;

	if (end == CANCEL_DELIVERED)
		return;
	if (end == CANCEL_WAIT_OVER)
		text = "cancel_wait_timeout";
	else if (end == CANCEL_WAY_OVER)
		text =
		    cancel->state == CANCEL_SENT ? "the peer does not answer" : "connect timeout";
	log_at(&forward->log, is_new ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG,
	       "failed cancel request: %s", text);
	if (is_new)
		pool->complained_at = now;
}

static const struct cancel_ops ops = { .prepare = prepare_forward,
	                               .on_state = on_forward_state,
	                               .tell = tell_forward };

static void log_who(const struct logger *logger, struct log_who *who)
{
	const struct forward *forward = container_of(logger, struct forward, log);

	who->kind = "peer";
	who->pointer = forward;
	strbuf_add(&who->address, pool_of(forward)->name);
}

/* ---- to one address, or to all of peers_dns ---- */

static struct forward *add_forward(struct peer_pool *pool, struct bytes key,
                                   void (*on_end)(void *arg), void *arg)
{
	struct pools *pools = pool->queue.pools;
	struct forward *forward = slab_take(&pools->peers.forward_slab);

	assert(key.count <= FORWARD_KEY_MAX);
	if (!forward)
		return NULL;
	forward->cancel.on_end = on_end;
	forward->cancel.arg = arg;
	forward->log = (struct logger){ pools->shared.log, log_who };
	forward->key_size = (uint16_t)key.count;
	memcpy(forward->key, key.at, key.count);
	cancel_add(&forward->cancel, &pool->queue, &ops, &pools->peers.forward_slab);
	loop_defer(pools->shared.loop, &pool->serve_task);
	return forward;
}

/* Whether the key has the owner's address, and it is this one. */
static bool is_of(const struct forward *forward, const struct address *address)
{
	unsigned char digest[SHA256_SIZE];

	return forward->key_size >= TAG_AT + TAG_SIZE + PEER_PROOF_SIZE &&
	       sign_address(pools_of(forward)->with.peers, address, digest) &&
	       memcmp(forward->key + TAG_AT, digest, TAG_SIZE) == 0;
}

static void follow(struct forward *first, const struct address *address)
{
	struct bytes key = bytes_of(first->key, first->key_size);
	struct forward *forward = add_forward(pool_of(first), key, NULL, NULL);

	if (!forward)
		return;
	forward->address = *address;
	address_set_port(&forward->address, (uint16_t)pools_of(first)->with.peers->peer.port);
	forward->first = first;
	first->follower_count++;
}

/* The owner is asked or, if it cannot be told from the key or is not there any more, all are. */
static void follow_all(struct forward *first, const struct address *addresses, unsigned int count)
{
	unsigned int owner = 0;

	if (count > PEERS_MAX)
		count = PEERS_MAX;
	cancel_enter(&first->cancel, CANCEL_SENT);
	timer_clear(&first->cancel.way); /* each of the others has one */
	while (owner < count && !is_of(first, &addresses[owner]))
		owner++;
	for (unsigned int i = 0; i < count; i++) {
		if (owner == count || owner == i)
			follow(first, &addresses[i]);
	}
	if (!first->follower_count)
		cancel_fail(&first->cancel, "out of memory");
}

static void on_forward_address(struct resolver_ask *ask, const struct address *address,
                               const struct err *err)
{
	struct forward *forward = container_of(ask, struct forward, ask);

	if (!address)
		cancel_fail(&forward->cancel, err->text);
	else if (is_first(forward))
		follow_all(forward, ask->addresses, ask->address_count);
	else
		cancel_connect(&forward->cancel, address, NULL);
}

static void launch_forward(struct forward *forward, const struct config_peer *peer)
{
	char path[CONFIG_PEER_HOST_MAX + sizeof("/.s.PGSQL.65535")];
	struct err err;

	cancel_launch(&forward->cancel);
	if (forward->first) {
		cancel_connect(&forward->cancel, &forward->address, NULL);
	} else if (*peer->host == '/' || *peer->host == '@') {
		snprintf(path, sizeof(path), "%s/.s.PGSQL.%d", peer->host, peer->port);
		cancel_connect(&forward->cancel, NULL, path);
	} else if (!resolver_start(pools_of(forward)->shared.resolver, &forward->ask, peer->host,
	                           (uint16_t)peer->port, on_forward_address, &err)) {
		cancel_fail(&forward->cancel, err.text);
	}
}

/* ---- pools ---- */

static void name_pool(struct peer_pool *pool, const struct config_peer *peer)
{
	if (peer->id == PEER_BY_DNS) {
		snprintf(pool->name, sizeof(pool->name), "peers@%s:%d", peer->host, peer->port);
		return;
	}
	snprintf(pool->name, sizeof(pool->name),
	         strchr(peer->host, ':') ? "peer-%d@[%s]:%d" : "peer-%d@%s:%d", peer->id,
	         peer->host, peer->port);
}

static void remove_pool(struct peer_pool *pool)
{
	struct pools *pools = pool->queue.pools;

	loop_undefer(pools->shared.loop, &pool->serve_task);
	HASH_DEL(pools->peers.table, pool);
	slab_put(&pools->peers.pool_slab, pool);
}

static bool has_space_for_forward(const struct peer_pool *pool, const struct config_peer *peer)
{
	int size = config_peer_pool_size(pool->queue.pools->config, peer);
	unsigned int used =
	    pool->queue.count - pool->queue.counts[CANCEL_WAITING] - pool->first_count;

	return size == 0 || used < (unsigned int)size;
}

static void serve_peer_pool(struct task *task)
{
	struct peer_pool *pool = container_of(task, struct peer_pool, serve_task);
	const struct config_peer *peer = usable_peer(pool->queue.pools, pool->id);
	struct cancel *cancel;

	while ((cancel = TAILQ_FIRST(&pool->queue.lists[CANCEL_WAITING])) &&
	       (!peer || has_space_for_forward(pool, peer))) {
		if (peer)
			launch_forward(forward_of(cancel), peer);
		else
			cancel_fail(cancel, "the peer was removed from the configuration");
	}
	if (!peer && !pool->queue.count)
		remove_pool(pool);
}

static struct peer_pool *find_or_add(struct pools *pools, const struct config_peer *peer)
{
	struct peer_pools *peers = &pools->peers;
	struct peer_pool *pool;

	HASH_FIND_INT(peers->table, &peer->id, pool);
	if (pool)
		return pool;
	pool = slab_take(&peers->pool_slab);
	if (!pool)
		return NULL;
	pool->id = peer->id;
	pool->serve_task.run = serve_peer_pool;
	cancel_queue_init(&pool->queue, pools);
	name_pool(pool, peer);
	HASH_ADD_INT(peers->table, id, pool);
	return pool;
}

struct cancel *peer_pool_forward(struct pools *pools, int id, struct bytes key,
                                 void (*on_end)(void *arg), void *arg, struct err *err)
{
	const struct config_peer *peer = usable_peer(pools, id);
	struct peer_pool *pool = peer ? find_or_add(pools, peer) : NULL;
	struct forward *forward = pool ? add_forward(pool, key, on_end, arg) : NULL;

	if (forward)
		return &forward->cancel;
	if (peer) {
		err_close(err, CLOSE_MEMORY);
	} else {
		err_set(err, ERR_STATE, "failed cancel request: no such peer %d", id);
		err_reason(err, CLOSE_CANCEL_FAILED);
	}
	return NULL;
}

/* ---- all of them ---- */

void peer_pools_init(struct peer_pools *peers)
{
	slab_init(&peers->pool_slab, "peer_pool_cache", sizeof(struct peer_pool));
	slab_init(&peers->forward_slab, "peer_cancel_cache", sizeof(struct forward));
}

void peer_pools_drop(struct pools *pools)
{
	struct peer_pool *pool, *next;

	HASH_ITER (hh, pools->peers.table, pool, next) {
		cancel_queue_drop(&pool->queue);
		remove_pool(pool);
	}
}

void peer_pools_done(struct pools *pools)
{
	slab_done(&pools->peers.pool_slab);
	slab_done(&pools->peers.forward_slab);
}

void peer_pools_configure(struct pools *pools)
{
	struct peer_pool *pool, *next;

	HASH_ITER (hh, pools->peers.table, pool, next) {
		const struct config_peer *peer = usable_peer(pools, pool->id);

		cancel_queue_rearm(&pool->queue);
		if (peer)
			name_pool(pool, peer);
		loop_defer(pools->shared.loop, &pool->serve_task);
	}
}
