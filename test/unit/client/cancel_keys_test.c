/* SPDX-License-Identifier: ISC */
/*
 * client/cancel_keys.c: clients are found by their complete keys, for any number of clients and
 * any order of disconnects.
 */
#include "pgweir/client/cancel_keys.h"

#include <string.h>

#include "pgweir/client/client.h"

#include "../unit.h"

#define CLIENTS 3000 /* more than the initial hash table is sized for */

/* Deterministic by number; some are long. is_alike: all fall into one chain. */
static struct bytes key_of(unsigned char buffer[CANCEL_KEY_LONG_SIZE], unsigned int number,
                           bool is_alike)
{
	memset(buffer, 0x55, CANCEL_KEY_LONG_SIZE);
	memcpy(buffer + (is_alike ? 0 : 3), &number, is_alike ? 3 : sizeof(number));
	return bytes_of(buffer, number % 3 ? CANCEL_KEY_SIZE : CANCEL_KEY_LONG_SIZE);
}

static struct client *find(const struct cancel_keys *keys, unsigned int number, bool is_alike)
{
	unsigned char buffer[CANCEL_KEY_LONG_SIZE];

	return cancel_keys_find(keys, key_of(buffer, number, is_alike));
}

static void fill(struct cancel_keys *keys, struct client *clients, bool is_alike)
{
	unsigned char buffer[CANCEL_KEY_LONG_SIZE];

	ck_assert(cancel_keys_init(keys));
	memset(clients, 0, CLIENTS * sizeof(*clients));
	for (unsigned int i = 0; i < CLIENTS; i++) {
		ck_assert_ptr_null(find(keys, i, is_alike));
		ck_assert(cancel_keys_add(keys, &clients[i], key_of(buffer, i, is_alike)));
	}
}

static const struct {
	const char *says;
	bool is_alike;
} families[] = {
	{ "keys of all chains", false },
	{ "keys of one chain", true },
};

START_TEST(keys_are_found)
{
	static struct client clients[CLIENTS];
	bool is_alike = families[_i].is_alike;
	unsigned char buffer[CANCEL_KEY_LONG_SIZE];
	struct cancel_keys keys;

	fill(&keys, clients, is_alike);
	ck_assert_uint_eq(keys.count, CLIENTS);
	ck_assert_uint_ge(keys.chain_count * CANCEL_KEYS_CHAIN, CLIENTS);
	for (unsigned int i = 0; i < CLIENTS; i++) {
		struct bytes key = key_of(buffer, i, is_alike);

		ck_assert_msg(find(&keys, i, is_alike) == &clients[i], "%s", families[_i].says);
		ck_assert_uint_eq(client_key(&clients[i]).count, key.count);
		ck_assert(memcmp(client_key(&clients[i]).at, key.at, key.count) == 0);
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		cancel_keys_remove(&keys, &clients[i]);
	cancel_keys_done(&keys);
}
END_TEST

START_TEST(keys_go)
{
	static struct client clients[CLIENTS];
	bool is_alike = families[_i].is_alike;
	struct cancel_keys keys;

	fill(&keys, clients, is_alike);
	for (unsigned int i = 0; i < CLIENTS; i += 2) {
		cancel_keys_remove(&keys, &clients[i]);
		ck_assert_uint_eq(client_key(&clients[i]).count, 0);
	}
	for (unsigned int i = 0; i < CLIENTS; i++)
		ck_assert_msg(find(&keys, i, is_alike) == (i % 2 ? &clients[i] : NULL), "%s",
		              families[_i].says);
	for (unsigned int i = 0; i < CLIENTS; i++)
		cancel_keys_remove(&keys, &clients[i]); /* safe for a client without a key */
	ck_assert_uint_eq(keys.count, 0);
	ck_assert_uint_eq(keys.long_slab.used_count, 0);
	cancel_keys_done(&keys);
}
END_TEST

/* A longer, shorter or different key is another key. */
START_TEST(keys_count_whole)
{
	static const size_t sizes[] = { CANCEL_KEY_SIZE, CANCEL_KEY_LONG_SIZE };
	unsigned char buffer[CANCEL_KEY_LONG_SIZE + 1] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
	struct client client = { 0 };
	struct cancel_keys keys;

	ck_assert(cancel_keys_init(&keys));
	ck_assert_ptr_null(cancel_keys_find(&keys, bytes_of(NULL, 0)));
	ck_assert(cancel_keys_add(&keys, &client, bytes_of(buffer, sizes[_i])));
	for (size_t count = 0; count <= sizeof(buffer); count++)
		ck_assert_ptr_eq(cancel_keys_find(&keys, bytes_of(buffer, count)),
		                 count == sizes[_i] ? &client : NULL);
	for (size_t at = 0; at < sizes[_i]; at++) {
		buffer[at] ^= 4;
		ck_assert_ptr_null(cancel_keys_find(&keys, bytes_of(buffer, sizes[_i])));
		buffer[at] ^= 4;
	}
	cancel_keys_remove(&keys, &client);
	ck_assert_ptr_null(cancel_keys_find(&keys, bytes_of(buffer, sizes[_i])));
	cancel_keys_done(&keys);
}
END_TEST

/* Two clients with one key, which should not happen: each removes only its own. */
START_TEST(keys_leave_a_twin)
{
	struct client one = { 0 }, other = { 0 };
	struct bytes key = bytes_of("abcdefgh", CANCEL_KEY_SIZE);
	struct cancel_keys keys;

	ck_assert(cancel_keys_init(&keys));
	ck_assert(cancel_keys_add(&keys, &one, key) && cancel_keys_add(&keys, &other, key));
	cancel_keys_remove(&keys, &one);
	ck_assert_ptr_eq(cancel_keys_find(&keys, key), &other);
	cancel_keys_remove(&keys, &other);
	ck_assert_ptr_null(cancel_keys_find(&keys, key));
	cancel_keys_done(&keys);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("client/keys");
	TCase *cases = tcase_create("keys");

	tcase_add_loop_test(cases, keys_are_found, 0, COUNT_OF(families));
	tcase_add_loop_test(cases, keys_go, 0, COUNT_OF(families));
	tcase_add_loop_test(cases, keys_count_whole, 0, 2);
	tcase_add_test(cases, keys_leave_a_twin);
	suite_add_tcase(suite, cases);
	return unit_run(suite);
}
