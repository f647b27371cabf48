"""Settings in sections, as many experiment managers write them, as one flat set.

    experiment: {name: first-try, seed: 3, steps: 100000}
    env: {id: Hopper-v4, kwargs: {frame_skip: 2}}
    algorithm: {name: sac, params: {gamma: 0.98}}

Flat settings and sections may be mixed. Dots lead into sections on a command line, as
in `algorithm.params.gamma=0.98`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from jaxrl.errors import UserError, suggestion
from jaxrl.yaml_lines import Place

# The names of ours for those in a section; `experiment` also holds others by our names.
SECTIONS: dict[str, dict[str, str]] = {
    "experiment": {"name": "exp_name"},
    "env": {"id": "env", "name": "env", "kwargs": "env_kwargs"},
    "algorithm": {"name": "algo", "preset": "preset", "params": ""},
}
ALIASES = {"algo": "algorithm", "environment": "env"}
ALONE = {"experiment": "exp_name", "env": "env", "algorithm": "algo"}


class _Mistake(Exception):
    """What is wrong at a place of a mapping."""

    def __init__(self, place: Place, sentence: str) -> None:
        super().__init__(sentence)
        self.place, self.sentence = place, sentence


def flat(config: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The settings of a mapping with or without sections."""
    return {name: value for name, (value, _) in located(config, where).items()}


def located(
    config: Mapping[Any, Any], where: str, lines: Mapping[Place, int] | None = None
) -> dict[str, tuple[Any, Place]]:
    """The same, each with its place in the mapping; mistakes with their line."""
    found: dict[str, tuple[Any, Place]] = {}
    try:
        for key, value in config.items():
            for name, inner, place in _settings(str(key), value):
                if name in found:
                    raise _Mistake(place, f"it sets {name} twice")
                found[name] = inner, place
    except _Mistake as mistake:
        line = (lines or {}).get(mistake.place)
        at = f"line {line}: " if line else ""
        raise UserError(f"{where}: {at}{mistake.sentence}") from None
    return found


def _settings(key: str, value: Any) -> Iterator[tuple[str, Any, Place]]:
    section = ALIASES.get(key, key)
    if section not in SECTIONS:
        yield _ours(key), value, (key,)
    elif not isinstance(value, Mapping):
        yield ALONE[section], value, (key,)
    else:
        for part, inner in value.items():
            yield from _part(section, (key, str(part)), inner)


def _part(section: str, place: Place, inner: Any) -> Iterator[tuple[str, Any, Place]]:
    """A setting in a section, or the settings in its `params`."""
    name = str(place[-1])
    if ours := _name(section, place):
        yield ours, inner, place
    elif isinstance(inner, Mapping):
        for key, value in inner.items():
            yield _ours(str(key)), value, (*place, str(key))
    else:
        raise _Mistake(
            place,
            f"{section} has {name}: {inner!r}, but that must hold settings, "
            "as in {gamma: 0.98}",
        )


def _ours(name: str) -> str:
    return name.replace("-", "_")


def _name(section: str, place: Place) -> str:
    """Ours; empty for a mapping of settings."""
    name, known = str(place[-1]), SECTIONS[section]
    if name in known:
        return known[name]
    if section == "experiment":
        return _ours(name)
    hint = suggestion(name, known) or f"; it has {', '.join(known)}"
    raise _Mistake(place, f"{section} has no {name!r}{hint}")


def flat_name(dotted: str) -> str:
    """The name of ours for one with dots; a part of env_kwargs as `env_kwargs:part`."""
    section, *rest = dotted.replace("-", "_").split(".")
    section = ALIASES.get(section, section)
    if section not in SECTIONS:
        return _ours(dotted)
    if not rest:
        return ALONE[section]
    if rest[0] == "params" and len(rest) == 2:
        return rest[1]
    try:
        return ":".join([_name(section, (section, rest[0])), *rest[1:]])
    except _Mistake as mistake:
        raise UserError(f"{dotted}: {mistake.sentence}") from None
