# SPDX-License-Identifier: ISC
"""Finds what can be taken away in a C source, and writes the source with all of it switchable.

The source is not parsed as a compiler would. Its statements are followed, and within them the
operators; that is enough for code in the style of this tree. Every mutant of a file is compiled
into one program, and mutant(NUMBER) says whether it is the chosen one, so that trying a mutant
needs no build. Kinds of mutants:

    guard    an operand of && or || does not count; a condition is always false, or always true
    bound    < becomes <=, <= becomes <, > becomes >=, >= becomes >
    call     a statement that calls a function, and uses no result, is not run
    store    a statement that writes to memory behind a pointer or into a struct is not run
    result   a function that returns a bool always returns true, or false, at this place
"""

import dataclasses
import re

KINDS = ("guard", "bound", "call", "store", "result")

_TOKEN = re.compile(r"""
    (?P<skipped> [ \t\n]+ | \\\n | /\*.*?\*/ | //[^\n]* | (?<![^\n])[ \t]*\#(?:[^\n\\]|\\.)* )
  | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<word> [A-Za-z_]\w* )
  | (?P<number> \.?\d(?:[eEpP][+-]|[\w.])* )
  | (?P<sign> -> | \+\+ | -- | <<= | >>= | \.\.\. | << | >> | [<>=!]= | && | \|\| | [-+*/%&|^]= | . )
""", re.VERBOSE | re.DOTALL)

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_ASSIGNMENTS = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="}
_SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
# Which side one has to be added to: a < b becomes a < 1 + b, and a > b becomes a + 1 > b.
_IS_LARGER_RIGHT = {"<": True, ">=": True, "<=": False, ">": False}
_TYPES = {"struct", "enum", "union", "const", "static", "unsigned", "signed", "char", "short", "int",
          "long", "bool", "float", "double", "void", "volatile", "extern"}
_CONTROL = {"if", "while", "for", "switch"}
# Removing these shows nothing: what they say is for people, or for the build; or is no statement.
_QUIET = {"assert", "static_assert", "_Static_assert", "log_debug", "MESSAGE_STATIC"}


@dataclasses.dataclass
class Mutant:
    kind: str
    line: int
    says: str
    path: str = ""
    number: int = 0

    def __str__(self):
        return f"{self.path}:{self.line}: {self.says}"


@dataclasses.dataclass
class _Token:
    kind: str
    text: str
    start: int

    @property
    def end(self):
        return self.start + len(self.text)


def _tokens(source):
    return [_Token(match.lastgroup, match.group(), match.start())
            for match in _TOKEN.finditer(source) if match.lastgroup != "skipped"]


class _Finder:
    def __init__(self, source, kinds):
        self.source = source
        self.kinds = kinds
        self.tokens = _tokens(source)
        self.partner = self._match()
        self.found = []  # (mutant, [(offset, rank, text of the insertion)])
        self.returns_bool = False

    def _match(self):
        partner, open_ones = {}, []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in _CLOSING:
                open_ones.append(index)
            elif token.kind == "sign" and token.text in _CLOSING.values() and open_ones:
                partner[open_ones[-1]] = index
                partner[index] = open_ones.pop()
        return partner

    def text(self, index):
        return self.tokens[index].text if index < len(self.tokens) else ""

    def words(self, first, last):
        """The source from one token up to another one (which is not in it), on one line."""
        return " ".join(self.source[self.tokens[first].start:self.tokens[last - 1].end].split())

    # -- what is found ------------------------------------------------------------------------

    def add(self, kind, at, says, insertions):
        if kind not in self.kinds:
            return
        line = self.source.count("\n", 0, self.tokens[at].start) + 1
        self.found.append((Mutant(kind, line, says), insertions))

    def wrap(self, kind, first, last, before, after, says):
        """Puts text in front of the tokens from first to last, and behind them."""
        start, end = self.tokens[first].start, self.tokens[last - 1].end
        self.add(kind, first, says, [((start, 1, -end), before), ((end, 0, -start), after)])

    def force(self, kind, first, last, value, says):
        sign = "|| mutant(%d)" if value else "&& !mutant(%d)"
        self.wrap(kind, first, last, "((", f") {sign})", says)

    def condition(self, first, last, can_be_true=True):
        if first >= last or self.words(first, last) in ("true", "false", "0", "1"):
            return
        words = self.words(first, last)
        self.force("guard", first, last, False, f"`{words}` is always false")
        if can_be_true:
            self.force("guard", first, last, True, f"`{words}` is always true")
        self.expression(first, last)

    # -- expressions --------------------------------------------------------------------------

    def edge(self, index, step, limit, signs):
        """The operand of an operator, in one direction: up to a sign of the same depth."""
        while index != limit:
            text = self.text(index)
            if text in (")", "]", "}") if step < 0 else text in _CLOSING:
                index = self.partner[index] + step
                continue
            if text in signs or text in ("(", "[", "{", ")", "]", "}", ",", ";", "?", ":", "return") \
                    or text in _ASSIGNMENTS:
                break
            index += step
        return index

    def operand(self, first, last, sign):
        """One operand of && or ||: without it the others decide."""
        name = "always true" if sign == "&&" else "always false"
        says = f"`{self.words(first, last)}` is {name}"
        self.force("guard", first, last, sign == "&&", says)

    def expression(self, first, last):
        done = set()
        index = first
        while index < last:
            token = self.tokens[index]
            if token.text in _QUIET and self.text(index + 1) == "(":
                index = self.partner[index + 1] + 1
                continue
            if token.text in ("&&", "||"):
                stops = ("&&", "||") if token.text == "&&" else ("||",)
                left = self.edge(index - 1, -1, first - 1, stops) + 1
                right = self.edge(index + 1, 1, last, stops)
                for operand in ((left, index), (index + 1, right)):
                    if operand not in done:
                        done.add(operand)
                        self.operand(*operand, token.text)
            elif token.text == "?":
                start = self.edge(index - 1, -1, first - 1, ()) + 1
                for value in (False, True):
                    self.force("guard", start, index, value,
                               f"`{self.words(start, index)}` is always {str(value).lower()}")
            elif token.text in _SHIFTED and token.kind == "sign":
                self.bound(index, first, last)
            index += 1

    def bound(self, index, first, last):
        stops = ("&&", "||", "==", "!=", "<", "<=", ">", ">=")
        left = self.edge(index - 1, -1, first - 1, stops) + 1
        right = self.edge(index + 1, 1, last, stops)
        token = self.tokens[index]
        says = f"`{self.words(left, right)}` has {_SHIFTED[token.text]}"
        if _IS_LARGER_RIGHT[token.text]:
            spot, text = (token.end, 0, 0), " mutant(%d) +"
        else:
            spot, text = (self.tokens[index - 1].end, 1, 0), " + mutant(%d)"
        self.add("bound", index, says, [(spot, text)])

    # -- statements ---------------------------------------------------------------------------

    def end_of(self, index):
        """The semicolon that ends what begins here."""
        while self.text(index) not in (";", ""):
            index = self.partner[index] if self.text(index) in _CLOSING else index
            index += 1
        return index

    def statement(self, index):
        """Follows one statement; returns the index behind it."""
        text = self.text(index)
        if text == "{":
            end = self.partner[index]
            index += 1
            while index < end:
                index = self.statement(index)
            return end + 1
        if text in ("if", "while", "switch") and self.text(index + 1) == "(":
            return self.controlled(index, text)
        if text == "for":
            return self.loop(index)
        if text == "else":
            return self.statement(index + 1)
        if text == "do":
            index = self.statement(index + 1)  # now at its "while"
            self.expression(index + 2, self.partner[index + 1])
            return self.partner[index + 1] + 2
        if text in ("case", "default") or (self.tokens[index].kind == "word"
                                           and self.text(index + 1) == ":"):
            while self.text(index) not in (":", ""):
                index += 1
            return index + 1
        return self.simple(index, text)

    def controlled(self, index, text):
        close = self.partner[index + 1]
        if text == "switch":
            self.expression(index + 2, close)
        else:
            # A loop that never ends shows itself, but only after a long wait.
            self.condition(index + 2, close, can_be_true=text == "if")
        index = self.statement(close + 1)
        return self.statement(index + 1) if text == "if" and self.text(index) == "else" else index

    def loop(self, index):
        close = self.partner[index + 1]
        first = self.end_of(index + 2)
        second = self.end_of(first + 1)
        self.expression(index + 2, first)
        self.expression(first + 1, second)
        self.expression(second + 1, close)
        return self.statement(close + 1)

    def simple(self, index, text):
        if self.tokens[index].kind == "word" and self.text(index + 1) == "(":
            behind = self.partner[index + 1] + 1
            if self.text(behind) == "{" or self.tokens[behind].kind == "word":
                return self.statement(behind)  # TAILQ_FOREACH (...) and its kin
            if self.text(behind) == "}":
                return behind  # a macro that is a list of statements
        end = self.end_of(index)
        if text == "return":
            self.result(index + 1, end)
        elif self.is_declaration(index):
            if text != "static":
                self.expression(index, end)
        elif text not in ("break", "continue", "goto", ";") and text not in _QUIET:
            self.removal(index, end)
            self.expression(index, end)
        return end + 1

    def result(self, first, end):
        if first == end:
            return
        if self.returns_bool and self.words(first, end) not in ("true", "false"):
            words = self.words(first, end)
            self.force("result", first, end, False, f"`return {words}` returns false")
            self.force("result", first, end, True, f"`return {words}` returns true")
        self.expression(first, end)

    def is_declaration(self, index):
        if self.text(index) in _TYPES:
            return True
        behind = index + 1
        while self.text(behind) == "*":
            behind += 1
        return self.tokens[index].kind == "word" and self.tokens[behind].kind == "word"

    def removal(self, index, end):
        kind = self.kind_of_removal(index, end)
        if kind:
            self.wrap(kind, index, end + 1, "do { if (!mutant(%d)) ", " } while (0);",
                      f"`{self.words(index, end)}` is not run")

    def kind_of_removal(self, index, end):
        depth_zero = []
        while index < end:
            depth_zero.append(self.text(index))
            index = self.partner[index] if self.text(index) in _CLOSING else index
            index += 1
        stores = [at for at, text in enumerate(depth_zero)
                  if text in _ASSIGNMENTS or text in ("++", "--")]
        if not stores:
            return "call" if "(" in depth_zero else None
        # A variable of the function's own may have no other value than this one.
        is_far = any(text in ("->", ".", "[", "*") for text in depth_zero[:stores[0]]) or \
            (depth_zero[0] in ("++", "--") and len(depth_zero) > 2)
        return "store" if is_far else None

    def functions(self):
        index = 0
        while index < len(self.tokens):
            if self.text(index) == "{" and index:
                if self.text(index - 1) == ")":
                    self.returns_bool = self.says_bool(self.partner[index - 1])
                    self.statement(index)
                index = self.partner[index]
            index += 1

    def says_bool(self, index):
        """Whether the function whose parameters begin here returns a bool."""
        index -= 2
        while index >= 0 and self.tokens[index].kind == "word":
            if self.text(index) == "bool":
                return True
            index -= 1
        return False


_PRELUDE = """\
#ifndef MUTANTS
#define MUTANTS
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static unsigned int mutant_chosen;
static volatile unsigned char *mutant_met;
__attribute__((constructor)) static void mutant_start(void)
{
	const char *chosen = getenv("MUTANT"), *met = getenv("MUTANTS_MET");
	int fd = met ? open(met, O_RDWR | O_CLOEXEC) : -1;
	void *at;

	mutant_chosen = chosen ? (unsigned int)strtoul(chosen, NULL, 10) : 0;
	if (fd < 0)
		return;
	at = mmap(NULL, MUTANTS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mutant_met = at == MAP_FAILED ? NULL : at;
	close(fd);
}
static inline int mutant(unsigned int number)
{
	if (mutant_met)
		mutant_met[number] = 1;
	return number == mutant_chosen;
}
#endif
#line 1
"""

MUTANTS_MAX = 16384


def find(source, path, kinds=KINDS, first=1):
    """The mutants of a source, numbered from `first` in the order of the source."""
    finder = _Finder(source, kinds)
    finder.functions()
    found = sorted(finder.found, key=lambda one: one[1][0][0][0])
    for number, (mutant, _) in enumerate(found, first):
        mutant.number, mutant.path = number, path
    return found


def rewrite(source, found):
    """The source with these mutants in it, none of them chosen. Its lines stay where they are."""
    insertions = sorted((place, mutant.number if place[1] else -mutant.number,
                         text % mutant.number if "%d" in text else text)
                        for mutant, parts in found for place, text in parts)
    out, done = [_PRELUDE.replace("MUTANTS_MAX", str(MUTANTS_MAX))], 0
    for place, _, text in insertions:
        out.append(source[done:place[0]])
        out.append(text)
        done = place[0]
    out.append(source[done:])
    return "".join(out)
