/* SPDX-License-Identifier: ISC */
/*
 * What is at which path.
 */
#include "web_priv.h"

static void answer_nothing(struct web *web, struct connection *connection,
                           const struct http_head *head)
{
	(void)web;
	(void)head;
	connection_answer(connection, &(struct answer_head){ .status = 204 }, (struct bytes){ 0 });
}

static const struct route {
	const char *path; /* ends with "/": also what is below it */
	void (*answer)(struct web *web, struct connection *connection,
	               const struct http_head *head);
	bool is_open; /* needs no secret */
} routes[] = {
	{ "/", page_answer, false },
	{ "/metrics", metrics_answer, false },
	{ "/metrics/histograms", metrics_answer_histograms, false },
	{ "/healthz", health_answer, true },
	{ "/readyz", health_answer_ready, true },
	{ "/favicon.ico", answer_nothing, false },
	{ "/api/v1/show", api_list, false },
	{ "/api/v1/show/", api_show, false },
};

static bool is_at(struct bytes path, const char *route)
{
	size_t size = strlen(route);

	if (size > 1 && route[size - 1] == '/')
		return path.count > size && memcmp(path.at, route, size) == 0;
	return bytes_are(path, route);
}

static const struct route *find_route(struct bytes path)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++) {
		if (is_at(path, routes[i].path))
			return &routes[i];
	}
	return NULL;
}

bool routes_need_secret(const struct http_head *head)
{
	const struct route *route = find_route(head->path);

	return !route || !route->is_open;
}

void routes_answer(struct web *web, struct connection *connection, const struct http_head *head)
{
	const struct route *route = find_route(head->path);

	if (route)
		route->answer(web, connection, head);
	else
		connection_answer_error(connection, 404, "there is nothing at this path",
		                        "/ is the page, /api/v1/show lists the tables");
}
