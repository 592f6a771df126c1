/* SPDX-License-Identifier: ISC */
/*
 * The page: one file, which the build puts into the program.
 *
 * The policy that it is sent with allows its own style and script, by their hashes, and requests
 * to us. So nothing else can run or be loaded, whatever a name in a table contains.
 */
#include <stdio.h>

#include "pgweir/auth/digest.h"

#include "web_priv.h"

extern const unsigned char page_html[];
extern const size_t page_html_size;

/* Returns what is between <name> and </name>; *page is what follows. .at NULL: there is none. */
static struct bytes take_element(struct bytes *page, const char *name)
{
	char begin[32], end[32];
	const char *from, *to;

	snprintf(begin, sizeof(begin), "<%s>", name);
	snprintf(end, sizeof(end), "</%s>", name);
	from = memmem(page->at, page->count, begin, strlen(begin));
	if (!from)
		return (struct bytes){ 0 };
	from += strlen(begin);
	*page = bytes_skip(*page, (size_t)(from - page->at));
	to = memmem(page->at, page->count, end, strlen(end));
	if (!to)
		return (struct bytes){ 0 };
	*page = bytes_skip(*page, (size_t)(to - page->at));
	return bytes_of(from, (size_t)(to - from));
}

/* Adds the sources of style-src or script-src: a hash for each element. */
static bool add_hashes(struct buf *out, const char *name)
{
	struct bytes page = bytes_of(page_html, page_html_size), element;
	unsigned char hash[SHA256_SIZE];
	char text[BASE64_SIZE(SHA256_SIZE)];

	while ((element = take_element(&page, name)).at) {
		if (!digest_sha256(element, hash))
			return false;
		base64_encode(bytes_of(hash, sizeof(hash)), text);
		buf_printf(out, " 'sha256-%s'", text);
	}
	return true;
}

bool page_init(struct buf *fields, struct err *err)
{
	bool is_made;

	buf_add_text(fields, "Content-Security-Policy: default-src 'none'; connect-src 'self'; "
	                     "img-src data:; style-src");
	is_made = add_hashes(fields, "style");
	buf_add_text(fields, "; script-src");
	is_made &= add_hashes(fields, "script");
	buf_add_text(fields, "; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
	                     "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
	                     "Referrer-Policy: no-referrer\r\n");
	return (is_made && buf_ok(fields)) || err_set(err, ERR_MEMORY, "cannot prepare the page");
}

void page_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	(void)head;
	connection_answer(connection,
	                  &(struct answer_head){ .status = 200,
	                                         .type = "text/html; charset=utf-8",
	                                         .fields = buf_text(&web->page_fields) },
	                  bytes_of(page_html, page_html_size));
}
