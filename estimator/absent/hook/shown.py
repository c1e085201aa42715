"""Whether a line of source only shows what it reads.

It does where its statement is a call that prints or logs, or makes a text and gives it a name, and
all that is called within it makes numbers and text of values: `print(f"{loss.item():.3f}")`, not
`print(train(loss.item()))`, nor `total += loss.item()`, which may decide later."""

import ast
import functools
import linecache

# What a program shows values by: the name of a function or method.
SHOWS = {"print", "pprint", "echo", "log", "log_dict", "log_metrics", "debug", "info", "warning",
         "warn", "error", "write", "add_scalar", "add_scalars", "set_postfix", "set_postfix_str",
         "set_description", "set_description_str", "track"}
# What makes numbers or text of values.
FORMATS = {"item", "tolist", "cpu", "numpy", "detach", "float", "int", "bool", "round", "abs", "str",
           "repr", "format", "join", "sum", "mean", "max", "min", "exp", "sqrt", "log", "log10", "pow",
           "norm", "len", "keys", "values", "items", "dict", "list", "tuple", "zip", "time",
           "perf_counter", "strftime", "get_last_lr", "state_dict", "ljust", "rjust", "any", "all",
           "getLogger"}
PLAIN = (ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.JoinedStr, ast.FormattedValue,
         ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Subscript, ast.Slice, ast.Dict,
         ast.List, ast.Tuple, ast.keyword, ast.Starred, ast.expr_context, ast.GeneratorExp,
         ast.ListComp, ast.DictComp, ast.comprehension, ast.Compare, ast.cmpop)

trees = {}  # by file


@functools.cache  # a tensor that is printed asks for each of its values
def only_shows(file, line):
    statements = [node for node in ast.walk(tree_of(file)) if has_line(node, line)]
    return bool(statements) and all(map(is_shown_by, statements))


def has_line(node, line):
    """A statement, without those that are in it; but `if x: print(x)` has its line as well."""
    if not isinstance(node, ast.stmt) or not node.lineno <= line <= node.end_lineno:
        return False
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return True
    begin = getattr(body[0], "lineno", 0) or body[0].pattern.lineno
    return line < begin or line == begin == last_line_of_head(node)


def last_line_of_head(node):
    heads = [child.end_lineno for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return max(heads, default=node.lineno)


def is_shown_by(statement):
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call):
        is_shown = name_of(value.func) in SHOWS and not is_of_self(value.func)
        parts = [value.func, *value.args, *(k.value for k in value.keywords)]
        return is_shown and all(map(only_formats, parts))
    is_named = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return))
    return is_named and isinstance(value, ast.JoinedStr) and only_formats(value)


def only_formats(value):
    return all(isinstance(node, PLAIN) and is_format(node) for node in ast.walk(value))


def is_format(node):
    if isinstance(node, ast.Subscript):  # of a place that no call chooses
        return not any(isinstance(part, ast.Call) for part in ast.walk(node.slice))
    return not isinstance(node, ast.Call) or name_of(node.func) in FORMATS


def name_of(func):
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def is_of_self(func):
    """Lightning's self.log() keeps what its callbacks stop by."""
    return isinstance(func, ast.Attribute) and getattr(func.value, "id", "") == "self"


def tree_of(file):
    if file not in trees:
        try:
            trees[file] = ast.parse("".join(linecache.getlines(file)))
        except (SyntaxError, ValueError, RecursionError):  # a notebook's cell has magic
            trees[file] = ast.Module([], [])
    return trees[file]
