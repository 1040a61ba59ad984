//! One line about an action, cut where it must be, never silently.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::display::{Action, main_text};
use crate::safe::safe;

/// One safe line that says what would run, at most `columns` wide: `Bash: cargo test`. What does not fit is
/// counted, see [`cut`]. A summary can be cut, so it is for lists; what a person allows by is [`crate::display`].
pub fn summary(action: &Action<'_>, columns: usize) -> String {
    let tool = safe(action.tool).text;
    match main_text(action) {
        Some(main) => cut(&format!("{tool}: {}", safe(&main).text), columns),
        None => cut(&tool, columns),
    }
}

/// Cuts a line that is already safe to at most `columns` terminal columns, marks kept whole. `… (+N)` at the end
/// says how many characters of it are not shown; only that note may be wider than `columns`.
pub fn cut(safe: &str, columns: usize) -> String {
    cut_with(safe, 0, columns)
}

/// The same for the beginning of a text of which `more` characters are not here: those count too.
pub fn cut_with(safe: &str, more: usize, columns: usize) -> String {
    if more == 0 && safe.width() <= columns {
        return safe.to_owned();
    }
    let note = |hidden: usize| format!("… (+{hidden})");
    if more > 0 && safe.width() + note(more).width() <= columns {
        return format!("{safe}{}", note(more));
    }
    let room = columns.saturating_sub(note(safe.chars().count() + more).width());
    let (kept, hidden) = head(safe, room);
    format!("{kept}{}", note(hidden + more))
}

/// As much of the beginning as these columns hold, and how many characters follow.
pub fn head(safe: &str, columns: usize) -> (&str, usize) {
    let (mut bytes, mut used) = (0, 0);
    for unit in units(safe) {
        used += unit.width();
        if used > columns {
            break;
        }
        bytes += unit.len();
    }
    let (kept, hidden) = safe.split_at(bytes);
    (kept, hidden.chars().count())
}

/// The pieces a line may be cut between: a mark, or a character with what is drawn onto it.
pub(crate) fn units(safe: &str) -> impl Iterator<Item = &str> {
    let mut rest = safe;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let len = match rest.strip_prefix("\\u{").and_then(|mark| mark.find('}')) {
            Some(end) => "\\u{".len() + end + 1,
            None => first.len_utf8(),
        };
        let drawn_on: usize =
            rest[len..].chars().take_while(|c| c.width() == Some(0)).map(char::len_utf8).sum();
        let (unit, after) = rest.split_at(len + drawn_on);
        rest = after;
        Some(unit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_cut_before_counts_once() {
        let text = "abcdefghijklmnopqrstuvwxyz0123456789";
        let (head, more) = head(text, 20);
        assert_eq!((head, more), ("abcdefghijklmnopqrst", 16));
        for columns in 0..60 {
            assert_eq!(cut(text, columns), cut_with(text, 0, columns), "{columns}");
            let cut = cut_with(head, more, columns);
            let shown = cut.chars().take_while(|c| c.is_ascii_alphanumeric()).count();
            assert_eq!(cut, format!("{}… (+{})", &text[..shown], 36 - shown), "{columns}");
            assert!(shown <= 20 && (cut.width() <= columns || shown == 0), "{columns}: {cut}");
        }
        assert_eq!(cut_with(text, 0, 36), text);
    }

    fn bash(input: &str) -> Action<'_> {
        Action { tool: "Bash", input: Some(input), ..Action::default() }
    }

    #[test]
    fn a_summary_names_the_tool_and_what_runs() {
        let line = summary(&bash(r#"{"description":"harmless","command":"rm -rf x\nls"}"#), 80);
        assert_eq!(line, "Bash: rm -rf x↵ls");
    }

    #[test]
    fn a_title_stands_in_for_a_tool_that_nobody_knows() {
        let action = Action { tool: "mcp__db__query", title: Some("Drop \u{202e}all"), ..Action::default() };
        assert_eq!(summary(&action, 80), "mcp__db__query: Drop \\u{202e}all");
        let action = Action { tool: "noop", ..Action::default() };
        assert_eq!(summary(&action, 80), "noop");
        let action = Action { tool: "x", input: Some(r#"{"n":1,"who":"me"}"#), ..Action::default() };
        assert_eq!(summary(&action, 80), "x: me");
        let action = Action { tool: "x", input: Some("[1,\n2]"), ..Action::default() };
        assert_eq!(summary(&action, 80), "x: [1,↵2]");
    }

    #[test]
    fn a_cut_says_how_much_is_missing() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefghijklmnop", 12), "abcde… (+11)");
        assert_eq!(cut("abcdefghijklmnop", 0), "… (+16)");
    }

    #[test]
    fn a_cut_never_splits_a_mark_or_an_accent() {
        assert_eq!(cut("ab\\u{202e}cdefghij", 14), "ab… (+16)");
        let accents = "e\u{301}".repeat(20);
        for columns in 0..20 {
            let line = cut(&accents, columns);
            let kept = line.split('…').next().unwrap();
            assert_eq!(kept.chars().count() % 2, 0, "{line:?}");
        }
    }
}
