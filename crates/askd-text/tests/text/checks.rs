//! One check for each parser, true for every text. Used by the property tests, by the replay of the corpora of the
//! fuzzers, and by the fuzzers themselves.

use askd_text::{
    Action, Layout, Reached, display, display_masked, fits, is_diff, mask, messages, safe, safe_lines,
    segments, summary, summary_masked,
};

use crate::oracle::{assert_framed, assert_inert, assert_safe, read_back};

/// What a shell may read as more than a part of a word.
const META: &str = " \t\n'\"`$;|&<>(){}[]*?!#\\^";

/// Marks can be read back, and nothing else is in safe text.
pub(crate) fn safe_text(text: &str) {
    let line = safe(text);
    assert_safe(&line.text);
    assert_eq!(line.marked, line.text != text);
    assert_eq!(read_back(&line.text), text);
    let lines = safe_lines(text);
    lines.lines.iter().for_each(|line| assert_safe(line));
    let joined = lines.lines.join("\n");
    assert_eq!(lines.marked, joined != text);
    assert_eq!(read_back(&joined), text);
}

/// An input of any tool is shown inert and in full, in every form.
pub(crate) fn action(tool: &str, input: &str) {
    let action = Action { tool, input: Some(input), cwd: Some(input), ..Action::default() };
    let fields = display(&action);
    for field in fields.iter().chain(&display_masked(&action)) {
        assert!(field.complete && !field.lines.is_empty());
        assert_framed(&field.label);
        field.lines.iter().for_each(|line| assert_framed(line));
    }
    for line in [summary(&action, 60), summary_masked(&action, 60)] {
        assert_inert(&line);
    }
    let layout = Layout::new(&fields, 40);
    let mut reached = Reached::default();
    for page in layout.pages(10) {
        assert!(!reached.is_complete(&layout) && page.rows.len() <= 10);
        reached.saw(&page.rows);
    }
    assert!(reached.is_complete(&layout));
    if fits(&fields, 2000) {
        assert_eq!(messages(&fields, 2000).len(), 1);
    }
}

/// A mask covers only what tokens are made of, says how much, changes nothing else, and leaves nothing to mask.
pub(crate) fn masks(text: &str) {
    let lines = safe_lines(text).lines.join("\n");
    let masked = mask(&lines);
    assert_eq!(mask(&masked.text).text, masked.text);
    let mut rest = lines.as_str();
    let mut pieces: Vec<&str> = masked.text.split(" masked}").collect();
    let last = pieces.pop().unwrap();
    let mut count = 0;
    for piece in pieces {
        // A text may say "masked}" itself.
        let mark =
            piece.rsplit_once("\\u{").and_then(|(before, len)| Some((before, len.parse::<usize>().ok()?)));
        let Some((before, len)) = mark else {
            rest = rest.strip_prefix(piece).unwrap().strip_prefix(" masked}").unwrap();
            continue;
        };
        rest = rest.strip_prefix(before).unwrap();
        let (covered, after) = rest.split_at(len);
        assert!(covered.is_ascii() && !covered.contains(|c| META.contains(c)), "{covered:?} is covered");
        rest = after;
        count += 1;
    }
    assert_eq!(rest, last);
    assert_eq!(count, masked.count);
}

/// Segments are pieces of the command in their order, and between them is nothing but blanks and their operators.
pub(crate) fn shell(command: &str) {
    let Ok(segments) = segments(command) else { return };
    assert!(!segments.is_empty());
    let mut at = 0;
    let mut pending = String::new();
    for segment in &segments {
        let start = segment.text.as_ptr().addr() - command.as_ptr().addr();
        assert!(!segment.text.trim_matches([' ', '\t', '\n']).is_empty());
        // An operator may stand before a comment and join what is behind it.
        if segment.text.starts_with('#') {
            let gap = command[at..start].replace("\\\n", "");
            pending.extend(gap.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n')));
        } else if pending.is_empty() {
            check_gap(&command[at..start], segment.operator);
        } else {
            assert_eq!(std::mem::take(&mut pending), segment.operator);
        }
        at = start + segment.text.len();
    }
    let rest: String = command[at..].replace("\\\n", "").split([' ', '\t', '\n']).collect();
    assert!(matches!(&*(pending + &rest), "" | ";"), "{rest:?}");
}

fn check_gap(gap: &str, operator: &str) {
    let gap: String = gap.replace("\\\n", "").split([' ', '\t']).collect();
    if operator == "↵" {
        assert!(!gap.is_empty() && gap.bytes().all(|b| b == b'\n'), "{gap:?}");
    } else {
        // Line breaks beside another operator are blanks.
        assert_eq!(gap.replace('\n', ""), operator);
    }
}

/// Both texts of an edit can be read back from its diff.
pub(crate) fn edit(old: &str, new: &str) {
    let input = serde_json::json!({ "old_string": old, "new_string": new }).to_string();
    let fields = display(&Action { tool: "Edit", input: Some(&input), ..Action::default() });
    let field = fields.iter().find(|field| is_diff(&field.label)).unwrap();
    let (mut was, mut is) = (Vec::new(), Vec::new());
    for line in &field.lines {
        assert_framed(line);
        match line.split_at_checked(1) {
            Some(("-", line)) => was.push(read_back(line)),
            Some(("+", line)) => is.push(read_back(line)),
            kept => {
                let line = read_back(kept.map_or("", |(_, line)| line));
                was.push(line.clone());
                is.push(line);
            }
        }
    }
    if (old, new) != ("", "") {
        assert_eq!(was.join("\n"), old);
        assert_eq!(is.join("\n"), new);
    }
}

/// A tool, a line break, its input; also as texts of an edit and of a command.
pub(crate) fn any_action(text: &str) {
    let (tool, input) = text.split_once('\n').unwrap_or(("Bash", text));
    action(tool, input);
    action(
        tool,
        &serde_json::json!({ "command": input, "edits": [{ "oldText": tool, "newText": input }] })
            .to_string(),
    );
    edit(tool, input);
}
