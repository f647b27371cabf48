"""Checks built pages: every local link leads somewhere, nothing loads from the network.

python docs/check_links.py docs/_build/html
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if given.get(LOADED.get(tag, "")):
            self.loaded.append(given[LOADED[tag]])


def main(root: Path) -> int:
    files = sorted(root.rglob("*.html"))
    pages = {file.resolve(): Page(file.read_text()) for file in files}
    faults = [
        f"{file.relative_to(root.resolve())}: {fault}"
        for file, page in pages.items()
        for fault in found(file, page, pages)
    ]
    print("\n".join(faults) or f"{len(pages)} pages, every local link leads somewhere")
    return 1 if faults or not pages else 0


def found(file: Path, page: Page, pages: dict[Path, Page]) -> list[str]:
    """What is wrong with a page."""
    faults = [
        f"loads {url} from the network"
        for url in page.loaded
        if urlsplit(url).scheme in ("http", "https") or url.startswith("//")
    ]
    for url in (*page.links, *page.loaded):
        parts = urlsplit(url)
        if parts.scheme or parts.netloc:
            continue
        target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
        anchor = unquote(parts.fragment)
        if not target.is_file():
            faults.append(f"{url} does not exist")
        elif anchor and target in pages and anchor not in pages[target].anchors:
            faults.append(f"{url} has no such anchor")
    return faults


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
