"""python_pages - the reference of the Python package, from its docstrings.

The package is read, not imported, so that the site needs no build of it.
"""

import ast
import pathlib

PACKAGE = "tools/python/lockstep"
# Page, title, module, what it begins with.
PAGES = (
    ("store", "Stores", "_store.py"),
    ("backup", "Backups", "_backup.py"),
    ("transaction", "Transactions", "_transaction.py"),
    ("context", "Transactions as blocks", "_context.py"),
    ("aio", "Transactions of asyncio", "_aio.py"),
    ("scan", "Scans and cursors", "_scan.py"),
    ("batch", "Batches", "_batch.py"),
    ("report", "Reports", "_report.py"),
    ("changes", "The change feed", "_changes.py"),
    ("keys", "Keys", "_keys.py"),
    ("options", "Options", "_options.py"),
    ("values", "Objects and plain values", "_objects.py"),
    ("errors", "Exceptions", "_errors.py"),
)
# What public classes inherit.
PARTS = {"Changing", "Kept", "Reporting"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def pages(root: pathlib.Path) -> dict[str, str]:
    """The pages by name. Every public name of the package is on one of them."""
    public = public_names(root) | PARTS
    made = {}
    rows = ["# Python", "", "| page | names |", "|---|---|"]
    for name, title, module in PAGES:
        tree = ast.parse((root / PACKAGE / module).read_text())
        found = [node for node in tree.body if name_of(node) in public]
        text = [f"# {title}", ast.get_docstring(tree) or ""]
        for node in found:
            text += [f"## {name_of(node)}", *described(node)]
        made[f"reference/python/{name}.md"] = "\n\n".join(text) + "\n"
        names = ", ".join(f"`{name_of(node)}`" for node in found)
        rows.append(f"| [{title}]({name}.md) | {names} |")
        public -= {name_of(node) for node in found}
    if public - {"GID_BYTES_MAX", "KEY_BYTES_MAX", "VALUE_BYTES_MAX"}:
        raise SystemExit(f"docs: no page has these names of the Python package: {sorted(public)}")
    return {"reference/python/index.md": "\n".join(rows) + "\n", **made}


def public_names(root: pathlib.Path) -> set[str]:
    tree = ast.parse((root / PACKAGE / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and name_of(node) == "__all__":
            return set(ast.literal_eval(node.value))
    raise SystemExit("docs: the Python package has no __all__")


def name_of(node: ast.stmt) -> str:
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name
    if isinstance(node, ast.AnnAssign):
        return ast.unparse(node.target)
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""


def described(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef):
        fields = [ast.unparse(n) for n in node.body if isinstance(n, ast.AnnAssign)]
        head = f"class {node.name}({', '.join(ast.unparse(base) for base in node.bases)})"
        code = "\n".join([head, *(f"    {field}" for field in fields)])
        parts = [block(code), ast.get_docstring(node) or ""]
        for member in node.body:
            if isinstance(member, Function) and not member.name.startswith("_"):
                parts += [f"### {node.name}.{member.name}", *described(member)]
        return parts
    if isinstance(node, Function):
        return [block(signature(node)), ast.get_docstring(node) or ""]
    return [block(ast.unparse(node))]


def signature(node: Function) -> str:
    """The head of a function, an argument a line if it is long."""
    prefix = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    arguments = ast.unparse(node.args)
    line = f"{prefix} {node.name}({arguments}){result}"
    if len(line) <= 80:
        return line
    return "\n".join([f"{prefix} {node.name}(", *split(arguments), f"){result}"])


def split(arguments: str) -> list[str]:
    """One line for each argument; commas within brackets do not count."""
    lines, depth = [""], 0
    for c in arguments:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            lines.append("")
        else:
            lines[-1] += c
    return [f"    {line.strip()}," for line in lines]


def block(code: str) -> str:
    return f"```python\n{code}\n```"
