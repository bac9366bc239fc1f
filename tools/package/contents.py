"""contents - what a release contains of others: its SBOM (CycloneDX 1.5), and their licences."""

import json
import pathlib
import subprocess
import uuid

# Name, licence, and Debian package of each library that a wheel or the library archive has inside.
DEBIAN = (
    ("boost-context", "BSL-1.0", "libboost-context1.74-dev"),
    ("fmt", "MIT", "libfmt-dev"),
    ("liburing", "MIT", "liburing-dev"),
    ("lz4", "BSD-2-Clause", "liblz4-dev"),
    ("nlohmann-json", "MIT", "nlohmann-json3-dev"),
    ("xxhash", "BSD-2-Clause", "libxxhash-dev"),
    ("libstdc++", "GPL-3.0-or-later WITH GCC-exception-3.1", "libstdc++-12-dev"),
)
TBB = ("onetbb", "Apache-2.0", "libtbb-dev")  # built from the source of this package
PYTHON = (("nanobind", "BSD-3-Clause"),)


def debian_version(package: str) -> str:
    command = ["dpkg-query", "-W", "-f=${Version}", package]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def component(name: str, version: str, licence: str, purl: str) -> dict:
    choice = {"expression": licence} if " " in licence else {"license": {"id": licence}}
    described = {"type": "library", "bom-ref": purl, "name": name, "version": version}
    return {**described, "licenses": [choice], "purl": purl}


def components(python_versions: dict[str, str]) -> list[dict]:
    found = []
    for name, licence, package in (*DEBIAN, TBB):
        version = debian_version(package)
        purl = f"pkg:deb/debian/{package}@{version}?arch=amd64&distro=debian-12"
        found.append(component(name, version, licence, purl))
    for name, licence in PYTHON:
        version = python_versions[name]
        found.append(component(name, version, licence, f"pkg:pypi/{name}@{version}"))
    return found


def sbom(version: str, commit: str, time: str, python_versions: dict[str, str]) -> str:
    """The bill of materials as JSON. The same commit gives the same text on the same packages."""
    whole = component("lockstep", version, "Apache-2.0", f"pkg:generic/lockstep@{version}")
    whole["properties"] = [{"name": "lockstep:commit", "value": commit}]
    inside = components(python_versions)
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, commit)}",
        "version": 1,
        "metadata": {"timestamp": time, "component": whole},
        "components": inside,
        "dependencies": [
            {"ref": whole["bom-ref"], "dependsOn": [part["bom-ref"] for part in inside]}
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def notices(packages: pathlib.Path) -> str:
    """The licences of what is inside. PACKAGES is where the Python packages are installed."""
    texts = []
    for name, _, package in (*DEBIAN, TBB):
        found = pathlib.Path("/usr/share/doc", package, "copyright").read_text()
        texts.append(f"==== {name}\n\n{found}")
    for name, _ in PYTHON:
        (licence,) = packages.glob(f"{name}-*.dist-info/licenses/LICENSE")
        texts.append(f"==== {name}\n\n{licence.read_text()}")
    return "\n".join(texts)
