/* SPDX-License-Identifier: ISC */
/*
 * The version of a hand-over.
 *
 * Hard here: release 0.1.0 numbered its versions, and parses the argument of TAKEOVER as a
 * number. So a hash has a letter in front, and 0.1.0 refuses it as version 0.
 */
#include "takeover.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pgweir/client/handover.h"

/* Version of the messages of net/channel.h and of their order. Increase it when they change. */
#define CHANNEL_VERSION 1

/* The plain format, that of 0.1.0 and 0.2.0, which called it version 3. */
#define PLAIN_HASH UINT64_C(0x2c82896d066331f9)

static const struct record_field hello_fields[] = {
	RECORD_FIELD('p', struct hello_record, pid),
	RECORD_FIELD('v', struct hello_record, version),
	RECORD_FIELD('g', struct hello_record, is_given),
};

const struct record_table hello_record_table = RECORD_TABLE("hello", hello_fields, NULL);

static const struct record_field cancel_fields[] = {
	RECORD_BYTES_FIELD('k', struct cancel_record, key, FORWARD_KEY_MAX),
	RECORD_BYTES_FIELD('l', struct cancel_record, last, CANCEL_LAST_MAX, RECORD_OPTIONAL),
};

const struct record_table cancel_record_table = RECORD_TABLE("cancel", cancel_fields, NULL);

static uint64_t plain_hash(void)
{
	return handover_clients_hash(record_hash(CHANNEL_VERSION, &hello_record_table));
}

void handover_version(char *out, size_t size)
{
	uint64_t hash = record_hash(handover_session_hash(plain_hash()), &cancel_record_table);

	snprintf(out, size, "r%016" PRIx64, hash);
}

bool handover_version_is(const char *word)
{
	char own[HANDOVER_VERSION_SIZE];

	handover_version(own, sizeof(own));
	return strcmp(word, own) == 0;
}

const char *handover_version_plain(void) { return plain_hash() == PLAIN_HASH ? "3" : ""; }
