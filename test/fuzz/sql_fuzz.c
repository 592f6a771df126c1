/* SPDX-License-Identifier: ISC */
/*
 * Fuzzing the scanner of SQL's PREPARE, EXECUTE and DEALLOCATE: results must be within
 * the text, and the result for a prefix must not contradict that for more or all of the
 * text. The same for the scanner of BEGIN, COMMIT and ROLLBACK.
 */
#include "pgweir/pgwire/sql.h"

#include "pgweir/base/buf.h"
#include "pgweir/pgwire/sql_block.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void lies_within(struct bytes text, struct bytes part)
{
	assert(part.at >= text.at && part.at + part.count <= text.at + text.count);
}

/* A BEGIN or COMMIT is also recognized with a semicolon after it, but not twice in one text. */
static void block_is_alone(const uint8_t *data, size_t size)
{
	struct sql_block block = sql_block_read(bytes_of(data, size)), other;
	struct buf text = { 0 };

	if (block.kind == SQL_BLOCK_OTHER)
		return;
	assert(!sql_is_no_block(bytes_of(data, size)));
	buf_add(&text, data, size);
	buf_add_text(&text, "\n;");
	other = sql_block_read(buf_bytes(&text));
	assert(other.kind == block.kind && other.is_for_primary == block.is_for_primary &&
	       other.access == block.access);
	assert(block.access != SQL_ACCESS_READ_WRITE || block.is_for_primary);
	buf_add(&text, data, size);
	assert(sql_block_read(buf_bytes(&text)).kind == SQL_BLOCK_OTHER);
	buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes text = bytes_of(data, size);
	enum wire_result whole, result = WIRE_MORE;
	struct sql_statement found;
	struct buf body = { 0 };

	buf_add(&body, data, size);
	buf_add_byte(&body, 0);
	whole = sql_glance(buf_bytes(&body));
	buf_free(&body);
	for (size_t count = 0; count <= size && count < 256; count++) {
		enum wire_result now = sql_glance(bytes_of(data, count));

		assert(now == WIRE_MORE ? result == WIRE_MORE : now == whole);
		result = now;
	}
	block_is_alone(data, size);
	sql_read(text, &found);
	assert(found.kind == SQL_OTHER || whole == WIRE_OK);
	if (found.kind == SQL_OTHER || found.kind == SQL_UNSURE || found.kind == SQL_FORGET)
		return 0;
	lies_within(text, found.token);
	assert(strlen(found.name) <= SQL_NAME_MAX);
	if (found.kind == SQL_PREPARE)
		lies_within(text, found.body);
	return 0;
}
