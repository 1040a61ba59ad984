//! Puts values into a JSON text and takes them out again, in the style that the text has.

use std::ops::Range;

use crate::json::Node;

/// How a text is laid out.
pub(super) struct Style {
    newline: &'static str,
    unit: String,
}

impl Style {
    /// From the text's line ends and from the indentation of its first member.
    pub(super) fn of(text: &str, root: &Node) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = root.children().first().and_then(|child| own_line_indent(text, child.start));
        let unit = first.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned();
        Self { newline, unit }
    }
}

/// Adds a child behind the last one of `container`, which is `depth` levels below the root. `child`: pretty JSON with an
/// indentation of two spaces, with its key in an object.
pub(super) fn append(text: &str, style: &Style, container: &Node, depth: usize, child: &str) -> String {
    let children = container.children();
    let last_indent = children.last().and_then(|last| own_line_indent(text, last.start));
    let indent = last_indent.map_or_else(|| style.unit.repeat(depth + 1), str::to_owned);
    let laid_out = lay_out(child, style, &indent);
    let newline = style.newline;
    match children.last() {
        Some(last) => splice(text, last.end..last.end, &format!(",{newline}{indent}{laid_out}")),
        None => {
            let inner = container.span.start + 1..container.span.end - 1;
            let outer = style.unit.repeat(depth);
            splice(text, inner, &format!("{newline}{indent}{laid_out}{newline}{outer}"))
        }
    }
}

/// Takes the child at `index` out: what [`append`] put there, and nothing else.
pub(super) fn remove(text: &str, container: &Node, index: usize) -> String {
    let children = container.children();
    let out = match (index.checked_sub(1), children.get(index), children.get(index + 1)) {
        (Some(before), Some(this), _) => children[before].end..this.end,
        (None, Some(this), Some(next)) => this.start..next.start,
        (None, Some(_), None) => container.span.start + 1..container.span.end - 1,
        (_, None, _) => return text.to_owned(),
    };
    splice(text, out, "")
}

fn splice(text: &str, range: Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &text[..range.start], &text[range.end..])
}

/// White space between the line's start and `at`; `None` when something else is in between.
fn own_line_indent(text: &str, at: usize) -> Option<&str> {
    let before = &text[..at];
    let line = &before[before.rfind('\n')? + 1..];
    line.bytes().all(|byte| byte == b' ' || byte == b'\t').then_some(line)
}

/// Turns an indentation of two spaces into the text's own, starting at `indent`.
fn lay_out(json: &str, style: &Style, indent: &str) -> String {
    let mut lines = json.lines();
    let mut out = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let rest = line.trim_start_matches(' ');
        out.push_str(style.newline);
        out.push_str(indent);
        out.push_str(&style.unit.repeat((line.len() - rest.len()) / 2));
        out.push_str(rest);
    }
    out
}
