# SPDX-License-Identifier: ISC
"""A client that looks at what it gets instead of knowing each answer: what is checked is whose it is."""

from e2e.kit.wire import bind, close, collect, describe, execute, parse, query, sync

from .honest import Honest


def quote(text):
    return "'" + text.replace("'", "''") + "'"


class Guest(Honest):
    entry = "app"

    def __init__(self, scene, number):
        super().__init__(scene, number)
        self.logins = 0
        self.known = set()  # names of statements

    def options(self):
        """What the startup packet has beside user and database."""
        return {}

    def login(self):
        self.logins += 1
        self.known = set()
        self.log_in(self.entry, **self.options())
        self.scene.count("logins")

    def ended(self, fields):
        self.scene.count(f"ended by {fields.get('C')}: {fields.get('M')}")
        return super().ended(fields)

    def tell(self, *sent):
        """The response to messages that end with a Sync or are a Query."""
        self.say(b"".join(sent))
        self.scene.count("steps")
        result = collect(self.hear())
        if result.errors:
            self.known.clear()  # a Parse may have failed
        return result

    def bound(self, text, values=(), is_named=False):
        """The messages for a statement in the extended protocol; a named one is parsed once."""
        if not is_named:
            return parse(text) + bind(values) + describe() + execute() + sync()
        name = f"s{hash(text) & 0xffffffff:x}"
        begin = b"" if name in self.known else close("S", name) + parse(text, name)
        self.known.add(name)
        return begin + bind(values, name) + describe() + execute() + sync()

    def run_text(self, text):
        """One text, in one of the protocols."""
        how = self.rng.randrange(4)
        return self.tell(query(text) if how < 2 else self.bound(text, (), how == 3))
