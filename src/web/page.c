/* SPDX-License-Identifier: ISC */
/*
 * The page: one file, which the build puts into the program.
 */
#include "web_priv.h"

#include "pgweir/base/banned.h"

extern const unsigned char page_html[];
extern const size_t page_html_size;

/*
 * The page's own style and script are in it, so they are allowed inline; nothing comes from
 * elsewhere, and it may ask only us.
 */
#define PAGE_FIELDS                                                                \
	"Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; " \
	"script-src 'unsafe-inline'; connect-src 'self'; img-src 'self' data:; "   \
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"          \
	"Referrer-Policy: no-referrer\r\n"

void page_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	(void)web;
	(void)head;
	connection_answer(connection,
	                  &(struct answer_head){ .status = 200,
	                                         .type = "text/html; charset=utf-8",
	                                         .fields = PAGE_FIELDS },
	                  bytes_of(page_html, page_html_size));
}
