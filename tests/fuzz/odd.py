"""Odd words, numbers, values and pieces of text to put where others belong."""

from typing import Any

# A few lines of YAML that stand for 10^12 values.
BOMB = "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}' if i else 'x'] * 10)}]\n" for i in range(12)
)
WORDS = ["", " ", "\t", "é", "日本", "\u202e", "🙂", "x" * 300, "~", "-", "--", "="]
WORDS += ["{}", "[", "{a: b", "!!python/name:os.system", "\\", "`ls`", "$(ls)", "%s"]
WORDS += ["'; ls", "None", "null", "true", "* *", "&a", "*a", "\x1b[31m", "\r", "a\nb"]
WORDS += ["⁹", "١"]
NUMBERS = ["nan", "inf", "-inf", "-1", "0", "1e400", "9" * 400, "0.5.5", "0x10", "1_0"]
NUMBERS += ["1e", "-0.0", "1e-400", "99999999999", "1e15", "2147483648", "1e308", "+7"]
NUMBERS += ["1" + "0" * 5000, "9223372036854775808", "true", "2001-01-01", "12:30:45"]
NUMBERS += [".5"]
VALUES: list[Any] = [None, -1, 0, 10**30, 10**400, 0.5, True, "", "é", "\0", "../../x"]
VALUES += [[], {}, [[]], {"a": {}}, float("nan"), float("inf"), "x" * 10_000, [None]]
VALUES += [
    "/",
    "..",
    {"": ""},
    ["a", 1, {"b": []}],
    "evil:CartPole-v1",
    2**63,
    -(2**31),
]
INSERTED = ["\0", "\ufeff", "!!python/object/apply:os.system ['touch x']\n", "\x85"]
INSERTED += ["!!binary x\n", "!!set {a, b}\n", "- ", "? [a, b]\n: 1\n", "<<: *a\n"]
INSERTED += ["---\n", "a: &a [x, *a]\n", BOMB, "[" * 3000, "{a: " * 2000, "\t", "null"]
INSERTED += ["%YAML 9.9\n", "...\n", "١٢٣", "Ω", "\u2028", "\x1b]0;x\x07"]
INSERTED += ["x: 1\nx: 2\n", "#" * 10**6]
