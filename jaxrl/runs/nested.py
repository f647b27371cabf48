"""Settings in sections, as many experiment managers write them, as one flat set.

    experiment: {name: first-try, seed: 3, steps: 100000}
    env: {id: Hopper-v4, kwargs: {frame_skip: 2}}
    algorithm: {name: sac, params: {gamma: 0.98}}

Flat settings and sections may be mixed. Dots lead into sections on a command line, as
in `algorithm.params.gamma=0.98`.
"""

from collections.abc import Mapping
from typing import Any

from jaxrl.errors import UserError, suggestion

# The names of ours for those in a section; `experiment` also holds others by our names.
SECTIONS: dict[str, dict[str, str]] = {
    "experiment": {"name": "exp_name"},
    "env": {"id": "env", "name": "env", "kwargs": "env_kwargs"},
    "algorithm": {"name": "algo", "preset": "preset", "params": ""},
}
ALIASES = {"algo": "algorithm", "environment": "env"}


def flat(config: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The settings of a mapping with or without sections."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        for name, inner in _settings(str(key).replace("-", "_"), value, where):
            if name in found:
                raise UserError(f"{where} sets {name} twice")
            found[name] = inner
    return found


def _settings(key: str, value: Any, where: str) -> list[tuple[str, Any]]:
    section = ALIASES.get(key, key)
    if section not in SECTIONS:
        return [(key, value)]
    if not isinstance(value, Mapping):
        if section == "experiment":
            return [("exp_name", value)]
        return [("env" if section == "env" else "algo", value)]
    found: list[tuple[str, Any]] = []
    for name, inner in value.items():
        ours = _name(section, str(name), where)
        if ours:
            found.append((ours, inner))
        elif isinstance(inner, Mapping):
            found += [(str(k).replace("-", "_"), x) for k, x in inner.items()]
        else:
            raise UserError(
                f"{where}: {section} has {name}: {inner!r}, but that must hold "
                "settings, as in {gamma: 0.98}"
            )
    return found


def _name(section: str, name: str, where: str) -> str:
    """Ours; empty for a mapping of settings."""
    known = SECTIONS[section]
    if name in known:
        return known[name]
    if section == "experiment":
        return name.replace("-", "_")
    hint = suggestion(name, known) or f"; it has {', '.join(known)}"
    raise UserError(f"{where}: {section} has no {name!r}{hint}")


def flat_name(dotted: str) -> str:
    """The name of ours for one with dots; a part of env_kwargs as `env_kwargs:part`."""
    section, *rest = dotted.replace("-", "_").split(".")
    section = ALIASES.get(section, section)
    if not rest or section not in SECTIONS:
        return dotted.replace("-", "_")
    if rest[0] == "params" and len(rest) == 2:
        return rest[1]
    name = _name(section, rest[0], dotted)
    return ":".join([name, *rest[1:]])
