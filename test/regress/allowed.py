# SPDX-License-Identifier: ISC
"""What scripts may print differently through the pooler, and why.

Each line that differs must match one of the patterns of its script. A script without patterns here
must print the same. What a script prints may depend on which server the bystanders had, so a
pattern need not occur.
"""

import re

HEAD = r"[-+][-+]*"  # the line below the names of the columns
ROWS = r"[-+]\(\d+ rows?\)"
EMPTY = r"[-+]"

# The pool's statements have other names and texts than the client's, and another client's may be
# there: doc/pooling.md. `PREPARE ... AS` of several lines fills several rows of a column. An error
# of an EXECUTE has a position only if it cannot be one in the text of the statement.
PREPARED = (r"[-+] +name +\| +statement +\| +parameter_types *", HEAD, ROWS, EMPTY,
            r"[-+] (q\d|PGBOUNCER_\w+)? +\| .*\| .*", r"-LINE 1: EXECUTE q3\(.*", r"- +\^")
# They count how often the server's statement was planned.
PLANS = (r"[-+] test_mode_pp \| +\d+ \| +\d+",)
# The client's channels are on the listening connection: doc/session-state.md. And as PREPARED.
GUC = (r"[-+] +(pg_listening_channels|name) +", HEAD, ROWS, EMPTY,
       r"[-+] (foo_event|foo|PGBOUNCER_\w+)")
# A backend keeps statistics for a moment before it reports them, and other servers have not seen
# them. New sessions are counted; the client begins none on PostgreSQL.
STATISTICS = (r"[-+] (trunc_stats_test\d? +|stats_test_func\d +)?[ |\dtf]+",)
# Static variables of functions in C: refint caches plans, ttdummy whether it is switched on.
C_VARIABLES = (r"[-+]ERROR:  ttdummy \(tttest\): you cannot change .*", r"[-+][ |\d-]+", ROWS,
               r"[-+]ERROR:  (\"check_fkeys2_fkey_restrict\": tuple is referenced in \"fkeys\"|"
               r"tuple references non-existent key)",
               r"[-+]DETAIL:  Trigger \"check_fkeys_pkey_exist\" found tuple referencing .*",
               r"[-+]CONTEXT:  SQL statement \"(delete from fkeys2|update fkeys) .*")

TRANSACTION = {"prepare": PREPARED, "plancache": PLANS, "guc": GUC,
               "stats": STATISTICS, "triggers": C_VARIABLES}

# What a reused server cannot do as a new one: `stats` counts new sessions; in `temp` a transaction
# cannot be prepared when it is the first that needs the temporary schema.
TEMPORARY = (r"-ERROR:  cannot PREPARE a transaction that has operated on temporary objects",)
SESSION = {"stats": (r"- t", r"\+ f"), "temp": TEMPORARY}

ALLOWED = {"transaction": {**SESSION, **TRANSACTION}, "session": SESSION}


def is_allowed(mode, script, lines):
    """Whether all lines that differ may do so."""
    patterns = ALLOWED[mode].get(script, ())
    return all(any(re.fullmatch(pattern, line) for pattern in patterns) for line in lines)
