"""A grid written down: in a YAML file whose lists are axes, or in one line of flags.

    name: sac-lr
    algo: sac
    env: [Hopper-v4, Walker2d-v4]
    seed: [0, 1, 2]
    lr[rate]: [1e-3, 3e-4]                # `rate` stands for it in names
    zip:                                  # settings that move together
      - {batch_size: [100, 256], update_every: [50, 64]}
    exclude:                              # combinations left out
      - {env: Hopper-v4, lr: 1e-3}
    include:                              # and added
      - {lr: 1e-4, env: Hopper-v4}
    per_env:                              # other values in one environment
      Walker2d-v4: {steps: 2000000}
    slurm:                                # what --launcher slurm asks of the cluster
      {partition: gpu, time: 4:00:00, cpus: 4, gpus: 1}

All mistakes are found at once, each with its line.
"""

import contextlib
import difflib
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from jaxrl import envs
from jaxrl.algos import NAMES
from jaxrl.algos.presets import PRESETS
from jaxrl.errors import UserError, suggestion
from jaxrl.experiments import grid, slurm
from jaxrl.experiments.grid import Grid
from jaxrl.experiments.slurm import Slurm
from jaxrl.runs import spec
from jaxrl.training import compatibility

SECTIONS = ("zip", "exclude", "include", "per_env", "slurm")
PLACES = ("name", "exp_name", "out")
CHOICES = {"algo": NAMES, "preset": ("default", *PRESETS)}
# Each run's own, which the grid decides.
ELSEWHERE = {
    "exp_name": "the grid's name names its runs",
    "out": "it is one for the whole grid",
    "overwrite": "it is not a setting: use the flag --overwrite",
}
UNREADABLE = object()
# What PyYAML means.
SYNTAX = {
    "'\\t'": "it is indented by a tab; take spaces",
    "expected <block end>": "it is not indented as the lines before it",
    "mapping values are not allowed": "it is not indented as the lines before it, or "
    "has a second ': '",
    "found another document": "a second document begins, but a file holds one",
}
TRIED = 100  # environments that are made, to see whether algorithms can act in them
MOST = 100_000  # values in a file; a few lines of aliases can stand for billions
Pair = tuple[str, int, yaml.Node]


class Value(NamedTuple):
    """Of a setting, and the line on which it stands; 0 where there are no lines."""

    plain: Any
    line: int


class Entry(NamedTuple):
    """A setting with its values."""

    key: str
    shorthand: str | None
    values: list[Value]
    line: int


class Sheet(NamedTuple):
    """A grid, where its runs are to be, and what they ask of a cluster."""

    grid: Grid
    out: str
    slurm: Slurm = Slurm()


def read(path: str) -> Sheet:
    """The grid in a YAML file; refuses it with all that is wrong."""
    reader = Reader(Path(path).stem)
    reader.take(reader.pairs(composed(path)))
    return reader.sheet(path)


def composed(path: str) -> yaml.MappingNode:
    """The settings in a YAML file, with their lines; nothing in it is ever run."""
    try:
        root = yaml.compose(Path(path).read_text(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{path} is not YAML: {_syntax(error)}") from None
    if not isinstance(root, yaml.MappingNode):
        raise UserError(f"{path} must hold settings, one a line, as in 'gamma: 0.98'")
    if _size(root, {}) > MOST:
        raise UserError(f"{path} holds more than {MOST} values, by its aliases")
    return root


def _syntax(error: Exception) -> str:
    """What is wrong with it, in a line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem_mark:
        return " ".join(str(error).replace('in "<unicode string>", ', "").split())
    line, problem = error.problem_mark.line + 1, str(error.problem)
    for part, sentence in SYNTAX.items():
        problem = sentence if part in problem else problem
    return f"line {line}: {problem.replace('<stream end>', 'the end of the file')}"


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Values that a node stands for, those behind aliases counted each time."""
    if id(node) in known or not isinstance(node.value, list):
        return known.get(id(node), 1)
    known[id(node)] = 1  # where it holds itself
    inner = [
        x for item in node.value for x in (item if type(item) is tuple else [item])
    ]
    known[id(node)] = 1 + sum(_size(child, known) for child in inner)
    return known[id(node)]


def from_flags(algo: str, flags: Mapping[str, list[str]]) -> Sheet:
    """The grid of one line: flags with a value or several."""
    nodes = {"algo": [algo]} | dict(flags)
    reader = Reader(algo)
    for key, words in nodes.items():
        name, shorthand = _parted(key)
        reader.take_entry(Entry(name, shorthand, [Value(x, 0) for x in words], 0))
    return reader.sheet("the grid")


class Reader:
    """Fills a grid and gathers mistakes, each with its line."""

    def __init__(self, name: str, kind: str = "grid", own: Sequence[str] = ()) -> None:
        self._kind, self._words = kind, (*SECTIONS, "name", "env", *own)
        self.mistakes: list[tuple[int, str]] = []
        self.out = "runs"
        self.slurm = Slurm()
        self.grid = Grid(re.sub(r"[^A-Za-z0-9._-]+", "-", name))
        self._algos: list[str] = []
        self._envs: dict[str, int] = {}  # with their lines
        self._keys: set[str] = set()
        self._faulty: set[str] = set()  # whose values are not known for their mistakes
        self._named = 0  # the line

    def take(self, pairs: Iterable[Pair]) -> None:
        """The pairs of a file; what others depend on is noted first."""
        sections = []
        entries = []
        for key, line, node in pairs:
            if key in SECTIONS:
                sections.append((key, line, node))
            else:
                entries.append(self.entry(key, line, node))
        self._note_choices(entries)
        for entry in entries:
            self.take_entry(entry)
        # What is excluded must be there before.
        for key, line, node in sorted(sections, key=lambda x: x[0] == "exclude"):
            getattr(self, f"_take_{key}")(line, node)

    def sheet(self, where: str) -> Sheet:
        """What was read, if all was right."""
        for name, example in ("algo", "sac"), ("env", "Hopper-v4"):
            if name not in self._keys:
                self.wrong(0, f"no {name}; name one, as in {name}: {example}")
        if not self.mistakes:
            self._look_at_the_whole()
        if self.mistakes:
            raise UserError(_told(where, self.mistakes))
        return Sheet(self.grid, self.out, self.slurm)

    def _look_at_the_whole(self) -> None:
        """What single settings do not show: names, and what cannot act where."""
        try:
            runs = [variant.run for variant in self.grid.runs(self.out)]
        except UserError as error:
            return self.wrong(0, str(error))
        kinds = {f"{run.algo} {run.env} {run.env_kwargs}": run for run in runs}
        for run in itertools.islice(kinds.values(), TRIED):
            self.wrong(self._envs.get(run.env, 0), compatibility.fault(run))
        return None

    def wrong(self, line: int, sentence: str) -> None:
        """Notes a mistake, if it is one."""
        if sentence and (line, sentence) not in self.mistakes:
            self.mistakes.append((line, sentence))

    # Settings

    def _note_choices(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            plain = [str(value.plain) for value in entry.values]
            if entry.key == "algo":  # of a misspelt one, the settings are checked too
                near = [difflib.get_close_matches(x, NAMES, 1) for x in plain]
                self._algos += [name for names in near for name in names]
            if entry.key == "env":
                lines = (value.line for value in entry.values)
                self._envs |= dict(zip(plain, lines, strict=True))

    def take_entry(self, entry: Entry) -> None:
        """One setting, into the grid."""
        self._keys.add(entry.key)
        if not entry.line:
            self._note_choices([entry])
        if entry.key in PLACES:
            self._take_place(entry)
        elif self._are_right([entry]):
            values = [value.plain for value in entry.values]
            self._try(entry.line, self.grid.add, entry.key, values, entry.shorthand)
        else:
            self._faulty.add(entry.key)

    def _take_place(self, entry: Entry) -> None:
        plain = [value.plain for value in entry.values]
        if len(plain) != 1 or not isinstance(plain[0], str | int):
            self.wrong(entry.line, f"{entry.key} takes one value, a text")
        elif entry.key == "out":
            self.out = str(plain[0])
        else:
            self.grid.name = str(plain[0])
            first, self._named = self._named, entry.line
            twice = f"the name stands on line {first} already" if first else ""
            self.wrong(entry.line, grid.fault_of_name(self.grid.name) or twice)

    def _are_right(self, entries: Iterable[Entry]) -> bool:
        before = len(self.mistakes)
        for entry in entries:
            if fault := self.fault_of_key(entry.key):
                self.wrong(entry.line, fault)
                continue
            for value in entry.values:
                self.wrong(value.line, self._fault_of_value(entry.key, value.plain))
        return len(self.mistakes) == before

    def fault(self, key: str, value: Any) -> str:
        """What is wrong with a setting or its value; empty if nothing is."""
        return self.fault_of_key(key) or self._fault_of_value(key, value)

    def fault_of_key(self, key: str) -> str:
        """That there is no such setting; empty if there is one."""
        name, *parts = key.split(":")
        if key in (*CHOICES, "env"):
            return ""
        if key in ELSEWHERE:
            return f"{key} has no place in a grid; {ELSEWHERE[key]}"
        if parts and grid.hints().get(name) is not dict:
            return f"{key!r} is a part of {name}, but only env_kwargs has parts"
        near = difflib.get_close_matches(name, self._words, 1, 0.75)
        if near and name not in grid.hints():
            return f"a {self._kind} has no {name!r}; did you mean {near[0]!r}?"
        lacking = [algo for algo in self._algos_with(name) if name not in _known(algo)]
        return spec.fault(lacking[0], name, None, _known(lacking[0])) if lacking else ""

    def _fault_of_value(self, key: str, value: Any) -> str:
        if value is UNREADABLE:  # and told already
            return ""
        if key in CHOICES:
            hint = suggestion(str(value), CHOICES[key])
            known = hint or f"; choose {', '.join(CHOICES[key])}"
            what = "algorithm" if key == "algo" else key
            return (
                "" if value in CHOICES[key] else f"there is no {what} {value!r}{known}"
            )
        if key == "env":
            return _fault_of_env(value)
        name, *parts = key.split(":")
        tried = value if not parts else {parts[0]: value}
        every = [
            spec.fault(algo, name, tried, _known(algo))
            for algo in self._algos_with(name)
        ]
        return next(filter(None, every), "")

    def _algos_with(self, name: str) -> Sequence[str]:
        """Those of the grid; where it has none, one by which to judge a setting."""
        knowing = [algo for algo in NAMES if name in _known(algo)]
        return self._algos or knowing[:1] or NAMES[:1]

    def entry(self, key: str, line: int, node: yaml.Node) -> Entry:
        """A setting with its values and their lines."""
        name, shorthand = _parted(key)
        whole = self.plain(node)
        single = not isinstance(whole, list) or grid.is_one_value(name, whole)
        if single or not isinstance(node, yaml.SequenceNode):
            return Entry(name, shorthand, [Value(whole, line)], line)
        lines = [child.start_mark.line + 1 for child in node.value]
        values = [Value(x, at) for x, at in zip(whole, lines, strict=True)]
        return Entry(name, shorthand, values, line)

    def plain(self, node: yaml.Node) -> Any:
        """The value that a node stands for."""
        try:
            return yaml.SafeLoader("").construct_document(node)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            problem = " ".join((getattr(error, "problem", None) or str(error)).split())
            no_tag = "could not determine a constructor for the tag"
            self.wrong(
                node.start_mark.line + 1, problem.replace(no_tag, "there is no tag")
            )
            return UNREADABLE

    # Sections

    def _take_zip(self, line: int, node: yaml.Node) -> None:
        for at, entries in self._combinations(line, node, "zip"):
            if self._are_right(entries):
                self._try(at, self.grid.zip, _settings(entries))
            else:
                self._faulty |= {entry.key for entry in entries}

    def _take_include(self, line: int, node: yaml.Node) -> None:
        for at, entries in self._combinations(line, node, "include"):
            if self._are_right(entries):
                self._try(at, self.grid.include, _settings(entries))

    def _take_exclude(self, line: int, node: yaml.Node) -> None:
        left = self._count()
        for at, entries in self._combinations(line, node, "exclude"):
            if not self._are_right(entries):
                continue
            self.grid.exclude(_settings(entries))
            before, left = left, self._count()
            known = not self._faulty & {entry.key for entry in entries}
            if known and left and left == before:
                self.wrong(at, "this excludes nothing: no variant has these values")

    def _count(self) -> int:
        """Variants up to now; 0 where they are refused, which is told in the end."""
        with contextlib.suppress(UserError):
            return len(self.grid.variants())
        return 0

    def _take_per_env(self, line: int, node: yaml.Node) -> None:
        for env, at, inner in self.mapping(line, node, "per_env"):
            if env not in self._envs:
                hint = (
                    suggestion(env, self._envs) or f"; it has {', '.join(self._envs)}"
                )
                self.wrong(at, f"the grid has no env {env!r}{hint}")
            entries = [self.entry(*pair) for pair in self.mapping(at, inner, env)]
            for entry in entries:
                if len(entry.values) != 1:
                    self.wrong(entry.line, f"{entry.key} takes one value in per_env")
            if self._are_right(entries):
                own = {e.key: e.values[0].plain for e in entries}
                self._try(at, self.grid.override, env, own)

    def _take_slurm(self, line: int, node: yaml.Node) -> None:
        given: dict[str, Any] = {}
        for key, at, inner in self.mapping(line, node, "slurm", "{cpus: 4, gpus: 1}"):
            # As it is written: YAML would read the time 4:00:00 as a number.
            given[key] = yaml.BaseLoader("").construct_document(inner)
            self.wrong(at, slurm.fault(key, given[key]))
        if not self.mistakes:
            self.slurm = Slurm(**given)

    def _combinations(
        self, line: int, node: yaml.Node, section: str
    ) -> Iterator[tuple[int, list[Entry]]]:
        """Those in a section: a mapping, or a list of them."""
        several = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for each in several:
            at = each.start_mark.line + 1
            yield at, [self.entry(*p) for p in self.mapping(at, each, section)]

    def mapping(
        self,
        line: int,
        node: yaml.Node,
        section: str,
        example: str = "{lr: 0.001, seed: 0}",
    ) -> list[Pair]:
        """The settings in a section."""
        if isinstance(node, yaml.MappingNode):
            return self.pairs(node)
        self.wrong(line, f"{section} takes settings, as in {example}")
        return []

    def pairs(self, node: yaml.MappingNode) -> list[Pair]:
        """Keys, their lines and what they stand for."""
        first: dict[str, int] = {}
        found = []
        for key, value in node.value:
            line, name = key.start_mark.line + 1, str(key.value)
            if not isinstance(key, yaml.ScalarNode):
                self.wrong(line, "a setting has a word for its name, and not a list")
                continue
            if name in first:
                self.wrong(line, f"{name} stands on line {first[name]} already")
                continue
            first[name] = line
            found.append((name, line, value))
        return found

    def _try(self, line: int, method: Any, *arguments: Any) -> None:
        try:
            method(*arguments)
        except UserError as error:
            self.wrong(line, str(error))


_known = functools.cache(spec.known_settings)


def _fault_of_env(value: Any) -> str:
    if isinstance(value, str) and value:
        return envs.misspelt(value)
    what = "empty" if value in (None, "") else repr(value)
    return f"env is {what}, but must be a name, as in env: Hopper-v4"


def _settings(entries: Iterable[Entry]) -> dict[str, list]:
    return {entry.key: [value.plain for value in entry.values] for entry in entries}


def _parted(key: str) -> tuple[str, str | None]:
    """`lr[rate]`: the setting and its shorthand."""
    found = re.fullmatch(r"([^\[\]]+)\[([^\[\]]*)\]", key)
    name, shorthand = found.groups() if found else (key, None)
    return name.replace("-", "_"), shorthand


def _told(where: str, mistakes: list[tuple[int, str]]) -> str:
    """All of them, a line each."""
    lines = [
        f"line {line}: {sentence}" if line else sentence
        for line, sentence in sorted(mistakes)
    ]
    if len(lines) == 1:
        return f"{where}: {lines[0]}"
    count = f"{where} has {len(lines)} mistakes, and nothing was started:"
    return "\n  ".join([count, *lines])
