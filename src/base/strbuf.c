/* SPDX-License-Identifier: ISC */
/*
 * Builds texts from pieces.
 */
#include "pgweir/base/strbuf.h"

#include <stdio.h>
#include <string.h>

#include "pgweir/base/banned.h"

struct strbuf strbuf_begin(char *out, size_t size)
{
	out[0] = 0;
	return (struct strbuf){ .at = out, .size = size };
}

void strbuf_add_bytes(struct strbuf *strbuf, const char *bytes, size_t count)
{
	size_t capacity = strbuf->size - 1 - strbuf->count;

	if (count > capacity)
		count = capacity;
	memcpy(strbuf->at + strbuf->count, bytes, count);
	strbuf->count += count;
	strbuf->at[strbuf->count] = 0;
}

void strbuf_add(struct strbuf *strbuf, const char *text)
{
	strbuf_add_bytes(strbuf, text, strlen(text));
}

/*
 * Digits are made from the last to the first. The base is a constant, so the compiler needs no
 * division.
 */
void strbuf_add_number(struct strbuf *strbuf, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	strbuf_add_bytes(strbuf, digits + at, sizeof(digits) - at);
}

void strbuf_add_pointer(struct strbuf *strbuf, const void *pointer)
{
	uintptr_t number = (uintptr_t)pointer;
	char digits[2 + 2 * sizeof(number)];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number % 16];
		number /= 16;
	} while (number);
	digits[--at] = 'x';
	digits[--at] = '0';
	strbuf_add_bytes(strbuf, digits + at, sizeof(digits) - at);
}

void strbuf_vprintf(struct strbuf *strbuf, const char *format, va_list args)
{
	size_t capacity = strbuf->size - strbuf->count;
	int count = vsnprintf(strbuf->at + strbuf->count, capacity, format, args);

	if (count > 0)
		strbuf->count += (size_t)count < capacity ? (size_t)count : capacity - 1;
}
