//! What is said besides cards: to a tap, to a reply, in a list; and by what our own messages are known.

use std::fmt::Write as _;

use askd_text::{ago, cut};
use askd_wire::{Ask, Problem};
use askd_words as words;

use super::{Reader, Text, clock, millis, span};

/// Longest text of the answer to a tap, in characters.
pub const LONGEST_TOAST: usize = 200;
/// Begins the message that asks for words; no card begins with it.
const PROMPT_MARK: &str = "✍ ";

/// The answer to a tap on an ask that is over: `already denied by you in terminal, 2m ago`.
pub fn already(ask: &Ask, now_ms: i64) -> String {
    match &ask.outcome {
        Some(outcome) => {
            let when = millis(&outcome.settled_at).map(|at| format!(", {}", ago(span(now_ms - at))));
            let text = words::plain(&outcome.text);
            toast(&format!("{}: already {text}{}", ask.handle, when.unwrap_or_default()))
        }
        None => toast(&words::elsewhere(ask, None).unwrap_or_else(|| "it is open".to_owned())),
    }
}

/// The answer to a tap that settled it.
pub fn done(ask: &Ask) -> String {
    let text = ask.outcome.as_ref().map(|outcome| words::plain(&outcome.text)).unwrap_or_default();
    toast(&format!("{}: {text}", ask.handle))
}

/// Why a tap or a reply settled nothing.
pub fn refused(problem: &Problem, now_ms: i64, reader: &Reader) -> String {
    if let (Some("late"), Some(ask)) = (problem.recorded.as_deref(), problem.ask.as_deref())
        && let Some(late) = &ask.late
    {
        let until = millis(&late.until).map(|at| clock(at, reader)).unwrap_or_default();
        return toast(&words::late_of_yours(late, &until));
    }
    match problem.ask.as_deref().filter(|ask| ask.outcome.is_some()) {
        Some(ask) => already(ask, now_ms),
        None => toast(&words::refusal(problem)),
    }
}

/// Short enough for the answer to a tap.
pub fn toast(text: &str) -> String {
    if text.chars().count() <= LONGEST_TOAST {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(LONGEST_TOAST - 1).collect();
    short.push('…');
    short
}

/// Open asks, one after the other.
pub fn list(asks: &[Ask], reader: &Reader, now_ms: i64) -> String {
    if asks.is_empty() {
        return "No ask is open.".to_owned();
    }
    let mut out = format!("{} open:", asks.len());
    for ask in asks {
        let first = ask.display.iter().find(|field| field.label != "warning").or(ask.display.first());
        let what = first.and_then(|field| field.lines.first()).map(|line| cut(&words::plain(line), 80));
        let _ = write!(out, "\n\n{} · {}", ask.handle, cut(&words::one(&ask.action.tool), 40));
        if let Some(what) = what {
            let _ = write!(out, ": {what}");
        }
        let who: Vec<String> = reader.sessions.who(ask).into_iter().map(words::Part::text).collect();
        let _ = write!(out, "\n{}", cut(&who.join(", "), 160));
        if let Some(at) = ask.deadline.as_deref().and_then(millis) {
            let _ = write!(out, "\n{}", words::timed(ask.default, span(at - now_ms)));
        }
    }
    out
}

/// The first line of the message that asks for words.
pub fn prompt(ask: &Ask) -> Text {
    let mut text = Text::default();
    text.bold(&format!("{PROMPT_MARK}{} · why not?", ask.handle));
    text.line("Reply to this message with your words: the ask is denied, and the agent is told them.");
    text
}

/// The handle in the first line of a message of ours.
pub fn handle_of(text: &str) -> Option<&str> {
    let line = text.lines().next()?;
    let (handle, rest) = line.strip_prefix(PROMPT_MARK).unwrap_or(line).split_once(' ')?;
    let ours = rest.starts_with("· ") || rest.starts_with("goes on, part ");
    let known = ours && (3..=16).contains(&handle.len()) && handle.bytes().all(|c| c.is_ascii_alphanumeric());
    known.then_some(handle)
}

/// Whether a message of ours asked for words.
pub fn is_prompt(text: &str) -> bool {
    text.starts_with(PROMPT_MARK)
}

#[cfg(test)]
mod tests {
    use askd_words::Sessions;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::telegram::samples;
    use crate::telegram::text::{Stage, card};

    #[test]
    fn toasts_are_short_and_true() {
        let ask = samples::ask("k7f");
        let over = samples::settled(&ask, "denied", "person", "denied by you in terminal");
        let now = millis("2026-11-30T08:04:10Z").unwrap();
        assert_eq!(already(&over, now), "k7f: already denied by you in terminal, 2m ago");
        let long = samples::settled(&ask, "denied", "person", &"x".repeat(500));
        assert_eq!(done(&long).chars().count(), LONGEST_TOAST);
    }

    #[test]
    fn our_own_messages_are_known_by_their_first_line() {
        let ask = samples::ask("k7f");
        let text = prompt(&ask).plain;
        assert!(is_prompt(&text));
        assert_eq!(handle_of(&text), Some("k7f"));
        let reader = Reader { sessions: Sessions::new(None, None), zone: TimeZone::UTC };
        let card = card(&ask, Stage::Choose, &[7; 32], &reader, 0);
        assert!(!is_prompt(&card.parts[0].plain));
        assert_eq!(handle_of(&card.parts[0].plain), Some("k7f"));
        assert_eq!(handle_of("2 open:\n\nk7f"), None);
        assert_eq!(handle_of(""), None);
    }
}
