# SPDX-License-Identifier: ISC
"""Compares the outcomes of one session, and shortens a session whose outcomes differ."""

import itertools
import re
from collections import namedtuple

# what: "equal", "refused" (by an error of pgweir's own, which is the end of the comparison), "inside"
# (the same: behind some RESETs, statements of the same transaction have the server's values),
# "standby" (the same: PostgreSQL says so on a standby only), "skipped" (the session ended early without
# pgweir), "differs".
Verdict = namedtuple("Verdict", "what text")

# pgweir may refuse: lastval() and currval() whose server is gone, a limit of pinned servers, what
# cannot be followed. Always with a hint or a detail, and without the fields of PostgreSQL's source.
REFUSALS = {"55000", "53300", "0A000"}

# A function that may set parameters back. The values of the startup packet follow at the end of the
# transaction. Until then the client has those of the server, and gets reports of them. A custom parameter stays empty.
CALLS = re.compile(r"\b(DO|CALL|hid\w*)\b", re.I)
RESETS = re.compile(r"\b(RESET|DEFAULT|DISCARD|TIME ZONE LOCAL)\b", re.I)
# Behind a RESET in the same text, statements have the server's application_name. Other names are refused.
NAME_BEHIND = re.compile(r"\b(RESET (ALL|application_name)|application_name (=|TO) DEFAULT)\b"
                         r".*(application_name|\{inspect\})", re.I | re.S)
HEXED = re.compile(r"hid_hex\('([0-9a-f]*)'")


# What a read-only transaction may do on a primary, and not on a standby.
RECOVERY = re.compile("during recovery|recovery is in progress")
# There are no temporary objects on a standby, so a name of one is unknown for another reason.
NO_TEMPORARY = ("3F000", 'schema "pg_temp" does not exist')
# What may keep a server with its client.
STAYS = re.compile(r"advisory_lock|WITH HOLD|setseed|dblink|set_config\('app\.' \|\||\b(LOAD|hid\w*|DO|CALL)\b", re.I)
ENDS_BLOCK = re.compile(r"\s*(COMMIT|END|ROLLBACK(?! TO)|ABORT|PREPARE TRANSACTION)\b", re.I)


class Reads:
    """Which transactions pgweir may have sent to a standby, and what is different there:

    - An error of a standby.
    - What comes behind the end of a read in the same text or batch runs there, too.
    - If the server stays with its client because of something in a read, it is that of a standby.
    - The first statement of a batch decides, and others behind it may make the transaction serializable.
    """

    def __init__(self, may_read):
        self.may_read = may_read
        self.is_behind_end = self.may_stay = self.is_batch = False

    def note(self, part):
        self.is_behind_end |= any(ENDS_BLOCK.match(text) for text in part.texts[:-1])
        self.is_batch = part.step[0] == "extended" and len(part.texts) > 1
        self.may_stay |= any(STAYS.search(text) for text in part.texts)

    def explain(self, part, pooled):
        """Why what pgweir sent may be different. None: it must not."""
        errors = [got for got in pooled.messages if got[0] == "E"]
        if not self.may_read:
            return None
        if any(RECOVERY.search(got[4]) or got[3:5] == NO_TEMPORARY for got in errors):
            return "during recovery"
        is_serializable = any("in a hot standby" in got[4] for got in errors)
        if is_serializable and self.is_batch:
            return "behind the first statement of a batch"
        is_read_only = (is_serializable or any(got[3] == "25006" for got in errors)
                        or "read_only" in repr(part.texts) or "transaction_read_only=on" in repr(pooled))
        if is_read_only and self.is_behind_end:
            return "behind the end of a read"
        return "stays on the standby" if is_read_only and self.may_stay else None

    def end(self, part):
        self.is_behind_end &= part.messages[-1] != ("Z", b"I")


def compare(direct, pooled, may_read=False):
    """may_read: pgweir sends reads to a standby."""
    if direct.end:
        return Verdict("skipped", direct.end)
    for name, value in direct.parameters.items():
        if pooled.parameters.get(name, value) != value:
            return Verdict("differs",
                           f"at the login {name} is {value!r} directly and {pooled.parameters[name]!r} through pgweir")
    is_failed = is_inside = False
    reads = Reads(may_read)
    unsure = set()  # parameters whose reports need not be equal
    for number, part in enumerate(direct.parts):
        if number >= len(pooled.parts):
            return Verdict("differs", f"in step {number}, {part.step}: through pgweir: {pooled.end}")
        if direct.startup and any(resets_inside(text) for text in part.texts):
            is_inside, unsure = True, startup_names(direct.startup)
        if "application_name" in direct.startup and NAME_BEHIND.search("; ".join(part.texts)):
            is_inside = True
        reads.note(part)
        verdict = (compare_messages(number, part, pooled.parts[number], is_failed, unsure)
                   or compare_notes(number, direct, pooled))
        reason = verdict and reads.explain(part, pooled.parts[number])
        if reason:
            return Verdict("standby", reason)
        if verdict:
            return Verdict("inside", "") if is_inside else verdict
        reads.end(part)
        is_failed = part.messages[-1] == ("Z", b"E")
        is_inside = is_inside and (part.messages[-1] != ("Z", b"I") or any(b"." in name for name in unsure))
    if pooled.end:
        return Verdict("differs", f"at the end: through pgweir: {pooled.end}")
    return Verdict("equal", "")


def resets_inside(text):
    inner = HEXED.search(text)
    text += bytes.fromhex(inner.group(1)).decode() if inner else ""
    return CALLS.search(text) and RESETS.search(text)


def startup_names(startup):
    """In lower case, as bytes; of options all that are between -c and =."""
    names = [*startup, *re.findall(r"-c (\S+?)=", startup.get("options", ""))]
    return {name.lower().encode() for name in names}


def in_order(part, unsure):
    """PostgreSQL reports parameters at the end of a step, in an order of its own. Through pgweir a
    report may come earlier in the same step, and pgweir reports values of the startup packet behind
    others. Notifications come wherever the server waits for the rest of a step.
    """
    reports = sorted((message for message in part.messages if message[0] == "S"),
                     key=lambda message: message[1].split(b"\0")[0].lower())
    notes = [message for message in part.messages if message[0] == "A" and message[2] not in part.loose]
    return ([message for message in part.messages if message[0] not in ("A", "S")] + notes
            + [message for message in reports if message[1].split(b"\0")[0].lower() not in unsure])


def compare_messages(number, direct, pooled, is_failed, unsure):
    for expected, seen in itertools.zip_longest(in_order(direct, unsure), in_order(pooled, unsure)):
        if expected == seen or (is_failed and are_errors(expected, seen)):
            continue
        if is_refusal(seen):
            return Verdict("refused", f"{seen[3]} {seen[4]}")
        return Verdict("differs", f"in step {number}, {direct.step}:\n      directly       {shorten(expected)}"
                                  f"\n      through pgweir {shorten(seen)}")
    return None


def compare_notes(number, direct, pooled):
    part, other = direct.parts[number], pooled.parts[number]
    if part.notes is None or (direct.sure_notes(part.notes, part.loose)
                              == direct.sure_notes(other.notes or [], part.loose)):
        return None
    return Verdict("differs", f"notifications up to step {number}, {part.step}:\n      directly       {part.notes}"
                              f"\n      through pgweir {other.notes}")


def are_errors(expected, seen):
    """In a failed transaction a statement cannot be prepared on another server, so there it may have
    another error.
    """
    return expected and seen and expected[0] == seen[0] == "E" and seen[3] in ("25P02", "26000")


def is_refusal(got):
    if not got or got[0] != "E" or got[3] not in REFUSALS:
        return False
    # On another server than before, PostgreSQL itself says that there is no value.
    return not got[-1] or (got[3] == "55000" and "is not yet defined in this session" in got[4])


def shorten(got):
    text = repr(got)
    return text if len(text) < 3000 else f"{text[:3000]}..."


def shrink(session, differs, budget):
    """Removes what is not needed for a difference. differs(session) tells; budget() is false when
    the time is over.
    """
    session = remove_some(session, differs, budget)
    session = simplify_steps(session, differs, budget)
    for name in list(session.startup):
        fewer = session._replace(startup={key: value for key, value in session.startup.items() if key != name})
        if budget() and differs(fewer):
            session = fewer
    return remove_some(session, differs, budget)


def remove_some(session, differs, budget):
    steps = session.steps
    size = max(1, len(steps) // 2)
    while size and budget():
        at = 0
        while at < len(steps) and budget():
            fewer = steps[:at] + steps[at + size:]
            if differs(session._replace(steps=fewer)):
                steps = fewer
            else:
                at += size
        size //= 2
    return session._replace(steps=steps)


def simplify_steps(session, differs, budget):
    for at in range(len(session.steps)):
        is_simpler = True
        while is_simpler and budget():
            is_simpler = False
            for step in simpler(session.steps[at]):
                steps = [*session.steps[:at], step, *session.steps[at + 1:]]
                if differs(session._replace(steps=steps)):
                    session = session._replace(steps=steps)
                    is_simpler = True
                    break
    return session


def simpler(step):
    """Steps that do less, the simplest first."""
    kind, flags, *rest = step
    if flags:
        yield (kind, "", *rest)
    if kind in ("query", "extended") and len(rest[0]) > 1:
        for at in range(len(rest[0])):
            yield (kind, flags, rest[0][:at] + rest[0][at + 1:])
    if kind == "extended" and len(rest[0]) == 1 and rest[0][0][0] == "run":
        _, name, text, values, limit = rest[0][0]
        if not values:
            yield ("query", flags, [text])
        if name:
            yield (kind, flags, [("run", "", text, values, limit)])
        if limit:
            yield (kind, flags, [("run", name, text, values, 0)])
    if kind == "query":
        for at, text in enumerate(rest[0]):
            for plainer in plainer_texts(text):
                yield (kind, flags, rest[0][:at] + [plainer] + rest[0][at + 1:])


def plainer_texts(text):
    bare = re.sub(r"/\*.*?\*/( \*/)?|--[^\n]*", " ", text)
    bare = " ".join(bare.split()).rstrip("; ")
    if bare and bare != text and "'" not in text and "$" not in text:
        yield bare
    inner = re.search(r"\$in\$(.*?)\$in\$", text, re.S)
    if inner:
        yield inner.group(1)
        yield f"DO $do$ BEGIN EXECUTE $in${inner.group(1)}$in$; END $do$"
