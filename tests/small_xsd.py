"""XML Schema, as far as tests/data/schemas/junit-10.xsd uses it: Python has none."""

import re
import xml.etree.ElementTree as ET

XS = "{http://www.w3.org/2001/XMLSchema}"


class Schema:
    """Complains about documents.  A construct that it does not know is a ValueError."""

    def __init__(self, text):
        root = ET.fromstring(text)
        self.elements = {e.get("name"): e for e in root.findall(XS + "element")}
        types = root.findall(XS + "complexType") + root.findall(XS + "simpleType")
        self.types = {e.get("name"): e for e in types}

    def element_type(self, declaration):
        inner = declaration.find(XS + "complexType")
        name = declaration.get("type", "xs:string")
        return inner if inner is not None else name if name == "xs:string" else self.types[name]

    def model(self, particle, children):
        """The children that may stand here, as a pattern over "name;name;"."""
        if particle.tag == XS + "element":
            name = particle.get("ref") or particle.get("name")
            children[name] = self.elements[name] if particle.get("ref") else particle
            pattern = re.escape(name) + ";"
        elif particle.tag in (XS + "sequence", XS + "choice"):
            joint = "" if particle.tag == XS + "sequence" else "|"
            pattern = joint.join(self.model(part, children) for part in particle)
        else:
            raise ValueError(f"unknown construct {particle.tag}")
        most = particle.get("maxOccurs", "1").replace("unbounded", "")
        return f"(?:{pattern}){{{particle.get('minOccurs', '1')},{most}}}"

    def value_violation(self, type_name, value):
        if type_name == "xs:string":
            return ""
        pattern = self.types[type_name].find(f"{XS}restriction/{XS}pattern").get("value")
        return "" if re.fullmatch(pattern, value) else f"'{value}' is no {type_name}"

    def attributes(self, node, declared):
        for name, value in node.attrib.items():
            if name not in declared:
                yield f"<{node.tag}> may not have '{name}'"
            elif wrong := self.value_violation(declared[name].get("type"), value):
                yield f"<{node.tag} {name}>: {wrong}"
        for name, attribute in declared.items():
            if attribute.get("use") == "required" and name not in node.attrib:
                yield f"<{node.tag}> has no '{name}'"

    def violations(self, node, declaration=None):
        declaration = self.elements.get(node.tag) if declaration is None else declaration
        if declaration is None:
            return [f"<{node.tag}> is not in the schema"]
        kind = self.element_type(declaration)
        if kind == "xs:string":
            return [f"<{node.tag}> is text alone"] if len(node) or node.attrib else []
        declared = {a.get("name"): a for a in kind.findall(XS + "attribute")}
        found = list(self.attributes(node, declared))
        children = {}
        parts = [p for p in kind if p.tag != XS + "attribute"]
        pattern = "".join(self.model(p, children) for p in parts)
        names = "".join(child.tag + ";" for child in node)
        if not re.fullmatch(pattern, names):
            found.append(f"<{node.tag}> may not hold {names}")
        texts = [node.text] + [child.tail for child in node]
        if kind.get("mixed") != "true" and any((t or "").strip() for t in texts):
            found.append(f"<{node.tag}> may not hold text")
        for child in node:
            if child.tag in children:
                found += self.violations(child, children[child.tag])
        return found
