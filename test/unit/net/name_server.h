/* SPDX-License-Identifier: ISC */
/*
 * A DNS server for a test, in the loop of the test. It parses queries and sends responses; the test
 * provides the records.
 */
#ifndef PGWEIR_TEST_NAME_SERVER_H
#define PGWEIR_TEST_NAME_SERVER_H

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <check.h>

#include "pgweir/base/bytes.h"
#include "pgweir/loop/loop.h"
#include "pgweir/net/address.h"

#define TYPE_A 1
#define TYPE_SOA 6
#define TYPE_PTR 12
#define TYPE_AAAA 28

/* A query, and its response. */
struct name_question {
	char packet[1500];
	size_t count;
	struct sockaddr_storage from;
	socklen_t from_size;
	char label[64]; /* the first of its name */
	uint16_t type;
	uint16_t record_count;
};

/* Listens on a free port. `servers`: the setting for the resolver. */
static inline void name_server_open(struct watch *watch, struct loop *loop,
                                    void (*on_question)(struct watch *watch, unsigned int what),
                                    char servers[ADDRESS_TEXT_SIZE])
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	struct address address;

	ck_assert(address_parse(&address, "127.0.0.1", 0));
	ck_assert_int_eq(bind(fd, address_sockaddr(&address), address_sockaddr_size(&address)), 0);
	ck_assert(address_of_self(&address, fd, 0));
	watch_init(watch, loop, fd, on_question);
	ck_assert(watch_set(watch, WATCH_READ));
	ck_assert_ptr_eq(address_format(&address, servers, ADDRESS_TEXT_SIZE), servers);
}

static inline void name_server_close(struct watch *watch)
{
	watch_done(watch);
	close(watch->fd);
}

static inline void name_server_take(const struct watch *watch, struct name_question *question)
{
	char *packet = question->packet;
	ssize_t got;
	size_t at = 12;

	*question = (struct name_question){ .from_size = sizeof(question->from) };
	got = recvfrom(watch->fd, packet, 512, 0, (struct sockaddr *)&question->from,
	               &question->from_size);
	ck_assert_int_gt(got, 16);
	memcpy(question->label, packet + at + 1, (size_t)packet[at]);
	while (packet[at])
		at += (size_t)packet[at] + 1;
	question->type = load_be16(packet + at + 1);
	question->count = at + 5;
}

/* Adds a record with the queried name and type. `ttl` in seconds. */
static inline void name_server_add(struct name_question *question, uint32_t ttl, const void *data,
                                   size_t count)
{
	char *at = question->packet + question->count;

	store_be16(at, 0xc00c); /* the name in the query */
	store_be16(at + 2, question->type);
	store_be16(at + 4, 1);
	store_be32(at + 6, ttl);
	store_be16(at + 10, (uint16_t)count);
	memcpy(at + 12, data, count);
	question->count += 12 + count;
	question->record_count++;
}

static inline void name_server_answer(const struct watch *watch, struct name_question *question,
                                      bool is_known)
{
	char *packet = question->packet;

	store_be16(packet + 2, is_known ? 0x8580 : 0x8583); /* 3: no such name */
	store_be16(packet + 6, question->record_count);
	store_be32(packet + 8, 0);
	ck_assert_int_eq(sendto(watch->fd, packet, question->count, 0,
	                        (struct sockaddr *)&question->from, question->from_size),
	                 (ssize_t)question->count);
}

#endif
