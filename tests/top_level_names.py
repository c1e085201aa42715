"""The names that a C++ file declares outside of functions and classes, found without a compiler: of
its functions, types, constants and variables.  For files as clang-format leaves them.

Not seen: enumerators without a class, operators, members, what macros make, a type without a body.
"""

import re
from typing import NamedTuple, Optional


class Name(NamedTuple):
    text: str
    line: int
    scope: str = ""  # "onnxfit::shapes_test"; an anonymous namespace adds nothing
    is_private: bool = False  # in an anonymous namespace, or static
    alias: str = ""  # what it stands for, where it is another name of a type
    parameters: Optional[tuple] = None  # of a function: their types
    required: int = 0  # of them without default


# Comments and the preprocessor's lines; texts and characters (not the mark in 1'000).
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|^[ \t]*#(?:[^\n\\]|\\.)*|'
    r'(R"(\w*)\(.*?\)\2"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\')',
    re.DOTALL | re.MULTILINE)
MARK = re.compile(r"[{}();]")
NAMESPACE = re.compile(r"(?:^|\s)namespace\s*([\w:]*)$")
LINKAGE = re.compile(r'extern\s*""$')
NOTHING = re.compile(r"(?:extern|friend|namespace|static_assert|template\s*<>)")
ALIAS = re.compile(r"using\s+(\w+)\s*=\s*(.*)", re.DOTALL)
TYPE = re.compile(r"(?:struct|class|union|enum(?:\s+(?:class|struct))?)\s+(\w+)"
                  r"(?:\s+final)?\s*(?::(?!:).*)?$", re.DOTALL)
FUNCTION = re.compile(r"[\w>&*][\s&*]+(\w+)$")
VARIABLE = re.compile(r"[\w>&*][\s&*]+(\w+)\s*(?:\[[^\]]*\]\s*)*$")


def without_noise(text):
    def rest(found):
        return ('""' if found.group(1) else "") + "\n" * found.group().count("\n")
    return NOISE.sub(rest, text)


def without_angles(text):
    """`text` without what stands between < and >."""
    shorter = re.sub(r"<[^<>]*>", "", text)
    return shorter if shorter == text else without_angles(shorter)


def is_function(head):
    return "(" in without_angles(head).split("=")[0]


def statements(text):
    """(namespaces around it, where it begins, where its body or its end does, has it a body)."""
    spaces, parentheses, braces = [], 0, 0
    start = body = 0
    for mark in MARK.finditer(text):
        sign, at = mark.group(), mark.start()
        if braces:
            braces += (sign == "{") - (sign == "}")
            if braces == 0 and text[body - 1].isspace() and is_function(text[start:body]):
                yield spaces, start, body, True
                start = body = mark.end()
        elif sign in "()":
            parentheses += 1 if sign == "(" else -1
        elif parentheses:
            continue
        elif sign == "{":
            head = text[start:at].rstrip()
            opened = NAMESPACE.search(head) or LINKAGE.search(head)
            if opened:
                spaces.append(opened.group(1) if opened.re is NAMESPACE else "extern")
                start = body = at + 1
            else:
                is_first = body == start or is_function(text[start:body])  # or a_{n} was before it
                body = at if is_first else body
                braces = 1
        elif sign == "}":
            spaces.pop()
            start = body = at + 1
        else:
            yield spaces, start, at if body == start else body, body > start
            start = body = at + 1


def split_list(text):
    """`text` at its commas, but for those in brackets."""
    depth, parts = 0, [""]
    for sign in text:
        depth += (sign in "<([{") - (sign in ">)]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def parameter_type(text):
    """"int64_t" of "const int64_t& batch = 1"."""
    text = re.sub(r"\bconst\b|\[\[.*?\]\]", "", text.split("=")[0]).strip()
    named = re.fullmatch(r"(.*[\w>&*\s].*?[\s&*])\w+(?:\[\])?", text, re.DOTALL)
    return re.sub(r"[\s&]", "", named.group(1) if named else text)


def parameters_of(head):
    """(types, how many have no default) of "Name(…)" and what is behind it."""
    begin = head.index("(") + 1
    depth, end = 1, begin
    while depth > 0:
        depth += (head[end] == "(") - (head[end] == ")")
        end += 1
    listed = split_list(head[begin:end - 1])
    return tuple(map(parameter_type, listed)), sum("=" not in part for part in listed)


def declaration(head, has_body):
    """The Name of one statement, without its place; None where it declares none."""
    if NOTHING.match(head):
        return None
    if head.startswith("using"):
        found = ALIAS.match(head)
        return found and Name(found.group(1), 0, alias="".join(found.group(2).split()))
    plain = re.sub(r"\[\[.*?\]\]\s*|template\s+", "", without_angles(head))
    before = plain.split("=")[0]
    found = TYPE.match(before)
    if found or "operator" in before:
        return Name(found.group(1), 0) if found and has_body else None
    if "(" not in before:
        found = VARIABLE.search(before.rstrip())
        return found and Name(found.group(1), 0)
    found = FUNCTION.search(before[:before.index("(")])
    if not found:
        return None
    types, required = parameters_of(head[head.index(found.group(1) + "("):])
    return Name(found.group(1), 0, parameters=types, required=required)


def top_level_names(text):
    """All of a file, by place."""
    text = without_noise(text)
    names = []
    for spaces, start, end, has_body in statements(text):
        head = text[start:end].strip()
        name = declaration(head, has_body)
        if name:
            line = text.count("\n", 0, start + text[start:end].index(head)) + 1
            scope = "::".join(space for space in spaces if space not in ("", "extern"))
            is_private = "" in spaces or bool(re.match(r"(?:inline\s+)?static\b", head))
            names.append(name._replace(line=line, scope=scope, is_private=is_private))
    return names
