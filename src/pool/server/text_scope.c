/* SPDX-License-Identifier: ISC */
/*
 * Scopes of statements.
 *
 * Hard here: each Bind needs the scope. A server usually has the same map as before, so the cost is
 * usually one comparison of pointers.
 */
#include "pgweir/pool/server/text_scope.h"

#include <string.h>
#include <strings.h>

static const char *const names[] = {
	"array_nulls",
	"backslash_quote",
	"client_encoding",
	"DateStyle",
	"IntervalStyle",
	"lc_monetary",
	"role",
	"search_path",
	"session_authorization",
	"standard_conforming_strings",
	"TimeZone",
	"timezone_abbreviations",
	"transform_null_equals",
	"xmloption",
};

/*
 * The planner's: the manual's "Query Planning", but for those with enable_ in front, and what else
 * it reckons with. A plan is kept with the statement, so that others would meet what one has set.
 */
static const char *const planner_names[] = {
	"constraint_exclusion",
	"cpu_index_tuple_cost",
	"cpu_operator_cost",
	"cpu_tuple_cost",
	"cursor_tuple_fraction",
	"debug_parallel_query",
	"effective_cache_size",
	"force_parallel_mode",
	"from_collapse_limit",
	"geqo",
	"geqo_effort",
	"geqo_generations",
	"geqo_pool_size",
	"geqo_seed",
	"geqo_selection_bias",
	"geqo_threshold",
	"hash_mem_multiplier",
	"jit",
	"jit_above_cost",
	"jit_expressions",
	"jit_inline_above_cost",
	"jit_optimize_above_cost",
	"jit_tuple_deforming",
	"join_collapse_limit",
	"max_parallel_workers_per_gather",
	"min_parallel_index_scan_size",
	"min_parallel_table_scan_size",
	"parallel_leader_participation",
	"parallel_setup_cost",
	"parallel_tuple_cost",
	"plan_cache_mode",
	"random_page_cost",
	"recursive_worktable_factor",
	"seq_page_cost",
	"work_mem",
};

static bool is_listed(const char *name, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(list[i], name) == 0)
			return true;
	}
	return false;
}

static bool is_in_scope(const char *name)
{
	return is_listed(name, names, sizeof(names) / sizeof(names[0])) ||
	       strncasecmp(name, "enable_", strlen("enable_")) == 0 ||
	       is_listed(name, planner_names, sizeof(planner_names) / sizeof(planner_names[0]));
}

/* Words of statements that set parameters of the scope, or parameters that are not known. */
static const char *const words[] = {
	"all",
	"array_nulls",
	"backslash_quote",
	"client_encoding",
	"datestyle",
	"intervalstyle",
	"lc_monetary",
	"names",
	"standard_conforming_strings",
	"timezone",
	"transform_null_equals",
	"xml",
	"zone",
	"$1", /* set_config($1, $2, false) */
};

bool text_scope_is_named(struct bytes text)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (bytes_contain(text, words[i]))
			return true;
	}
	return false;
}

/* What of a text makes a parameter decide over how it is read first. */
struct reading {
	bool has_backslash;
	bool has_encoding; /* it is not ASCII */
};

static bool is_read_once(const char *name, struct reading reading)
{
	if (strcasecmp(name, "client_encoding") == 0)
		return reading.has_encoding;
	return reading.has_backslash && (strcasecmp(name, "standard_conforming_strings") == 0 ||
	                                 strcasecmp(name, "backslash_quote") == 0);
}

struct pair {
	const char *name; /* NULL: the end of the list */
	const char *value;
};

static struct pair next_pair(struct bytes *list, bool is_once, struct reading reading)
{
	struct pair pair;

	while (bytes_take_text(list, &pair.name) && bytes_take_text(list, &pair.value)) {
		if (is_read_once(pair.name, reading) == is_once)
			return pair;
	}
	return (struct pair){ NULL, NULL };
}

bool text_scope_merge(struct bytes text, struct bytes first, struct bytes now, struct buf *out)
{
	struct reading reading = {
		.has_backslash = memchr(text.at, '\\', text.count) != NULL,
		.has_encoding = !bytes_are_ascii(text),
	};
	struct pair old = next_pair(&first, true, reading);
	struct pair new = next_pair(&now, false, reading);

	while (old.name || new.name) {
		bool is_old = old.name && (!new.name || strcasecmp(old.name, new.name) < 0);
		struct pair *pair = is_old ? &old : &new;

		buf_add_cstr(out, pair->name);
		buf_add_cstr(out, pair->value);
		*pair = next_pair(is_old ? &first : &now, is_old, reading);
	}
	return buf_ok(out);
}

bool text_scope_read(struct text_scope *scope, struct params_table *table,
                     const struct params *params, struct bytes *text)
{
	const char *at = NULL, *name, *value;

	if (scope->params != params) {
		text_scope_done(scope, table);
		while (params_next(params, &at, &name, &value)) {
			if (!is_in_scope(name))
				continue;
			buf_add_cstr(&scope->text, name);
			buf_add_cstr(&scope->text, value);
		}
		if (!buf_ok(&scope->text)) {
			buf_free(&scope->text);
			return false;
		}
		scope->params = params_hold(params);
	}
	*text = buf_bytes(&scope->text);
	return true;
}

void text_scope_done(struct text_scope *scope, struct params_table *table)
{
	if (scope->params)
		params_release(table, &scope->params);
	scope->params = NULL;
	buf_free(&scope->text);
}
