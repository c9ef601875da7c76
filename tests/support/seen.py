"""A page as lines of text: every element with what it shows, so that two versions of a page can be compared."""

import base64
import html
import json
import re

import numpy as np
from google.protobuf.json_format import MessageToDict

from app.components.space_map.columns import published

# what no user sees, and what says where an element is
HIDDEN = {"id", "formId", "elementId", "deferredFileId", "flexContainer", "widthConfig", "heightConfig"}
HIDDEN |= {
    "acceptNewOptions",
    "url",
    "queryParamKey",
    "allowEmpty",
    "pageScriptHash",
    "ignoreRerun",
    "selectAll",
    "type",
    "required",
}
ROWS = 4  # of a table
OPTIONS = 12  # of a list
LONGEST = 1_500  # letters of a line
HELP = 30  # letters of a tooltip
TAG = re.compile(r"<[^>]*>|data:image/[^\"' )]*")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
NUMBER = re.compile(r"\d[\d,]*\.?\d*")


def seen(app, folder, *, sidebar=False):
    """Return the lines of a page opened with AppTest; `folder` holds its runs, and is not named in them."""
    places = ("sidebar", "main") if sidebar else ("main",)
    lines = [line for place in places for line in _walk(getattr(app.app, place))]
    return [DATE.sub("DATE", line.replace(str(folder), "RUNS"))[:LONGEST] for line in lines]


def _walk(node):
    content = _content(node)
    if content:
        yield f"{node.type} {json.dumps(content, ensure_ascii=False)}"
    for child in getattr(node, "children", {}).values():
        yield from _walk(child)


def _content(node):
    message = getattr(node, "proto", None)
    if message is None:
        return {}
    if node.type == "plotly_chart":
        return _figure(json.loads(message.spec))
    if node.type == "bidi_component":
        return _component(json.loads(message.json)) if message.json else {}
    shown = _shown(MessageToDict(message))
    if node.type == "multiselect":
        shown.pop("default", None)  # positions in the list of options
    return shown


def _shown(value):
    if isinstance(value, dict):
        parts = {name: _shown(part) for name, part in value.items() if name not in HIDDEN}
        if "help" in parts:
            parts["help"] = parts["help"][:HELP]
        if "options" in parts:
            parts["options"] = parts["options"][:OPTIONS]
        return {name: part for name, part in parts.items() if part not in ({}, [], "", None)}
    if isinstance(value, list):
        return [_shown(part) for part in value]
    return " ".join(html.unescape(TAG.sub(" ", value)).split()) if isinstance(value, str) else value


def _figure(figure):
    """Describe a figure: its height, the titles of its axes, and of every trace its name and the sums of its numbers."""
    layout = figure["layout"]
    titles = [layout.get(axis, {}).get("title", {}).get("text", "") for axis in ("xaxis", "yaxis")]
    traces = [
        [trace.get("name", ""), *(_sum(trace.get(axis)) for axis in ("x", "y", "z"))]
        for trace in figure["data"]
    ]
    return {"height": layout.get("height"), "axes": titles, "traces": traces}


def _sum(values):
    if isinstance(values, dict) and "bdata" in values:
        values = np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"])
    numbers = [
        value
        for value in (values if values is not None else ())
        if isinstance(value, int | float | np.number)
    ]
    return f"{round(float(np.nansum(numbers)), 3) + 0.0:.3f}" if numbers else len(values or ())


def _component(content):
    """Describe a table with its first rows; of another component, its short values and, of a map, its columns."""
    if "maps" in content:
        return _map(content)
    if "rows" not in content:
        return {name: value for name, value in content.items() if isinstance(value, int | bool)}
    rows = [[*(row["sample"] or {}).values(), *row["cells"], *row.get("bold", ())] for row in content["rows"]]
    columns = [column["label"] for column in content["columns"]]
    shown = {"columns": columns, "rows": rows[:ROWS], "addresses": content["addresses"][:1]}
    return _shown(shown | {name: value for name, value in content.items() if name not in shown})


def _map(content):
    """Describe a map: its values, its legend and, of every panel, the mean code of a color and the number of labels; of
    other columns, their sums."""
    whole = {name: value for name, value in content.items() if isinstance(value, int | bool | str)}
    codes = [np.frombuffer(published(panel["codes"]), np.uint8) for panel in content["maps"]]
    points = {name: content[name] for name in ("lit", "base") if content[name]}
    whole |= {name: int(np.frombuffer(published(key), np.uint32).sum()) for name, key in points.items()}
    labels = [[label["text"] for label in panel] for panel in content["labels"]]
    whole |= {
        "alt": content["alt"],
        "colors": [f"{of_panel.mean():.1f}" for of_panel in codes],
        "labels": labels,
    }
    arrows = content["arrows"] and len(published(content["arrows"]["column"]))
    whole |= {"legend": content["legend"], "areas": content["areas"], "arrows": arrows}
    return _shown(whole | {"near": content["near"], "lines": content["lines"][:ROWS]})


def differences(found, stored):
    """Yield every line that differs; decimals may differ by one unit of their last digit, as they do between machines."""
    if len(found) != len(stored):
        missing = [line for line in stored if line not in found]
        added = [line for line in found if line not in stored]
        yield f"{len(found)} lines, stored {len(stored)}; missing {missing[:5]}; added {added[:5]}"
        return
    for line, expected in zip(found, stored, strict=True):
        same_words = NUMBER.sub("0", line) == NUMBER.sub("0", expected)
        pairs = zip(NUMBER.findall(line), NUMBER.findall(expected), strict=False)
        if not same_words or not all(_equal(*pair) for pair in pairs):
            yield f"{line}\n  stored: {expected}"


def _equal(found, stored):
    if found == stored:
        return True
    digits = len(stored.partition(".")[2])
    values = [float(number.replace(",", "").rstrip(".")) for number in (found, stored)]
    return digits > 0 and abs(values[0] - values[1]) < 1.5 * 10**-digits
