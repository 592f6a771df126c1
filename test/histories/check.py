# SPDX-License-Identifier: ISC
"""Checks histories: what clients have asked for and when, and what they were told.

A history is a list of Op. One that ended in an error after which nobody can know whether it was
done is "unknown": it may have been done at any time after its begin, or never. Each checker yields
sentences, one for each thing that cannot have happened in a correct database.
"""

import collections
import dataclasses
import typing

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
NEVER = float("inf")


@dataclasses.dataclass
class Op:
    client: str
    kind: str
    key: str
    value: typing.Any = None  # what is written, or what was read
    begin: float = 0
    end: float = NEVER
    outcome: str = OK
    why: str = ""  # it did not succeed

    def __str__(self):
        words = (self.client, self.kind, self.key, self.value, self.outcome, self.why)
        return " ".join(str(word) for word in words if word != "")


def by_key(ops):
    keys = collections.defaultdict(list)
    for op in ops:
        keys[op.key].append(op)
    return keys


# -- registers: linearizable ----------------------------------------------------------------------

CONFIGURATIONS = 200000  # of one key; a history with more is not decided


class Undecided(Exception):
    """The history has too many operations at the same time."""


def step(op, state):
    """The state after the operation, or None if it cannot have happened in this one.

    write: value; read: value; swap: (old, new, whether it was done; None: not known).
    """
    if op.kind == "write":
        return op.value
    if op.kind == "read":
        return state if op.value == state else None
    old, new, was_done = op.value
    fits = state == old
    if was_done is not None and fits != was_done:
        return None
    return new if fits else state


def is_linearizable(ops, initial=0):
    """Whether there is an order of the operations in which each happens between its begin and its
    end, and each read returns what was written last before it (Wing and Gong; the memory of visited
    configurations is Lowe's).
    """
    ops = sorted((op for op in ops if op.outcome != FAILED and not (
        op.kind == "read" and op.outcome == UNKNOWN)), key=lambda op: op.begin)
    ends = [op.end if op.outcome == OK else NEVER for op in ops]
    needed = sum(1 << at for at, op in enumerate(ops) if op.outcome == OK)
    seen, todo = set(), [(0, initial)]
    while todo:
        done, state = todo.pop()
        if done & needed == needed:
            return True
        if (done, state) in seen:
            continue
        seen.add((done, state))
        if len(seen) > CONFIGURATIONS:
            raise Undecided(f"{len(ops)} operations")
        todo += following(ops, ends, done, state)
    return False


def following(ops, ends, done, state):
    """The configurations after one operation more: one that began before any other has ended."""
    limit, found = NEVER, []
    for at, op in enumerate(ops):
        if done >> at & 1:
            continue
        if op.begin > limit:
            break
        limit = min(limit, ends[at])
        after = step(op, state)
        if after is not None:
            found.append((at, after))
    return [(done | 1 << at, after) for at, after in found if ops[at].begin <= limit]


def check_registers(ops, initial=0):
    undecided = 0
    for key, group in by_key(ops).items():
        try:
            if not is_linearizable(group, initial):
                yield f"register {key} is not linearizable: " + "; ".join(
                    f"{op} {op.begin:.4f}-{op.end:.4f}"
                    for op in sorted(group, key=lambda op: op.begin))
        except Undecided:
            undecided += 1
    if undecided * 20 > len(by_key(ops)):
        yield f"{undecided} of {len(by_key(ops))} registers were not decided"


# -- lists: each transaction is done whole or not at all, in an order without circles -------------


@dataclasses.dataclass
class Transaction:
    """Appends and reads of lists: appended [(key, element)], read {key: [element, ...]}.

    Reads come before the appends of the same transaction to that key.
    """

    client: str
    appended: list
    read: dict = dataclasses.field(default_factory=dict)
    outcome: str = OK

    def __str__(self):
        return f"{self.client} appends {self.appended}, reads {self.read}, {self.outcome}"


def check_lists(transactions, final):
    """final: {key: [element, ...]}, read when all clients have ended. Elements are unique."""
    writers = {element: each for each in transactions for _, element in each.appended}
    places = {element: (key, at) for key, elements in final.items()
              for at, element in enumerate(elements)}
    yield from check_elements(transactions, final, writers)
    yield from check_reads(transactions, final, writers)
    yield from check_circles(transactions, final, writers, places)


def check_elements(transactions, final, writers):
    counts = collections.Counter(one for elements in final.values() for one in elements)
    for element, count in counts.items():
        if count > 1:
            yield f"{element} was appended {count} times"
        if element not in writers:
            yield f"{element} was never sent"
    for each in transactions:
        there = [element in counts and element in final.get(key, ())
                 for key, element in each.appended]
        if each.outcome == OK and not all(there):
            yield f"acknowledged and lost: {each}"
        elif each.outcome == FAILED and any(there):
            yield f"failed and done: {each}"
        elif any(there) and not all(there):
            yield f"torn: {each}"


def check_reads(transactions, final, writers):
    """What was read is what the list began with, and nothing of a transaction that failed."""
    for each in transactions:
        if each.outcome != OK:
            continue
        for key, elements in each.read.items():
            if final.get(key, [])[:len(elements)] != elements:
                why = [one for one in elements if one in writers and writers[one].outcome == FAILED]
                yield (f"{'of a failed transaction' if why else 'no beginning of the list'}: {each},"
                       f" {key} is {final.get(key, [])[:len(elements) + 2]}")


def check_circles(transactions, final, writers, places):
    """Of the order in which transactions must have happened: an append comes after those before it in
    the list (ww), a read after the last append that it shows (wr), and before the next one (rw).
    """
    edges = collections.defaultdict(set)

    def before(one, other):
        if one is not None and other is not None and one is not other:
            edges[id(one)].add(id(other))

    for elements in final.values():
        for one, other in zip(elements, elements[1:]):
            before(writers.get(one), writers.get(other))
    for each in transactions:
        if each.outcome != OK:
            continue
        for key, elements in each.read.items():
            if elements:
                before(writers.get(elements[-1]), each)
            following_one = final.get(key, [])[len(elements):len(elements) + 1]
            if following_one:
                before(each, writers.get(following_one[0]))
    names = {id(each): each for each in transactions}
    circle = find_circle(edges)
    if circle:
        yield "a circle: " + " -> ".join(str(names[one]) for one in circle)


def find_circle(edges):
    """The nodes of one, or None."""
    colour = {}
    for root in list(edges):
        if root in colour:
            continue
        colour[root] = "open"
        path, stack = [root], [iter(edges[root])]
        while stack:
            node = next(stack[-1], None)
            if node is None:
                stack.pop()
                colour[path.pop()] = "done"
            elif colour.get(node) == "open":
                return path[path.index(node):]
            elif node not in colour:
                colour[node] = "open"
                path.append(node)
                stack.append(iter(edges.get(node, ())))
    return None


# -- counters: a client reads its own writes, and never less than before --------------------------


def check_counters(ops):
    """inc: value is what the counter is then, each client has its own; read: {client: count}.

    Each client's operations are in its own order.
    """
    attempted = collections.Counter()
    for op in ops:
        if op.kind == "inc" and op.outcome != FAILED:
            attempted[op.client] = max(attempted[op.client], op.value)
    for client, group in clients_of(ops).items():
        least = collections.Counter()
        for op in group:
            if op.outcome != OK:
                continue
            if op.kind == "inc":
                least[client] = op.value
                continue
            for other in {*op.value, *least}:
                count = op.value.get(other, 0)
                if count < least[other]:
                    yield f"stale: {op}, and {other} had {least[other]} before"
                elif count > attempted[other]:
                    yield f"never written: {op}, and {other} has not tried more than {attempted[other]}"
                least[other] = max(least[other], count)


def clients_of(ops):
    clients = collections.defaultdict(list)
    for op in ops:
        clients[op.client].append(op)
    return clients


# -- session state: each client has its own, and never another's ----------------------------------


def check_states(ops):
    """connect; set: one of its values by SET; hide: by a function, which no text shows; see: (set,
    hidden), "" where there is none. What was set is there again, what was hidden may be gone.
    """
    for client, group in clients_of(ops).items():
        own, maybe, hidden = "", set(), {""}
        for at, op in enumerate(group):
            before = "; ".join(map(str, group[max(at - 8, 0):at]))
            if op.kind == "connect":
                own, maybe, hidden = "", set(), {""}
            elif op.kind == "set" and op.outcome == OK:
                own, maybe = op.value, set()
            elif op.kind == "set" and op.outcome == UNKNOWN:
                maybe.add(op.value)
            elif op.kind == "hide" and op.outcome != FAILED:
                hidden.add(op.value)
            elif op.kind == "see" and op.outcome == OK:
                if op.value[0] != own and op.value[0] not in maybe:
                    yield f"{client} has {op.value[0]!r} and has set {own!r}, after: {before}"
                if op.value[1] not in hidden:
                    yield f"{client} has {op.value[1]!r}, which it has never set, after: {before}"
