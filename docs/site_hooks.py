# SPDX-License-Identifier: MIT
"""What MkDocs is told besides mkdocs.yml: pages that live elsewhere in the repository, their links, and formulas.

Every text has one copy, in the place where a reader of the repository looks for it. Links in it are those of the repository; on
the site they lead to the page, or to the file, which is then carried along.
"""

import dataclasses
import os
import pathlib
import posixpath
import re
from typing import Any

import latex2mathml.converter
import nbclient
import nbconvert
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from weft.options import Options, written_options

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Where pages that are not below docs/ stand on the site.
CARRIED = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "experiments/README.md": "experiments/index.md",
    "experiments/benchmark/README.md": "experiments/benchmark.md",
    "experiments/emission/README.md": "experiments/emission.md",
    "experiments/ghcn/README.md": "experiments/ghcn.md",
    "experiments/ghcn/pacific_northwest/README.md": "experiments/pacific_northwest.md",
    "experiments/apartments/README.md": "experiments/apartments.md",
    "examples/italy_covid.md": "examples/italy_covid.md",
    "examples/pm10_exceedance.md": "examples/pm10_exceedance.md",
    "src/weft/demo_data/README.md": "bundled-data.md",
}
SOURCE_OF = {page: source for source, page in CARRIED.items()}
OPTIONS = "<!-- the estimator's options -->"
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)(#[^)]*)?(\))")
PICTURE = re.compile(r'<p>(<img alt="([^"]+)" src="[^"]+" ?/?>)</p>')
PRIME = re.compile(r"<msup>(<mi>\w+</mi>)<mi>&#x02032;</mi></msup>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        for name, content in run_notebook(ROOT / "docs" / notebook.src_uri).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    for source, page in CARRIED.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    for page in [file for file in files if file.is_documentation_page() and (ROOT / _source(file.src_uri)).exists()]:
        source = _source(page.src_uri)
        for link in LINK.finditer((ROOT / source).read_text(encoding="utf-8")):
            target = _target(source, link[2])
            if _is_elsewhere(target) and files.get_file_from_path(target) is None:
                files.append(File.generated(config, target, abs_src_path=str(ROOT / target)))
    return files


def run_notebook(path: pathlib.Path) -> dict[str, str | bytes]:
    """A notebook, run from its beginning, as a page and its pictures; what a cell raises ends the build.

    Tests, which run the cells themselves, have it shown as it is (WEFT_RUN_NOTEBOOKS=no).
    """
    notebook = nbformat.read(path, as_version=4)
    # A kernel that warns of listening on this machine would look like a fault of the page.
    quiet = ["--IPKernelApp.log_level=ERROR"]
    if os.environ.get("WEFT_RUN_NOTEBOOKS") != "no":
        nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", extra_arguments=quiet).execute()
        for cell in [cell for cell in notebook.cells if cell.cell_type == "code"]:
            # Said once on every machine, and of no interest to whoever reads the page.
            cell.outputs = [made for made in cell.outputs if not made.get("text", "").startswith("weft: compiling")]
    names = {"unique_key": path.stem, "output_files_dir": path.stem}
    text, made = nbconvert.MarkdownExporter().from_notebook_node(notebook, resources=names)
    offer = f"*A notebook: [download {path.name}]({path.name}).*\n\n"
    # Exporters call every picture "png", which would stand below it.
    title, _, rest = text.replace("![png](", "![What the cell above draws](").partition("\n\n")
    return {f"{path.stem}.md": f"{title}\n\n{offer}{rest}", **made["outputs"]}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = markdown.replace(OPTIONS, "\n".join(_options()))
    own, source = page.file.src_uri, _source(page.file.src_uri)

    def on_the_site(link: re.Match[str]) -> str:
        target = _target(source, link[2])
        if not (ROOT / target).exists():
            # What is made by the build, or wrong: MkDocs knows which.
            return link[0]
        there = CARRIED.get(target, target.removeprefix("docs/"))
        return f"{link[1]}{posixpath.relpath(there, posixpath.dirname(own) or '.')}{link[3] or ''}{link[4]}"

    return LINK.sub(on_the_site, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Formulas as MathML, which browsers draw without a script; pictures with what they show written below."""

    def as_mathml(found: re.Match[str]) -> str:
        display = "inline" if found[2] == "(" else "block"
        text = found[3].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">")
        # A prime is raised as it is: as an exponent it would be a speck.
        return PRIME.sub(
            r"\1<mo lspace='0' rspace='0'>&#x02032;</mo>", latex2mathml.converter.convert(text, display=display)
        )

    return PICTURE.sub(r"<figure>\1<figcaption>\2</figcaption></figure>", FORMULA.sub(as_mathml, html))


def _options() -> list[str]:
    """The estimator's arguments, as they are declared."""
    written = written_options()
    defaults = {field.name: field.default for field in dataclasses.fields(Options)}
    lines = ["| argument | default | |", "|---|---|---|"]
    for name, option in written.items():
        default = "" if defaults[name] is dataclasses.MISSING else f"`{defaults[name]!r}`"
        lines.append(f"| `{name}` | {default} | {option.help} |")
    return lines


def _source(page: str) -> str:
    """The file in the repository that a page of the site is written in."""
    return SOURCE_OF.get(page, f"docs/{page}")


def _target(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _is_elsewhere(target: str) -> bool:
    """Whether it is a file of the repository that the site has no page or copy of yet."""
    return not target.startswith(("docs/", "..")) and target not in CARRIED and os.path.isfile(ROOT / target)
