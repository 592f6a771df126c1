/* SPDX-License-Identifier: ISC */
/*
 * c-ares in the loop. Only this file uses c-ares.
 *
 * Hard here: c-ares has time limits of its own. While queries are running, a slow tick lets it
 * check them, so that no timer is needed for each. And it reads resolv.conf only once, so it is
 * restarted when the file has changed.
 *
 * A name may have addresses that this host cannot reach (AAAA without IPv6). They are left out;
 * otherwise every second connection might fail.
 */
#include "dns_priv.h"

#define CARES_NO_DEPRECATED /* those that 1.18 has; what replaced them came with 1.28 */
#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pgweir/base/buf.h"
#include "pgweir/base/container_of.h"

#define TRY_LIMIT (2 * USEC_PER_SEC)
#define TRIES 3
#define TICK_LIMIT (100 * USEC_PER_MS) /* precision with which c-ares keeps its time limits */

struct channel_socket {
	struct watch watch;
	struct dns *dns;
	TAILQ_ENTRY(channel_socket) node;
};

struct dns {
	struct loop *loop;
	ares_channel channel;
	char *resolv_conf; /* NULL: that of the system */
	char *servers;     /* NULL: those in resolv.conf */
	usec_t try_limit;
	struct timespec read_at; /* modification time of resolv.conf when it was read */
	unsigned int query_count;
	struct timer tick;
	TAILQ_HEAD(, channel_socket) sockets;
	TAILQ_HEAD(, dns_query) queries;
};

struct dns_query {
	struct dns *dns;
	TAILQ_ENTRY(dns_query) node;
	struct task task;        /* tells the owner */
	struct dns_query **slot; /* where its owner has it; NULL: it was forgotten */
	dns_on_answer *on_answer;
	enum dns_kind kind;
	struct dns_answer answer;
};

/* ---- results of c-ares ---- */

/* Whether this host has a route to the address: without IPv6 it has none to an AAAA address. */
static bool is_reachable(const struct address *address)
{
	struct address target = *address;
	int fd = socket(address->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ok;

	if (fd < 0)
		return errno != EAFNOSUPPORT;
	address_set_port(&target, 9); /* discard; connect() of a datagram socket sends nothing */
	ok = connect(fd, address_sockaddr(&target), address_sockaddr_size(&target)) == 0 ||
	     (errno != ENETUNREACH && errno != EHOSTUNREACH && errno != EADDRNOTAVAIL);
	close(fd);
	return ok;
}

/* Removes addresses that cannot be reached, unless none can be reached. */
static void drop_unreachable(struct dns_answer *answer)
{
	unsigned int count = 0;

	if (answer->count < 2)
		return;
	for (unsigned int i = 0; i < answer->count; i++) {
		if (is_reachable(&answer->addresses[i]))
			answer->addresses[count++] = answer->addresses[i];
	}
	if (count > 0)
		answer->count = count;
}

static void take_addresses(struct dns_answer *answer, const struct ares_addrinfo *info)
{
	struct address address, *room;
	size_t capacity = 0;

	for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next) {
		if (!address_from_sockaddr(&address, node->ai_addr, node->ai_addrlen))
			continue;
		address_set_port(&address, 0);
		if (address_is_among(&address, answer->addresses, answer->count))
			continue;
		if (answer->count == DNS_ADDRESSES_MAX)
			break;
		room = array_room(answer->addresses, answer->count, &capacity, sizeof(address));
		if (!room)
			break;
		answer->addresses = room;
		answer->addresses[answer->count++] = address;
	}
	drop_unreachable(answer);
}

static void query_free(struct dns_query *query)
{
	TAILQ_REMOVE(&query->dns->queries, query, node);
	loop_undefer(query->dns->loop, &query->task);
	free(query->answer.addresses);
	free(query->answer.services);
	free(query->answer.name);
	free(query);
}

static void tell(struct task *task)
{
	struct dns_query *query = container_of(task, struct dns_query, task);
	struct dns_query **slot = query->slot;

	if (slot) {
		*slot = NULL;
		query->on_answer(slot, &query->answer);
	}
	query_free(query);
}

/* Nothing of what was asked for is a failure, too. */
static void finish(struct dns_query *query, int status)
{
	bool is_empty = !query->answer.count && !query->answer.name;

	query->answer.failure =
	    ares_strerror(status == ARES_SUCCESS && is_empty ? ARES_ENODATA : status);
	query->dns->query_count--;
	loop_defer(query->dns->loop, &query->task);
}

static void on_info(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct dns_query *query = arg;

	(void)timeouts;
	if (status == ARES_SUCCESS)
		take_addresses(&query->answer, info);
	if (info)
		ares_freeaddrinfo(info);
	finish(query, status);
}

/* By priority, so that the order is the same each time. */
static bool is_before(const struct ares_srv_reply *a, const struct ares_srv_reply *b)
{
	int order = strcmp(a->host, b->host);

	if (a->priority != b->priority)
		return a->priority < b->priority;
	return order ? order < 0 : a->port < b->port;
}

static void take_services(struct dns_answer *answer, const struct ares_srv_reply *first)
{
	const struct ares_srv_reply *taken[SERVICES_MAX];
	unsigned int count = 0, at;

	for (const struct ares_srv_reply *one = first; one && count < SERVICES_MAX;
	     one = one->next) {
		/* "." says that there is no such service */
		if (!*one->host || strlen(one->host) >= SERVICE_NAME_SIZE || !one->port)
			continue;
		for (at = count++; at > 0 && is_before(one, taken[at - 1]); at--)
			taken[at] = taken[at - 1];
		taken[at] = one;
	}
	answer->services = count ? calloc(count, sizeof(*answer->services)) : NULL;
	for (at = 0; answer->services && at < count; at++) {
		memcpy(answer->services[at].name, taken[at]->host, strlen(taken[at]->host) + 1);
		answer->services[at].port = taken[at]->port;
		answer->count++;
	}
}

static void on_packet(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct dns_query *query = arg;
	struct ares_soa_reply *soa = NULL;
	struct ares_srv_reply *services = NULL;

	(void)timeouts;
	if (status == ARES_SUCCESS)
		status = query->kind == DNS_SERIAL ? ares_parse_soa_reply(packet, size, &soa)
		                                   : ares_parse_srv_reply(packet, size, &services);
	if (soa) {
		query->answer.serial = soa->serial;
		query->answer.count = 1;
	}
	take_services(&query->answer, services);
	ares_free_data(soa);
	ares_free_data(services);
	finish(query, status);
}

static void on_host(void *arg, int status, int timeouts, struct hostent *host)
{
	struct dns_query *query = arg;

	(void)timeouts;
	if (status == ARES_SUCCESS && host && *host->h_name)
		query->answer.name = strdup(host->h_name);
	finish(query, status);
}

/* ---- c-ares in the loop ---- */

static void on_tick(struct timer *timer)
{
	struct dns *dns = container_of(timer, struct dns, tick);

	ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	if (dns->query_count)
		timer_begin(&dns->tick, dns->loop, TICK_LIMIT, on_tick);
}

static void on_socket(struct watch *watch, unsigned int what)
{
	struct dns *dns = container_of(watch, struct channel_socket, watch)->dns;
	int fd = watch->fd;

	/* This may close the socket and free `watch`. */
	ares_process_fd(dns->channel, what & WATCH_READ ? fd : ARES_SOCKET_BAD,
	                what & WATCH_WRITE ? fd : ARES_SOCKET_BAD);
}

/* Called by c-ares with what it waits for on a socket. Both false: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns *dns = arg;
	struct channel_socket *socket;

	TAILQ_FOREACH (socket, &dns->sockets, node) {
		if (socket->watch.fd == fd)
			break;
	}
	if (!readable && !writable) {
		if (!socket)
			return;
		watch_done(&socket->watch);
		TAILQ_REMOVE(&dns->sockets, socket, node);
		free(socket);
		return;
	}
	if (!socket) {
		/* Without memory the query ends by its time limit. */
		socket = calloc(1, sizeof(*socket));
		if (!socket)
			return;
		socket->dns = dns;
		watch_init(&socket->watch, dns->loop, fd, on_socket);
		TAILQ_INSERT_TAIL(&dns->sockets, socket, node);
	}
	watch_set(&socket->watch, (readable ? WATCH_READ : 0u) | (writable ? WATCH_WRITE : 0u));
}

static struct timespec changed_at(const struct dns *dns)
{
	const char *path = dns->resolv_conf ? dns->resolv_conf : "/etc/resolv.conf";
	struct stat found;

	return stat(path, &found) == 0 ? found.st_mtim : (struct timespec){ 0 };
}

static bool open_channel(struct dns *dns, struct err *err)
{
	struct ares_options options = { .sock_state_cb = on_socket_state,
		                        .sock_state_cb_data = dns,
		                        .timeout = (int)(dns->try_limit / USEC_PER_MS),
		                        .tries = TRIES,
		                        .resolvconf_path = dns->resolv_conf };
	int wanted = ARES_OPT_SOCK_STATE_CB | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES;
	int status;

#ifdef ARES_OPT_QUERY_CACHE
	/* Since 1.31 it keeps answers itself: for how long is our caller's decision. */
	options.qcache_max_ttl = 0;
	wanted |= ARES_OPT_QUERY_CACHE;
#endif
	if (dns->resolv_conf)
		wanted |= ARES_OPT_RESOLVCONF;
	dns->read_at = changed_at(dns);
	status = ares_init_options(&dns->channel, &options, wanted);
	if (status != ARES_SUCCESS) {
		dns->channel = NULL;
		return err_set(err, ERR_SYSTEM, "cannot start the DNS resolver: %s",
		               ares_strerror(status));
	}
	if (dns->servers)
		status = ares_set_servers_ports_csv(dns->channel, dns->servers);
	if (status == ARES_SUCCESS)
		return true;
	ares_destroy(dns->channel);
	dns->channel = NULL;
	return err_set(err, ERR_CONFIG, "cannot use DNS servers %s: %s", dns->servers,
	               ares_strerror(status));
}

/* Restarts c-ares if resolv.conf has changed and no query is running. */
static bool refresh_channel(struct dns *dns, struct err *err)
{
	struct timespec changed;

	if (dns->channel && dns->query_count > 0)
		return true;
	changed = changed_at(dns);
	if (dns->channel && changed.tv_sec == dns->read_at.tv_sec &&
	    changed.tv_nsec == dns->read_at.tv_nsec)
		return true;
	if (dns->channel)
		ares_destroy(dns->channel);
	return open_channel(dns, err);
}

/* ---- functions for the resolver ---- */

static bool copy_text(char **to, const char *text)
{
	*to = NULL;
	return !text || !*text || (*to = strdup(text));
}

struct dns *dns_new(struct loop *loop, const struct resolver_options *options, struct err *err)
{
	struct dns *dns = err_calloc(sizeof(*dns), "no memory for the DNS resolver", err);

	if (!dns)
		return NULL;
	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		err_set(err, ERR_SYSTEM, "cannot start the DNS resolver's library");
		free(dns);
		return NULL;
	}
	TAILQ_INIT(&dns->sockets);
	TAILQ_INIT(&dns->queries);
	dns->loop = loop;
	dns->try_limit = options->try_limit ? options->try_limit : TRY_LIMIT;
	if (!copy_text(&dns->resolv_conf, options->resolv_conf) ||
	    !copy_text(&dns->servers, options->servers))
		err_set(err, ERR_MEMORY, "no memory for the DNS resolver");
	else if (open_channel(dns, err))
		return dns;
	dns_free(&dns);
	return NULL;
}

void dns_free(struct dns **dns)
{
	struct dns_query *query;

	if (!*dns)
		return;
	if ((*dns)->channel)
		ares_destroy((*dns)->channel); /* ends all running queries */
	while ((query = TAILQ_FIRST(&(*dns)->queries)))
		query_free(query);
	assert(TAILQ_EMPTY(&(*dns)->sockets));
	timer_clear(&(*dns)->tick);
	free((*dns)->resolv_conf);
	free((*dns)->servers);
	free(*dns);
	*dns = NULL;
	ares_library_cleanup();
}

/* NULL: *err says why. */
static struct dns_query *query_new(struct dns *dns, struct dns_query **slot,
                                   dns_on_answer *on_answer, struct err *err)
{
	struct dns_query *query;

	if (!refresh_channel(dns, err))
		return NULL;
	query = err_calloc(sizeof(*query), "no memory for a DNS query", err);
	if (!query)
		return NULL;
	*query = (struct dns_query){
		.dns = dns, .task.run = tell, .slot = slot, .on_answer = on_answer
	};
	TAILQ_INSERT_TAIL(&dns->queries, query, node);
	if (dns->query_count++ == 0)
		timer_begin(&dns->tick, dns->loop, TICK_LIMIT, on_tick);
	*slot = query;
	return query;
}

void dns_forget(struct dns_query **slot)
{
	if (*slot)
		(*slot)->slot = NULL;
	*slot = NULL;
}

bool dns_query(struct dns *dns, enum dns_kind kind, const char *name, struct dns_query **slot,
               dns_on_answer *on_answer, struct err *err)
{
	enum { CLASS_IN = 1 };
	/* Without that variable, 1.34 reads no file of hosts at all with the flag. */
	const struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT | (getenv("CARES_HOSTS") ? ARES_AI_ENVHOSTS : 0),
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	struct dns_query *query = query_new(dns, slot, on_answer, err);

	if (!query)
		return false;
	query->kind = kind;
	if (kind == DNS_ADDRESSES)
		ares_getaddrinfo(dns->channel, name, NULL, &hints, on_info, query);
	else
		ares_query(dns->channel, name, CLASS_IN, (int)kind, on_packet, query);
	return true;
}

bool dns_query_name(struct dns *dns, const struct address *address, struct dns_query **slot,
                    dns_on_answer *on_answer, struct err *err)
{
	bool is_v6 = address->family == AF_INET6;
	const void *in = is_v6 ? (const void *)&address->in6.sin6_addr : &address->in.sin_addr;
	int size = is_v6 ? sizeof(address->in6.sin6_addr) : sizeof(address->in.sin_addr);
	struct dns_query *query = query_new(dns, slot, on_answer, err);

	if (query)
		ares_gethostbyaddr(dns->channel, in, size, address->family, on_host, query);
	return query != NULL;
}

const char *dns_library(void) { return "c-ares " ARES_VERSION_STR; }

unsigned int dns_running_count(const struct dns *dns) { return dns->query_count; }
