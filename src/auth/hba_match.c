/* SPDX-License-Identifier: ISC */
/*
 * Finds the rule that applies to a client.
 *
 * Hard here: a rule may contain a host name, and looking up the client's host name takes time.
 * So everything else is compared first. If only an unknown host name decides whether a rule
 * matches, the result is HBA_NEEDS_HOST.
 */
#include "hba_priv.h"

#include <strings.h>

#include "pgweir/net/interfaces.h"

#include "pgweir/base/banned.h"

enum match { MATCH_NO, MATCH_YES, MATCH_HOST_UNKNOWN };

static bool type_fits(enum hba_type type, const struct hba_facts *facts)
{
	bool is_unix = address_is_unix(facts->peer);

	switch (type) {
	case HBA_LOCAL:
		return is_unix;
	case HBA_HOST:
	case HBA_HOSTNOGSSENC:
		return !is_unix;
	case HBA_HOSTSSL:
		return !is_unix && facts->is_tls;
	case HBA_HOSTNOSSL:
		return !is_unix && !facts->is_tls;
	case HBA_HOSTGSSENC:
		break;
	}
	return false;
}

static bool database_fits(const struct pattern *pattern, const struct hba_facts *facts)
{
	/* As in PostgreSQL, not even `all` matches physical replication. */
	if (facts->is_physical)
		return pattern->kind == PATTERN_REPLICATION;
	switch (pattern->kind) {
	case PATTERN_ALL:
		return true;
	case PATTERN_SAME_USER:
		return strcmp(facts->database, facts->user) == 0;
	case PATTERN_REPLICATION:
		return false;
	case PATTERN_NAME:
	case PATTERN_REGEX:
		return pattern_matches(pattern, facts->database, NULL);
	}
	return false;
}

static bool databases_fit(const struct patterns *patterns, const struct hba_facts *facts)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (database_fits(&patterns->at[i], facts))
			return true;
	}
	return false;
}

static bool users_fit(const struct patterns *patterns, const char *user)
{
	for (size_t i = 0; i < patterns->count; i++) {
		if (patterns->at[i].kind == PATTERN_ALL ||
		    pattern_matches(&patterns->at[i], user, NULL))
			return true;
	}
	return false;
}

static bool name_fits(const struct hba_rule *rule, const char *host)
{
	size_t count = strlen(host), wanted = strlen(rule->host);

	if (rule->where == WHERE_NAME)
		return strcasecmp(rule->host, host) == 0;
	return count > wanted && strcasecmp(rule->host, host + count - wanted) == 0;
}

static enum match address_fits(const struct hba_rule *rule, const struct hba_facts *facts)
{
	bool fits = false;

	switch (rule->where) {
	case WHERE_ALL:
		return MATCH_YES;
	case WHERE_RANGE:
		fits = range_has(&rule->range, facts->peer);
		break;
	case WHERE_NOBODY:
		break;
	case WHERE_SAME_HOST:
		fits = interfaces_have(facts->peer, INTERFACES_HOST);
		break;
	case WHERE_SAME_NET:
		fits = interfaces_have(facts->peer, INTERFACES_NET);
		break;
	case WHERE_NAME:
	case WHERE_SUFFIX:
		if (!facts->is_host_known)
			return MATCH_HOST_UNKNOWN;
		fits = facts->host && name_fits(rule, facts->host);
		break;
	}
	return fits ? MATCH_YES : MATCH_NO;
}

enum hba_answer hba_find(const struct hba *hba, const struct hba_facts *facts,
                         const struct hba_rule **found)
{
	*found = NULL;
	for (size_t i = 0; i < hba->count; i++) {
		const struct hba_rule *rule = &hba->rules[i];

		if (!type_fits(rule->type, facts) || !databases_fit(&rule->databases, facts) ||
		    !users_fit(&rule->users, facts->user))
			continue;
		switch (address_fits(rule, facts)) {
		case MATCH_NO:
			break;
		case MATCH_HOST_UNKNOWN:
			return HBA_NEEDS_HOST;
		case MATCH_YES:
			*found = rule;
			return HBA_RULE;
		}
	}
	return HBA_NO_RULE;
}

bool hba_rule_admits(const struct hba *hba, const struct hba_rule *rule, const char *name,
                     const char *user)
{
	if (rule->map_count == 0)
		return strcmp(name, user) == 0;
	for (size_t i = 0; i < rule->map_count; i++) {
		if (ident_admits(hba->ident, rule->maps[i], name, user))
			return true;
	}
	return false;
}
