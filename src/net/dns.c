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
#include "resolver_priv.h"

#define CARES_NO_DEPRECATED /* those that 1.18 has; what replaced them came with 1.28 */
#include <ares.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
};

struct query {
	struct dns *dns;
	dns_on_answer *on_answer;
	void *arg;
};

/* ---- results of c-ares ---- */

struct found {
	struct address addresses[DNS_ADDRESSES_MAX];
	unsigned int count;
};

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
static void drop_unreachable(struct found *found)
{
	unsigned int count = 0;

	if (found->count < 2)
		return;
	for (unsigned int i = 0; i < found->count; i++) {
		if (is_reachable(&found->addresses[i]))
			found->addresses[count++] = found->addresses[i];
	}
	if (count > 0)
		found->count = count;
}

static void take_addresses(struct found *found, const struct ares_addrinfo *info)
{
	struct address address;

	for (const struct ares_addrinfo_node *node = info->nodes; node; node = node->ai_next) {
		if (found->count == DNS_ADDRESSES_MAX)
			break;
		if (!address_from_sockaddr(&address, node->ai_addr, node->ai_addrlen))
			continue;
		address_set_port(&address, 0);
		if (!address_is_among(&address, found->addresses, found->count))
			found->addresses[found->count++] = address;
	}
	drop_unreachable(found);
}

static void finish(struct query *query, struct dns_answer *answer, int status)
{
	answer->failure = ares_strerror(status);
	query->dns->query_count--;
	query->on_answer(query->arg, answer);
	free(query);
}

static void on_info(void *arg, int status, int timeouts, struct ares_addrinfo *info)
{
	struct found found = { .count = 0 };

	(void)timeouts;
	if (status == ARES_SUCCESS)
		take_addresses(&found, info);
	if (status == ARES_SUCCESS && found.count == 0)
		status = ARES_ENODATA;
	if (info)
		ares_freeaddrinfo(info);
	finish(arg, &(struct dns_answer){ .addresses = found.addresses, .count = found.count },
	       status);
}

static void on_soa(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct ares_soa_reply *soa = NULL;
	struct dns_answer answer = { 0 };
	uint32_t serial;

	(void)timeouts;
	if (status == ARES_SUCCESS)
		status = ares_parse_soa_reply(packet, size, &soa);
	if (status == ARES_SUCCESS) {
		serial = soa->serial;
		answer.serial = &serial;
	}
	if (soa)
		ares_free_data(soa);
	finish(arg, &answer, status);
}

/* By priority, so that the order is the same each time. */
static bool is_before(const struct ares_srv_reply *a, const struct ares_srv_reply *b)
{
	int order = strcmp(a->host, b->host);

	if (a->priority != b->priority)
		return a->priority < b->priority;
	return order ? order < 0 : a->port < b->port;
}

static unsigned int take_services(struct service_host *list, const struct ares_srv_reply *first)
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
	for (at = 0; at < count; at++) {
		memcpy(list[at].name, taken[at]->host, strlen(taken[at]->host) + 1);
		list[at].port = taken[at]->port;
	}
	return count;
}

static void on_srv(void *arg, int status, int timeouts, unsigned char *packet, int size)
{
	struct ares_srv_reply *first = NULL;
	struct service_host list[SERVICES_MAX];
	struct dns_answer answer = { .services = list };

	(void)timeouts;
	if (status == ARES_SUCCESS)
		status = ares_parse_srv_reply(packet, size, &first);
	if (status == ARES_SUCCESS)
		answer.count = take_services(list, first);
	if (status == ARES_SUCCESS && answer.count == 0)
		status = ARES_ENODATA;
	if (first)
		ares_free_data(first);
	finish(arg, &answer, status);
}

static void on_host(void *arg, int status, int timeouts, struct hostent *host)
{
	const char *name = status == ARES_SUCCESS && host && *host->h_name ? host->h_name : NULL;

	(void)timeouts;
	finish(arg, &(struct dns_answer){ .name = name }, status);
}

/* ---- c-ares in the loop ---- */

static void on_tick(struct timer *timer);

static void set_tick(struct dns *dns)
{
	if (dns->query_count == 0)
		timer_clear(&dns->tick);
	else if (!timer_is_set(&dns->tick))
		timer_begin(&dns->tick, dns->loop, TICK_LIMIT, on_tick);
}

static void on_tick(struct timer *timer)
{
	struct dns *dns = container_of(timer, struct dns, tick);

	ares_process_fd(dns->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	set_tick(dns);
}

static void on_socket(struct watch *watch, unsigned int what)
{
	struct dns *dns = ((struct channel_socket *)watch)->dns;
	int fd = watch->fd;

	/* This may close the socket and free `watch`. */
	ares_process_fd(dns->channel, what & WATCH_READ ? fd : ARES_SOCKET_BAD,
	                what & WATCH_WRITE ? fd : ARES_SOCKET_BAD);
	set_tick(dns);
}

static struct channel_socket *find_socket(struct dns *dns, int fd)
{
	struct channel_socket *socket;

	TAILQ_FOREACH (socket, &dns->sockets, node) {
		if (socket->watch.fd == fd)
			return socket;
	}
	return NULL;
}

/* Called by c-ares with what it waits for on a socket. Both false: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct dns *dns = arg;
	struct channel_socket *socket = find_socket(dns, fd);

	_Static_assert(offsetof(struct channel_socket, watch) == 0, "on_socket() counts on it");
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
	struct dns *dns;

	if (ares_library_init(ARES_LIB_INIT_ALL) != ARES_SUCCESS) {
		err_set(err, ERR_SYSTEM, "cannot start the DNS resolver's library");
		return NULL;
	}
	dns = calloc(1, sizeof(*dns));
	if (!dns) {
		err_set(err, ERR_MEMORY, "no memory for the DNS resolver");
		ares_library_cleanup();
		return NULL;
	}
	TAILQ_INIT(&dns->sockets);
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
	if (!*dns)
		return;
	if ((*dns)->channel)
		ares_destroy((*dns)->channel); /* ends all running queries */
	assert(TAILQ_EMPTY(&(*dns)->sockets) && (*dns)->query_count == 0);
	timer_clear(&(*dns)->tick);
	free((*dns)->resolv_conf);
	free((*dns)->servers);
	free(*dns);
	*dns = NULL;
	ares_library_cleanup();
}

/* NULL: *err says why. */
static struct query *query_new(struct dns *dns, const char *name, dns_on_answer *on_answer,
                               void *arg, struct err *err)
{
	struct query *query;

	if (!refresh_channel(dns, err))
		return NULL;
	query = calloc(1, sizeof(*query));
	if (!query) {
		err_set(err, ERR_MEMORY, "no memory for the DNS name %s", name);
		return NULL;
	}
	*query = (struct query){ dns, on_answer, arg };
	dns->query_count++;
	return query;
}

static bool query_records(struct dns *dns, const char *name, int type, ares_callback on_packet,
                          dns_on_answer *on_answer, void *arg, struct err *err)
{
	enum { CLASS_IN = 1 };
	struct query *query = query_new(dns, name, on_answer, arg, err);

	if (!query)
		return false;
	ares_query(dns->channel, name, CLASS_IN, type, on_packet, query);
	set_tick(dns);
	return true;
}

bool dns_query_serial(struct dns *dns, const char *zone, dns_on_answer *on_answer, void *arg,
                      struct err *err)
{
	enum { TYPE_SOA = 6 };

	return query_records(dns, zone, TYPE_SOA, on_soa, on_answer, arg, err);
}

bool dns_query_services(struct dns *dns, const char *name, dns_on_answer *on_answer, void *arg,
                        struct err *err)
{
	enum { TYPE_SRV = 33 };

	return query_records(dns, name, TYPE_SRV, on_srv, on_answer, arg, err);
}

bool dns_query_name(struct dns *dns, const struct address *address, dns_on_answer *on_answer,
                    void *arg, struct err *err)
{
	bool is_v6 = address->family == AF_INET6;
	const void *in = is_v6 ? (const void *)&address->in6.sin6_addr : &address->in.sin_addr;
	int size = is_v6 ? sizeof(address->in6.sin6_addr) : sizeof(address->in.sin_addr);
	struct query *query = query_new(dns, "of an address", on_answer, arg, err);

	if (!query)
		return false;
	ares_gethostbyaddr(dns->channel, in, size, address->family, on_host, query);
	set_tick(dns);
	return true;
}

bool dns_query(struct dns *dns, const char *host, dns_on_answer *on_answer, void *arg,
               struct err *err)
{
	/* Without that variable, 1.34 reads no file of hosts at all with the flag. */
	const struct ares_addrinfo_hints hints = {
		.ai_flags = ARES_AI_NOSORT | (getenv("CARES_HOSTS") ? ARES_AI_ENVHOSTS : 0),
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
	};
	struct query *query = query_new(dns, host, on_answer, arg, err);

	if (!query)
		return false;
	ares_getaddrinfo(dns->channel, host, NULL, &hints, on_info, query);
	set_tick(dns);
	return true;
}

const char *dns_library(void) { return "c-ares " ARES_VERSION_STR; }

unsigned int dns_query_count(const struct resolver *resolver) { return resolver->dns->query_count; }
