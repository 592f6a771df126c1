/* SPDX-License-Identifier: ISC */
#include "mapped_server.h"

#include "pgweir/config/config.h"

#include "../unit/unit.h"
#include "config_text.h"

const struct params *param_map(struct params_table *table, const struct pair *pairs)
{
	const struct params *map = params_none(table);

	for (size_t i = 0; i < MAP_MAX && pairs[i].name; i++)
		ck_assert(params_change(table, &map, pairs[i].name, pairs[i].value));
	return map;
}

static void on_close_needed(struct server *server) { (void)server; }

void mapped_make(struct mapped_server *mapped, const struct pair *baseline, const struct pair *have)
{
	static const struct server_ops ops = { .on_close_needed = on_close_needed };
	static const char text[] = "[pgbouncer]\ntrack_extra_parameters = search_path, my.x\n";
	struct problems problems = { 0 };

	*mapped = (struct mapped_server){ 0 };
	mapped->shared.params = params_table_new();
	mapped->shared.config = config_parse(bytes_of(text, sizeof(text) - 1), "f", &problems);
	ck_assert_ptr_nonnull(mapped->shared.config);
	mapped->site.shared = &mapped->shared;
	mapped->site.ops = &ops;
	mapped->server.site = &mapped->site;
	mapped->server.session.baseline = param_map(mapped->shared.params, baseline);
	mapped->server.session.params = param_map(mapped->shared.params, have);
	mapped->server.session.unreported = params_none(mapped->shared.params);
}

void mapped_done(struct mapped_server *mapped)
{
	struct params_table *table = mapped->shared.params;

	params_release(table, &mapped->server.session.baseline);
	params_release(table, &mapped->server.session.params);
	params_release(table, &mapped->server.session.unreported);
	params_release(table, &mapped->server.session.reports.forgotten);
	ledger_done(&mapped->server.wire.ledger);
	buf_free(&mapped->server.session.reports.list);
	ck_assert_uint_eq(params_table_count(table), 0);
	params_table_free(&mapped->shared.params);
	config_unref(&mapped->shared.config);
}

void mapped_check(const struct mapped_server *mapped, const char *says, const struct pair *baseline,
                  const struct pair *have)
{
	struct params_table *table = mapped->shared.params;
	const struct params *map = param_map(table, baseline);

	ck_assert_msg(mapped->server.session.baseline == map, "%s: the baseline", says);
	params_release(table, &map);
	map = param_map(table, have);
	ck_assert_msg(mapped->server.session.params == map, "%s: what is set", says);
	params_release(table, &map);
}
