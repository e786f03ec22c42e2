"""The hooks of mkdocs.yml: navigation, Markdown, links, llms.txt. MkDocs calls them by name with keyword arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from tools.docs_site.github_markdown import adapt_markdown
from tools.docs_site.llms import SitePage, page_list, page_texts, text_of_html
from tools.docs_site.navigation import complete_nav
from tools.docs_site.repository_links import PAGES, adapt_links
from tools.publication import read_publication

ROOT = Path(__file__).resolve().parents[2]
# Scripts that the theme loads from a CDN, for diagrams and browsers that this site does not have.
_UNUSED_SCRIPTS = ("https://unpkg.com/mermaid@11/dist/mermaid.min.js", "https://unpkg.com/resize-observer-polyfill")
_markdown: dict[str, str] = {}  # of each page, by its path
_pages: list[Any] = []  # in the order of the navigation


def on_config(config: Any) -> Any:
    """Expands the navigation, and sets the addresses of the project if it has any."""
    published = read_publication()
    config.site_url = published.documentation or None
    config.repo_url = published.repository or None
    docs = Path(config.docs_dir)
    pages = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    pages |= {page for file, page in PAGES.items() if (ROOT / file).exists()}
    config.nav = complete_nav(config.nav, pages, lambda page: (docs / page).read_text(encoding="utf-8"))
    return config


def on_files(files: Any, config: Any) -> Any:
    """Adds the pages whose source is outside docs/."""
    for file, page in PAGES.items():
        if (ROOT / file).exists():
            files.append(File.generated(config, page, abs_src_path=str(ROOT / file)))
    return files


def on_nav(nav: Any, **_: Any) -> Any:
    """Remembers the order of the pages."""
    _pages[:] = nav.pages
    return nav


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Makes a page that is written for GitHub work on the site."""
    text = adapt_links(markdown, page.file.src_uri, _address_of)
    _markdown[page.file.src_uri] = text
    return adapt_markdown(text)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Keeps the text of the API reference, which is made from docstrings, for llms-full.txt."""
    if page.file.src_uri.startswith("api/"):
        _markdown[page.file.src_uri] = f"# {page.title}\n\n{text_of_html(html)}"
    return html


def on_post_build(config: Any) -> None:
    """Writes llms.txt, and removes what would ask another host."""
    site = Path(config.site_dir)
    pages = [_site_page(page) for page in _pages]
    (site / "llms.txt").write_text(page_list(config.site_name, config.site_description, pages), encoding="utf-8")
    (site / "llms-full.txt").write_text(page_texts(pages), encoding="utf-8")
    for script in (site / "assets/javascripts").glob("bundle.*.js"):
        text = script.read_text(encoding="utf-8")
        for address in _UNUSED_SCRIPTS:
            text = text.replace(address, "")
        script.write_text(text, encoding="utf-8")


def _address_of(file: str) -> str:
    repository = read_publication().repository
    return f"{repository}/blob/main/{file}" if repository else ""


def _site_page(page: Any) -> SitePage:
    section = page.ancestors[-1].title if page.ancestors else ""
    source = page.file.src_uri
    return SitePage(section, page.title, source, page.url, _markdown[source])
