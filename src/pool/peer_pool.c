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
#include "pgweir/pgwire/message.h"
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
	FILE *file = fopen(path, "re");
	struct buf text = { .limit = SECRET_MAX + BUF_PIECE + 1 };
	struct bytes secret;
	bool is_read;

	if (!file)
		return err_set(err, ERR_CONFIG, "peers_secret_file: cannot open %s: %s", path,
		               strerror(errno));
	is_read = buf_read_file(&text, file);
	fclose(file);
	secret = buf_bytes(&text);
	while (secret.count && strchr("\r\n", secret.at[secret.count - 1]))
		secret.count--;
	if (!is_read)
		err_set(err, ERR_CONFIG, "peers_secret_file: cannot read %s", path);
	else if (secret.count < SECRET_MIN)
		err_set(err, ERR_CONFIG, "peers_secret_file: %s has less than %d bytes", path,
		        SECRET_MIN);
	else if (!digest_sha256(secret, peers->secret))
		err_set(err, ERR_CONFIG, "peers_secret_file: SHA-256 is not available");
	else
		peers->is_on = true;
	buf_wipe(&text);
	return peers->is_on;
}

bool peer_pool_read_peers(struct peers *peers, const struct config *config, struct err *err)
{
	const char *name = config->peers_dns, *colon = strrchr(name, ':');
	long port = colon ? strtol(colon + 1, NULL, 10) : 0;

	*peers = (struct peers){ .is_on = false };
	if (!*name)
		return true;
	if (config->peer_id)
		return err_set(err, ERR_CONFIG, "peers_dns excludes peer_id");
	if (!colon || colon == name || colon - name > CONFIG_PEER_HOST_MAX || port < 1 ||
	    port > UINT16_MAX || colon[1 + strspn(colon + 1, "0123456789")])
		return err_set(err, ERR_CONFIG, "peers_dns: \"%s\" is not name:port", name);
	memcpy(peers->host, name, (size_t)(colon - name));
	peers->peer = (struct config_peer){ .id = PEER_BY_DNS,
		                            .host = peers->host,
		                            .port = (int)port,
		                            .pool_size = CONFIG_INHERIT };
	return read_secret(peers, config->peers_secret_file, err);
}

/* ---- peers ---- */

/* The peer's entry, if requests may be sent there; else NULL. */
static const struct config_peer *usable_peer(const struct pools *pools, int id)
{
	const struct config *config = pools->config;

	if (id == PEER_BY_DNS)
		return pools->with.peers ? &pools->with.peers->peer : NULL;
	if (!config->peer_id || id == config->peer_id)
		return NULL;
	return config_peer_find(config, id);
}

const struct peer_pool *peer_pool_find(const struct pools *pools, int id)
{
	const struct peer_pool *pool;

	HASH_FIND_INT(pools->peers.table, &id, pool);
	return pool;
}

/* ---- ending a forward ---- */

static void free_ended(struct task *task)
{
	struct peer_pools *peers = container_of(task, struct peer_pools, free_task);
	struct forward *forward;

	while ((forward = TAILQ_FIRST(&peers->ended))) {
		TAILQ_REMOVE(&peers->ended, forward, node);
		slab_put(&peers->forward_slab, forward);
	}
}

/* The only function that changes the state of a forward that is in a list. */
static void enter_forward(struct forward *forward, enum forward_state next)
{
	struct peer_pool *pool = forward->pool;
	struct forward_list *from =
	    forward->state == FORWARD_WAITING ? &pool->waiting : &pool->active;
	struct forward_list *to = next == FORWARD_ENDED ? &pool->pools->peers.ended : &pool->active;

	assert(next > forward->state);
	TAILQ_REMOVE(from, forward, node);
	TAILQ_INSERT_TAIL(to, forward, node);
	pool->counts[forward->state]--;
	if (next != FORWARD_ENDED)
		pool->counts[next]++;
	forward->state = next;
}

/* Whether it asks for addresses, and is sent by others. */
static bool is_first(const struct forward *forward)
{
	return forward->pool->id == PEER_BY_DNS && !forward->first;
}

static void finish_forward(struct forward *forward)
{
	struct pools *pools = forward->pool->pools;
	bool was_launched = forward->state != FORWARD_WAITING;

	if (forward->state == FORWARD_ENDED)
		return;
	enter_forward(forward, FORWARD_ENDED);
	timer_clear(&forward->timer);
	resolver_cancel(&forward->ask);
	dial_cancel(&forward->dial);
	stream_close(&forward->stream);
	explicit_bzero(forward->key, sizeof(forward->key));
	loop_defer(pools->with.loop, &pools->peers.free_task);
	loop_defer(pools->with.loop, &forward->pool->serve_task);
	forward->pool->first_count -= was_launched && is_first(forward);
	if (forward->on_end)
		forward->on_end(forward->arg);
	if (forward->first && --forward->first->follower_count == 0)
		finish_forward(forward->first);
}

/* Any client can send cancel requests, so that a peer is down is logged once a second only. */
static void fail_forward(struct forward *forward, const char *reason)
{
	struct peer_pool *pool = forward->pool;
	usec_t now = loop_now(pool->pools->with.loop);
	bool is_new = !pool->complained_at || now - pool->complained_at >= USEC_PER_SEC;

	log_at(&forward->log, is_new ? LOG_LEVEL_WARNING : LOG_LEVEL_DEBUG,
	       "failed cancel request: %s", reason);
	if (is_new)
		pool->complained_at = now;
	finish_forward(forward);
}

static void on_forward_due(struct timer *timer)
{
	static const char *const reasons[FORWARD_STATES] = {
		[FORWARD_WAITING] = "cancel_wait_timeout",
		[FORWARD_CONNECTING] = "connect timeout",
		[FORWARD_SENT] = "the peer does not answer",
	};
	struct forward *forward = container_of(timer, struct forward, timer);

	fail_forward(forward, reasons[forward->state]);
}

static void set_forward_limit(struct forward *forward, usec_t limit)
{
	struct loop *loop = forward->pool->pools->with.loop;

	timer_begin(&forward->timer, loop, limit, on_forward_due);
}

/* ---- connecting and sending ---- */

static void on_forward_input(struct stream *stream)
{
	struct bytes in;

	/* The peer sends nothing; it closes the connection when it is done. */
	if (stream_read(stream, &in) == STREAM_END)
		finish_forward(container_of(stream, struct forward, stream));
}

static void on_forward_gone(struct stream *stream)
{
	finish_forward(container_of(stream, struct forward, stream));
}

static const struct stream_ops ops = { .on_input = on_forward_input, .on_gone = on_forward_gone };

static void on_forward_connected(struct dial *dial, int fd, const struct err *err)
{
	struct forward *forward = container_of(dial, struct forward, dial);
	struct pools *pools = forward->pool->pools;
	struct buf out = { 0 };

	if (fd < 0) {
		fail_forward(forward, err->text);
		return;
	}
	stream_open(&forward->stream, pools->with.loop, pools->with.streams, fd, &ops);
	if (pools->config->log_connections)
		log_info(&forward->log, "new connection to peer");
	enter_forward(forward, FORWARD_SENT);
	set_forward_limit(forward, pools->config->server_connect_timeout);
	message_cancel(&out, bytes_of(forward->key, forward->key_size));
	if (!buf_ok(&out) || !stream_send(&forward->stream, buf_bytes(&out)) ||
	    !stream_want(&forward->stream, WANT_INPUT))
		fail_forward(forward, "the peer closed the connection");
	buf_wipe(&out);
}

static struct forward *add_forward(struct peer_pool *pool, struct bytes key);

/* Whether the key has the owner's address, and it is this one. */
static bool is_of(const struct forward *forward, const struct address *address)
{
	unsigned char digest[SHA256_SIZE];

	return forward->key_size >= TAG_AT + TAG_SIZE + PEER_PROOF_SIZE &&
	       sign_address(forward->pool->pools->with.peers, address, digest) &&
	       memcmp(forward->key + TAG_AT, digest, TAG_SIZE) == 0;
}

static void follow(struct forward *first, const struct address *address)
{
	struct bytes key = bytes_of(first->key, first->key_size);
	struct forward *forward = add_forward(first->pool, key);

	if (!forward)
		return;
	forward->address = *address;
	address_set_port(&forward->address, (uint16_t)first->pool->pools->with.peers->peer.port);
	forward->first = first;
	first->follower_count++;
}

/* The owner is asked or, if it cannot be told from the key or is not there any more, all are. */
static void follow_all(struct forward *first, const struct address *addresses, unsigned int count)
{
	unsigned int owner = 0;

	if (count > PEERS_MAX)
		count = PEERS_MAX;
	enter_forward(first, FORWARD_SENT);
	timer_clear(&first->timer); /* each of the others has one */
	while (owner < count && !is_of(first, &addresses[owner]))
		owner++;
	for (unsigned int i = 0; i < count; i++) {
		if (owner == count || owner == i)
			follow(first, &addresses[i]);
	}
	if (!first->follower_count)
		fail_forward(first, "out of memory");
}

static void on_forward_address(struct resolver_ask *ask, const struct address *address,
                               const struct err *err)
{
	struct forward *forward = container_of(ask, struct forward, ask);
	struct pools *pools = forward->pool->pools;

	if (!address)
		fail_forward(forward, err->text);
	else if (is_first(forward))
		follow_all(forward, ask->addresses, ask->address_count);
	else
		dial_start(&forward->dial, pools->with.loop, address, &pools->server_sockets,
		           on_forward_connected);
}

static void launch_forward(struct forward *forward, const struct config_peer *peer)
{
	struct pools *pools = forward->pool->pools;
	char path[CONFIG_PEER_HOST_MAX + sizeof("/.s.PGSQL.65535")];
	struct err err;

	enter_forward(forward, FORWARD_CONNECTING);
	set_forward_limit(forward, pools->config->server_connect_timeout);
	forward->pool->first_count += is_first(forward);
	if (forward->first) {
		dial_start(&forward->dial, pools->with.loop, &forward->address,
		           &pools->server_sockets, on_forward_connected);
	} else if (*peer->host == '/' || *peer->host == '@') {
		snprintf(path, sizeof(path), "%s/.s.PGSQL.%d", peer->host, peer->port);
		dial_start_unix(&forward->dial, pools->with.loop, path, on_forward_connected);
	} else if (!resolver_start(pools->with.resolver, &forward->ask, peer->host,
	                           (uint16_t)peer->port, on_forward_address, &err)) {
		fail_forward(forward, err.text);
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
	struct peer_pools *peers = &pool->pools->peers;

	loop_undefer(pool->pools->with.loop, &pool->serve_task);
	HASH_DEL(peers->table, pool);
	peers->count--;
	slab_put(&peers->pool_slab, pool);
}

static bool has_space_for_forward(const struct peer_pool *pool, const struct config_peer *peer)
{
	int size = config_peer_pool_size(pool->pools->config, peer);
	unsigned int used =
	    pool->counts[FORWARD_CONNECTING] + pool->counts[FORWARD_SENT] - pool->first_count;

	return size == 0 || used < (unsigned int)size;
}

static void serve_peer_pool(struct task *task)
{
	struct peer_pool *pool = container_of(task, struct peer_pool, serve_task);
	const struct config_peer *peer = usable_peer(pool->pools, pool->id);
	struct forward *forward;

	while ((forward = TAILQ_FIRST(&pool->waiting)) &&
	       (!peer || has_space_for_forward(pool, peer))) {
		if (peer)
			launch_forward(forward, peer);
		else
			fail_forward(forward, "the peer was removed from the configuration");
	}
	if (!peer && TAILQ_EMPTY(&pool->waiting) && TAILQ_EMPTY(&pool->active))
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
	pool->pools = pools;
	pool->id = peer->id;
	pool->serve_task.run = serve_peer_pool;
	TAILQ_INIT(&pool->waiting);
	TAILQ_INIT(&pool->active);
	name_pool(pool, peer);
	HASH_ADD_INT(peers->table, id, pool);
	peers->count++;
	return pool;
}

static void tell_forward(const struct logger *logger, struct log_who *who)
{
	const struct forward *forward = container_of(logger, struct forward, log);

	who->kind = "peer";
	who->pointer = forward;
	strbuf_add(&who->address, forward->pool->name);
}

static struct forward *add_forward(struct peer_pool *pool, struct bytes key)
{
	struct pools *pools = pool->pools;
	struct forward *forward = slab_take(&pools->peers.forward_slab);

	assert(key.count <= FORWARD_KEY_MAX);
	if (!forward)
		return NULL;
	*forward = (struct forward){
		.pool = pool,
		.log = { pools->with.log, tell_forward },
		.key_size = (uint16_t)key.count,
	};
	memcpy(forward->key, key.at, key.count);
	TAILQ_INSERT_TAIL(&pool->waiting, forward, node);
	pool->counts[FORWARD_WAITING]++;
	set_forward_limit(forward, pools->config->cancel_wait_timeout);
	loop_defer(pools->with.loop, &pool->serve_task);
	return forward;
}

struct forward *peer_pool_forward(struct pools *pools, int id, struct bytes key,
                                  void (*on_end)(void *arg), void *arg, struct err *err)
{
	const struct config_peer *peer = usable_peer(pools, id);
	struct peer_pool *pool = peer ? find_or_add(pools, peer) : NULL;
	struct forward *forward = pool ? add_forward(pool, key) : NULL;

	if (forward) {
		forward->on_end = on_end;
		forward->arg = arg;
	} else if (peer) {
		err_close(err, CLOSE_MEMORY);
	} else {
		err_set(err, ERR_STATE, "failed cancel request: no such peer %d", id);
		err_reason(err, CLOSE_CANCEL_FAILED);
	}
	return forward;
}

void peer_pool_drop_forward(struct forward *forward)
{
	forward->on_end = NULL;
	if (forward->state != FORWARD_SENT)
		finish_forward(forward);
}

/* ---- all of them ---- */

void peer_pools_init(struct peer_pools *peers)
{
	peers->free_task.run = free_ended;
	TAILQ_INIT(&peers->ended);
	slab_init(&peers->pool_slab, "peer_pool_cache", sizeof(struct peer_pool));
	slab_init(&peers->forward_slab, "peer_cancel_cache", sizeof(struct forward));
}

void peer_pools_done(struct pools *pools)
{
	struct peer_pools *peers = &pools->peers;
	struct peer_pool *pool, *next;
	struct forward *forward;

	HASH_ITER (hh, peers->table, pool, next) {
		while ((forward = TAILQ_FIRST(&pool->waiting)) ||
		       (forward = TAILQ_FIRST(&pool->active))) {
			forward->on_end = NULL;
			finish_forward(forward);
		}
		remove_pool(pool);
	}
	loop_undefer(pools->with.loop, &peers->free_task);
	free_ended(&peers->free_task);
	slab_done(&peers->pool_slab);
	slab_done(&peers->forward_slab);
}

void peer_pools_configure(struct pools *pools)
{
	struct timer_queue *line =
	    loop_timer_queue(pools->with.loop, pools->config->cancel_wait_timeout, on_forward_due);
	struct peer_pool *pool, *next;
	struct forward *forward;

	HASH_ITER (hh, pools->peers.table, pool, next) {
		const struct config_peer *peer = usable_peer(pools, pool->id);

		TAILQ_FOREACH (forward, &pool->waiting, node)
			timer_change(&forward->timer, line);

		if (peer)
			name_pool(pool, peer);
		loop_defer(pools->with.loop, &pool->serve_task);
	}
}
