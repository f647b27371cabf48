"""The report: what it tells, that it is harmless, and that it works in a browser."""

import base64
import json
import math
import re
import signal
import struct

import browser
import numpy as np
import pytest
from fake_runs import log, write_run

from jaxrl.cli.main import main
from jaxrl.runs import status
from jaxrl.runs.status import Status
from jaxrl.show import packing, page, report


def curve_of(returns):
    steps = [1000 * (i + 1) for i in range(len(returns))]
    others = {"LossPi": [1.0 / (i + 1) for i in range(len(returns))]}
    others["Time"] = [60.0 * (i + 1) for i in range(len(returns))]
    return log(steps, returns, **others)


def sweep(root):
    """Eight runs: two learning rates, two widths, two seeds; one of them failed."""
    for i, (lr, width) in enumerate([(1e-4, 8), (1e-4, 64), (1e-3, 8), (1e-3, 64)]):
        for seed in (0, 1):
            returns = [100 * (i + 1) + seed + 10 * epoch for epoch in range(5)]
            settings = {"lr": lr, "hidden": [width, width], "gamma": 0.99}
            settings |= {"steps": 5000}
            name = f"v{i}"
            path = write_run(root, name, seed, curve_of(returns), **settings)
    failed = Status(state="failed", reason="LossPi is not a number")
    status.write(path / status.FILE, failed)
    return path


def page_data(*paths):
    return report.page_data(report.collect_runs(list(map(str, paths))), paths[0])


def unpacked(text):
    octets = base64.b64decode(text)
    parts = [octets[i : i + 3] + b"\0" for i in range(0, len(octets), 3)]
    return [struct.unpack(">f", part)[0] for part in parts]


def column(content, run, name):
    place = content["runs"][run]["curves"][content["columns"].index(name)]
    return unpacked(content["curves"][place])


# What it tells


def test_settings_that_differ_are_separated_from_those_in_common(tmp_path):
    sweep(tmp_path)
    content = page_data(tmp_path)
    assert content["differing"] == ["seed", "hidden", "lr"]
    assert content["common"]["gamma"] == 0.99
    assert content["runs"][0]["settings"] == {"seed": 0, "lr": 1e-4, "hidden": "8, 8"}


def test_a_setting_that_others_lack_differs_not():
    runs = [{"algo": "ppo", "lam": 0.9}, {"algo": "sac", "tau": 1}, {"algo": "sac"}]
    assert report.compare_settings(runs) == (["algo"], {"lam": 0.9, "tau": 1})


def test_curves_keep_four_digits_and_gaps():
    values = np.array([0.0, -1234.56, 1e-8, 3e8, np.nan, 1e300])
    first, second, third, fourth, gap, huge = unpacked(packing.pack(values))
    assert (first, huge) == (0, math.inf)
    assert math.isnan(gap)
    np.testing.assert_allclose([second, third, fourth], values[1:4], rtol=2e-5)


def test_long_curves_are_thinned_and_keep_their_ends_and_best_return(tmp_path):
    returns = np.sin(np.arange(5000)) + 5
    returns[1234] = 77
    write_run(tmp_path, "long", 0, curve_of(list(returns)))
    content = page_data(tmp_path)
    steps = column(content, 0, "TotalEnvInteracts")
    assert content["thinned"] == [packing.MAX_POINTS, 5000]
    assert len(steps) == packing.MAX_POINTS
    assert (steps[0], steps[-1]) == pytest.approx((1000, 5e6), rel=1e-4)
    assert content["runs"][0]["best"] == 77


def test_the_speed_is_that_of_the_whole_run(tmp_path):
    clocks = {"Time": [10, 20], "StepsPerSecond": [1, 99]}
    write_run(tmp_path, "ppo", 0, log([100, 200], [1, 2], **clocks))
    write_run(tmp_path, "ppo", 1, log([100, 200], [1, 2]))
    assert [run["speed"] for run in page_data(tmp_path)["runs"]] == [10, None]


def test_equal_curves_are_kept_once(tmp_path):
    sweep(tmp_path)
    content = page_data(tmp_path)
    places = {
        run["curves"][content["columns"].index("Time")] for run in content["runs"]
    }
    assert len(places) == 1
    assert column(content, 3, "Performance") == pytest.approx([201, 211, 221, 231, 241])


def test_failed_runs_are_listed_with_their_cause(tmp_path):
    sweep(tmp_path)
    cut = tmp_path / "v0" / "v0_s0"
    status.write(cut / status.FILE, Status.from_signal(signal.SIGTERM))
    killed = tmp_path / "v2" / "v2_s0"
    status.write(killed / status.FILE, Status(state="running"))
    starting = tmp_path / "v8" / "v8_s0"
    starting.parent.mkdir()
    starting.with_suffix(".yaml").write_text("algo: ppo")
    absent = tmp_path / "v9" / "v9_s0"
    absent.parent.mkdir()
    absent.with_suffix(".yaml").write_text("algo: ppo")
    failed = Status(state="failed", reason="there is no environment Nope-v0")
    status.write(status.outcome_file(absent), failed)
    causes = {
        run["name"]: (run["state"], run["cause"]) for run in page_data(tmp_path)["runs"]
    }
    assert causes["v3_s1"] == ("failed", "LossPi is not a number")
    assert causes["v0_s0"][0] == "interrupted"
    assert "SIGTERM" in causes["v0_s0"][1]
    assert causes["v9_s0"] == ("failed", "there is no environment Nope-v0")
    assert causes["v2_s0"][0] == "interrupted"
    assert "killed" in causes["v2_s0"][1]
    assert causes["v1_s0"] == ("interrupted", "")  # nothing is known of it
    assert "v8_s0" not in causes


def test_a_damaged_run_does_not_hide_the_others(tmp_path, capsys):
    path = sweep(tmp_path / "r")
    (path / "progress.csv").write_text("a,b\n1,2,3\n")
    output = tmp_path / "report.html"
    assert main(["report", str(tmp_path / "r"), "-o", str(output)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{output}: 8 runs\n"
    assert "progress.csv" in captured.err
    runs = page_data(tmp_path / "r")["runs"]
    (damaged,) = (run for run in runs if run["state"] == "damaged")
    assert damaged["name"] == "v3_s1"


def test_a_run_without_a_row_is_listed_beside_others(tmp_path):
    sweep(tmp_path)
    write_run(tmp_path, "young", 0, log([], []))
    (young,) = (run for run in page_data(tmp_path)["runs"] if run["name"] == "young_s0")
    assert (young["last"], set(young["curves"])) == (None, {-1})


@pytest.mark.parametrize("size", [1000, report.MAX_EMBEDDED])
def test_small_videos_are_in_the_page_and_large_ones_beside_it(tmp_path, size):
    path = write_run(tmp_path / "r", "a b", 0, curve_of([1, 2]))
    (path / "videos").mkdir()
    (path / "videos" / "50%.mp4").write_bytes(b"\0" * size)
    found = report.collect_runs([str(tmp_path / "r")])
    (video,) = report.page_data(found, tmp_path)["runs"][0]["videos"]
    linked = "r/a%20b/a%20b_s0/videos/50%25.mp4"
    begins = "data:video/mp4;base64,AAAA" if size < report.MAX_EMBEDDED else linked
    assert video["source"].startswith(begins)


def test_odd_values_in_a_config_are_words(tmp_path):
    odd = {"a": math.inf, "b": 10**400, "c": True, "d": {"e": [1]}, "f": "x" * 9999}
    write_run(tmp_path, "odd", 0, curve_of([1, 2]), steps="many", **odd)
    content = page_data(tmp_path)
    common = content["common"]
    assert (common["a"], common["c"], common["d:e"]) == ("inf", "True", "1")
    assert (len(common["b"]), len(common["f"])) == (report.MAX_TEXT, report.MAX_TEXT)
    assert page.render(content)  # and JSON takes it all


EVIL = "</script><script>window.caught = 1</script><img src=x onerror=caught=1>"


def evil_run(root):
    """Every name in a run that could be markup, as markup."""
    path = root / "evil" / "evil_s0"
    columns = curve_of([1, 2]) | {EVIL: [1, 2], "constructor": [3, 4]}
    settings = {EVIL: EVIL, "__proto__": EVIL, "lr": EVIL}
    write_run(root, "evil", 0, columns, env=EVIL, **settings)
    write_run(root, "evil", 1, columns, env="__proto__", **settings | {"lr": "<b>"})
    config = (path / "config.yaml").read_text()
    config = config.replace("exp_name: evil", f"exp_name: {json.dumps(EVIL)}")
    (path / "config.yaml").write_text(config)
    status.write(path / status.FILE, Status(state="failed", reason=EVIL))
    strange = path.with_name("<img src=x onerror=caught=1>")
    path.rename(strange)
    return strange


def test_names_from_runs_are_never_markup(tmp_path):
    evil_run(tmp_path / "<i>r&")
    text = page.render(page_data(tmp_path / "<i>r&"))
    inside = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert text.count("<script") == 2
    assert "<img" not in inside
    assert "<title>&lt;i&gt;r&amp;</title>" in text
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)  # no network


# Mistakes


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "PATH"),
        (["nowhere"], "nowhere"),
        (["empty"], "empty"),
        (["young"], "progress.csv"),
        (["broken"], "YAML"),
        (["good", "-o", "a.pdf"], ".html"),
        (["good", "-o", "no/a.html"], "no "),
        (["good", "--ouput", "a.html"], "'--output'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_end_in_a_sentence_and_leave_nothing(
    words, part, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "good", "ppo", 0, curve_of([1, 2]))
    write_run(tmp_path / "young", "ppo", 0, log([], []))
    broken = write_run(tmp_path / "broken", "ppo", 0, curve_of([1, 2]))
    (broken / "config.yaml").write_text("{")
    (tmp_path / "empty").mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert main(["report", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("jaxrl: ")
    assert part in error
    assert len(error.splitlines()) <= 2
    assert sorted(tmp_path.rglob("*")) == before


# In a browser


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    if browser.executable() is None:
        pytest.skip("there is no Chromium here (apt install chromium)")
    started = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


@pytest.fixture
def opened(chromium, tmp_path):
    """The page of a sweep, wide enough for a laptop."""

    def opened(make=sweep, **size):
        make(tmp_path / "runs")
        output = tmp_path / "report.html"
        assert main(["report", str(tmp_path / "runs"), "-o", str(output)]) == 0
        chromium.open(output, **size)
        return chromium

    return opened


NAMES_SHOWN = """[...document.querySelectorAll("#table tbody tr")]
    .filter((row) => !row.hidden).map((row) => row.cells[0].textContent)"""
# How many different colours a canvas shows.
COLOURS_DRAWN = """(() => {
    const canvas = document.querySelector("canvas");
    const size = [canvas.width, canvas.height];
    const {data} = canvas.getContext("2d").getImageData(0, 0, ...size);
    return new Set(new Uint32Array(data.buffer)).size;
})()"""


def test_the_page_loads_and_draws_without_complaints(opened):
    page = opened()
    assert page.complaints == []
    assert page.run("document.title") == "runs"
    assert page.run(COLOURS_DRAWN) > 20
    assert len(page.run(NAMES_SHOWN)) == 8
    assert page.run("document.querySelectorAll('.spark polyline').length") == 8
    assert page.run("document.querySelectorAll('#axes polyline').length") == 8
    assert "LossPi is not a number" in page.run("byId('causes').innerText")
    assert page.run("charts[0].lines.length") == 4  # seeds are averaged


def test_the_table_sorts_by_a_click(opened):
    page = opened()
    page.click("th[data-key=last] button")
    assert page.run(NAMES_SHOWN)[:2] == ["v3_s1", "v3_s0"]
    page.click("th[data-key=last] button")
    assert page.run(NAMES_SHOWN)[:2] == ["v0_s0", "v0_s1"]
    page.click("th[data-key=hidden] button")  # 8, 8 before 64, 64
    assert {name[:2] for name in page.run(NAMES_SHOWN)[:4]} == {"v0", "v2"}
    sorted_by = "document.querySelector('th[data-key=hidden]').ariaSort"
    assert page.run(sorted_by) == "ascending"


@pytest.mark.parametrize(
    ("words", "due"),
    [
        ("v2", ["v2_s0", "v2_s1"]),
        ("lr=1e-3 seed=1", ["v2_s1", "v3_s1"]),
        ("last>400", ["v3_s0", "v3_s1"]),
        ('last>"400"', ["v3_s0", "v3_s1"]),
        ("hidden=8,8 last<200", ["v0_s0", "v0_s1"]),
        ("state=failed", ["v3_s1"]),
        ("not a number", ["v3_s1"]),  # in its cause
        ('group="v1" seed!=1', ["v1_s0"]),
        ("zzz", []),
        ("v2 last<", ["v2_s0", "v2_s1"]),  # the number is still to come
        ("v2 last>-", ["v2_s0", "v2_s1"]),
        ("v2 seed=", ["v2_s0", "v2_s1"]),
        ('v2 seed=""', []),
    ],
)
def test_the_filter_keeps_what_it_says(opened, words, due):
    page = opened()
    page.click("#filter")
    page.type(words)
    assert page.run(NAMES_SHOWN) == due
    shown = page.run("charts.flatMap((c) => c.lines).flatMap((l) => l.runs).length")
    assert shown == len(due)
    assert page.complaints == []


def test_a_filter_by_what_no_run_has_says_so(opened):
    page = opened()
    page.click("#filter")
    page.type("last>0 gama<1")
    assert page.run("byId('shown').textContent") == "0 of 8 runs: none has gama"


def drag(page, start, end):
    page.mouse("mouseMoved", *start)
    page.mouse("mousePressed", *start)
    page.mouse("mouseMoved", *end)
    page.mouse("mouseReleased", *end)


def test_curves_are_read_by_hovering_and_zoomed_by_dragging(opened):
    page = opened()
    choose(page, "together", "run")
    assert page.run("charts[0].lines.length") == 8
    x, y = page.centre("canvas")
    spot = """(() => {
        const [line] = charts[0].lines.filter((one) => one.label === "v3_s0");
        const box = charts[0].canvas.getBoundingClientRect();
        const {scale} = charts[0];
        return [box.x + scale.x(line.xs[2]), box.y + scale.y(line.ys[2])];
    })()"""
    page.mouse("mouseMoved", *page.run(spot))
    tip = page.run("document.querySelector('.tip').innerText")
    assert "v3_s" in tip
    assert "environment steps: 3k" in tip
    drag(page, (x - 100, y), (x + 100, y))
    low, high = page.run("charts[0].box.x")
    assert 1000 < low < 3000 < high < 5000
    page.click(".reset")
    assert page.run("charts[0].box.x") == pytest.approx([1000, 5000], rel=1e-4)
    axes = "[...byId('choose-x').options].map((option) => option.value)"
    assert page.run(axes) == ["TotalEnvInteracts", "Time"]  # though the return grows
    for key, value in (("y", "LossPi"), ("x", "Time")):
        choose(page, key, value)
    assert page.run("charts[0].box.x") == pytest.approx([60, 300], rel=1e-4)
    assert page.complaints == []


def choose(page, key, value):
    page.run(f"byId('choose-{key}').value = '{value}'")
    page.run(f"byId('choose-{key}').dispatchEvent(new Event('change'))")


def slow_and_quick(root):
    """Two seeds, one of which was done before the other's first epoch."""
    write_run(root, "ppo", 0, log([10, 20], [1, 2], Time=[1, 2]))
    write_run(root, "ppo", 1, log([10, 20], [1, 2], Time=[30, 60]))


def test_seeds_without_a_time_in_common_are_drawn_singly(opened):
    page = opened(slow_and_quick)
    labels = "charts[0].lines.map((line) => line.label)"
    assert page.run(labels) == ["ppo"]
    choose(page, "x", "Time")
    assert page.run(labels) == ["ppo_s0", "ppo_s1"]
    assert page.run("charts[0].lines[1].xs") == [30, 60]
    assert page.complaints == []


def test_an_axis_of_settings_is_brushed(opened):
    page = opened()
    x, y = page.centre("#axes g.axis:last-child .grip")
    drag(page, (x, y - 150), (x, y - 60))
    assert page.run(NAMES_SHOWN) == ["v3_s0", "v3_s1"]
    page.click("#axes g.axis:last-child .grip")
    assert len(page.run(NAMES_SHOWN)) == 8


SETTINGS_HEADS = """[...document.querySelectorAll("#differing th[scope=col]")]
    .map((head) => head.textContent)"""


@pytest.mark.parametrize("envs", [["A-v1", "A-v1"], ["A-v1", "B-v1"]])
def test_returns_are_averaged_only_within_one_environment(opened, envs):
    def runs(root):
        for seed, env in enumerate(envs):
            write_run(root, "ppo", seed, curve_of([1, 2]), env=env)

    alike = len(set(envs)) == 1
    due = ["setting", "value", "", *(["mean last return"] if alike else [])]
    page = opened(runs)
    assert page.run(SETTINGS_HEADS) == due
    cells = "document.querySelector('#differing tbody tr').cells.length"
    assert page.run(cells) == len(due)


def test_a_click_on_a_row_marks_it(opened):
    page = opened()
    page.click("#table tbody tr:nth-child(3) td")
    assert page.run("[...view.picked].map((run) => run.name)") == ["v1_s0"]
    assert page.run("document.querySelectorAll('tr.picked').length") == 1


def test_a_phone_scrolls_only_up_and_down(opened):
    page = opened(width=360, height=740)
    assert page.run("document.documentElement.scrollWidth") <= 360
    assert page.complaints == []


def test_names_from_runs_execute_nothing_in_the_browser(opened):
    page = opened(evil_run)
    assert page.complaints == []
    assert page.run("typeof caught") == "undefined"
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("({}).end") is None
    assert "<img src=x" in page.run("byId('table').textContent")


def test_one_run_and_runs_without_returns_are_shown(opened):
    page = opened(
        lambda root: write_run(
            root, "one", 0, {"Epoch": [0], "TotalEnvInteracts": [64], "Odd": [""]}
        )
    )
    assert page.complaints == []
    assert page.run(NAMES_SHOWN) == ["one_s0"]


def many(root):
    """Two hundred runs of 300 epochs with thirty columns of noise."""
    rng = np.random.default_rng(0)
    for i in range(200):
        columns = {f"Column{j}": rng.normal(size=300) for j in range(30)}
        steps = np.arange(1, 301) * 4000
        columns |= log(steps, rng.normal(size=300).cumsum())
        write_run(root, f"v{i // 2}", i % 2, columns, lr=float(rng.uniform()))


def test_two_hundred_runs_load_in_two_seconds_and_five_megabytes(opened, tmp_path):
    page, file = opened(many), tmp_path / "report.html"
    assert file.stat().st_size < 5_000_000
    milliseconds = []
    for _ in range(3):  # other tests may be at work beside this one
        page.open(file)
        loaded = "performance.getEntriesByType('navigation')[0].loadEventEnd"
        milliseconds.append(page.run(loaded))
    assert min(milliseconds) < 2000
    assert page.complaints == []
