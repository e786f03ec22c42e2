"""Writes what is in a release as CycloneDX JSON: penstock, and the packages of the lock files that are shipped with it.

Python packages come from requirements/*.lock, npm packages of the page and of the extension from package-lock.json. The
property `penstock:part` of a component says where it is used; one that only builds a package has the scope `excluded`.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, Property, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.publication import Publication

# The lock file, and the part of a release that it is installed for.
LOCKS = {"runtime": "serve", "standalone": "self-contained gateway", "image": "image"}
BUILD_LOCKS = {"serve": "build", "pyinstaller": "build"}
PAGE, EXTENSION = "inspector page", "extension"
_REQUIREMENT = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^ ;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BUNDLED = re.compile(r"^## (\S+) - (\S+) \(", re.MULTILINE)
_INDEX = "https://pypi.org/simple"


@dataclass
class Package:
    """A package of a lock file."""

    kind: str  # pypi or npm
    name: str
    version: str
    parts: set[str]
    shipped: bool
    hashes: tuple[tuple[HashAlgorithm, str], ...] = ()
    license: str = ""


def read_requirements(file: Path, part: str, *, shipped: bool) -> Iterator[Package]:
    """Returns the packages of a lock file of Python."""
    entries = file.read_text("utf-8").replace("\\\n", " ").splitlines()
    for entry in entries:
        found = _REQUIREMENT.match(entry)
        if found:
            hashes = tuple((HashAlgorithm.SHA_256, one) for one in sorted(_HASH.findall(entry)))
            yield Package("pypi", found[1].lower(), found[2], {part}, shipped, hashes)


def read_package_lock(file: Path, part: str, bundled: set[tuple[str, str]]) -> Iterator[Package]:
    """Returns the packages of a package-lock.json. `bundled`: those whose code is in the package."""
    for path, row in json.loads(file.read_text("utf-8"))["packages"].items():
        if not path or row.get("link"):
            continue
        name = row.get("name") or path.rpartition("node_modules/")[2]
        algorithm, _, digest = str(row.get("integrity", "")).partition("-")
        hashes: tuple[tuple[HashAlgorithm, str], ...] = ()
        if algorithm == "sha512":
            hashes = ((HashAlgorithm.SHA_512, base64.b64decode(digest).hex()),)
        shipped = (name, row["version"]) in bundled or not row.get("dev", False)
        yield Package("npm", name, row["version"], {part}, shipped, hashes, str(row.get("license", "")))


def list_packages(root: Path) -> list[Package]:
    """Returns all packages, each once, with all parts that it is used for."""
    licenses = (root / "src/penstock/_inspector/static/licenses.md").read_text("utf-8")
    bundled = {(name, version) for name, version in _BUNDLED.findall(licenses)}
    found: list[Package] = []
    for names, shipped in ((LOCKS, True), (BUILD_LOCKS, False)):
        for name, part in names.items():
            found += read_requirements(root / f"requirements/{name}.lock", part, shipped=shipped)
    found += read_package_lock(root / "web/package-lock.json", PAGE, bundled)
    found += read_package_lock(root / "vscode/package-lock.json", EXTENSION, set())
    merged: dict[tuple[str, str, str], Package] = {}
    for one in found:
        before = merged.setdefault((one.kind, one.name, one.version), one)
        before.parts |= one.parts
        before.shipped = before.shipped or one.shipped
    return list(merged.values())


def make_component(one: Package) -> Component:
    """Returns a package as CycloneDX describes it."""
    group, _, name = one.name.rpartition("/")
    purl = PackageURL(one.kind, group or None, name, one.version)
    made = Component(
        type=ComponentType.LIBRARY, name=name, group=group or None, version=one.version, purl=purl,
        bom_ref=purl.to_string(), scope=ComponentScope.REQUIRED if one.shipped else ComponentScope.EXCLUDED,
        properties=[Property(name="penstock:part", value=part) for part in sorted(one.parts)],
    )  # fmt: skip
    hashes = [HashType(alg=algorithm, content=digest) for algorithm, digest in one.hashes]
    if one.kind == "npm":
        made.hashes.update(hashes)
    elif hashes:  # one for each file of the package: for other platforms and Pythons
        address = XsUri(f"{_INDEX}/{one.name}/")
        files = ExternalReference(type=ExternalReferenceType.DISTRIBUTION, url=address, hashes=hashes)
        made.external_references.add(files)
    if one.license:
        made.licenses.add(LicenseFactory().make_from_string(one.license))
    return made


def make_sbom(root: Path, version: str, epoch: int, publication: Publication) -> str:
    """Returns the document. The same tree gives the same bytes. Raises SystemExit if it does not fit the schema."""
    purl = PackageURL("pypi", None, "penstock", version)
    product = Component(
        type=ComponentType.APPLICATION, name="penstock", version=version, purl=purl, bom_ref=purl.to_string(),
        licenses=[LicenseFactory().make_from_string("Apache-2.0")],
    )  # fmt: skip
    if publication.repository:
        address = XsUri(publication.repository)
        product.external_references.add(ExternalReference(type=ExternalReferenceType.VCS, url=address))
    packages = list_packages(root)
    components = [make_component(one) for one in packages]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([version, epoch, sorted(str(one.purl) for one in components)]))
    bom = Bom(components=components, serial_number=serial)
    bom.metadata.component = product
    bom.metadata.timestamp = dt.datetime.fromtimestamp(epoch, dt.UTC)
    shipped = [made for one, made in zip(packages, components, strict=True) if one.shipped]
    bom.register_dependency(product, shipped)  # the lock files do not say which package asks for which
    return check_sbom(JsonV1Dot6(bom).output_as_string(indent=2) + "\n")


def check_sbom(text: str) -> str:
    """Returns the document if it fits the schema of CycloneDX 1.6."""
    problem: Any = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if problem:
        raise SystemExit(f"the SBOM does not fit the schema of CycloneDX: {problem}")
    return text
