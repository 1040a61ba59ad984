//! An open ask in full with its buttons, and what became of one.

use std::fmt::Write as _;

use askd_text::{ago, cut};
use askd_wire::{Ask, AskState, Choice, ChoiceKind};
use askd_words as words;

use super::{LONGEST_MESSAGE, Reader, Text, clock, millis, span};
use crate::telegram::seal::{Key, MOST_OPTIONS, Verb, seal};

/// Messages that an action may take and still be allowed here.
pub const MOST_PARTS: usize = 3;
/// What head and foot of a card may take of a message.
const AROUND: usize = 1600;
/// Longest name of a tool in the first line, and longest question before an option counts.
const LONGEST_TOOL: usize = 60;
const LONGEST_QUESTION: usize = 300;
/// Options besides the plain yes and no that have a button.
const MOST_OTHERS: usize = 5;
/// Of a card that is over so much is kept, in UTF-16 code units.
const KEPT: usize = 500;

/// Rows of buttons: label and data.
pub type Keyboard = Vec<Vec<(String, String)>>;

/// An ask as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// One message each, in order; buttons are under the last.
    pub parts: Vec<Text>,
    pub buttons: Keyboard,
    /// All of the action is in the parts.
    pub allowable: bool,
}

/// What the buttons of an open card are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    #[default]
    Choose,
    /// The option at this place was tapped and is to be confirmed.
    Confirm(u8),
}

/// An open ask in full, or what became of it.
pub fn card(ask: &Ask, stage: Stage, key: &Key, reader: &Reader, now_ms: i64) -> Card {
    if !words::is_answerable(ask) {
        return over(ask, reader, now_ms);
    }
    let mut fields = fields(ask);
    let tool = words::one(&ask.action.tool);
    if cut(&tool, LONGEST_TOOL) != tool {
        // The head has only its beginning.
        let label = "tool".to_owned();
        fields.insert(0, askd_text::DisplayField { label, lines: vec![tool], marked: false, complete: true });
    }
    let body = askd_text::messages(&fields, LONGEST_MESSAGE - AROUND);
    let complete = ask.display.iter().all(|field| field.complete);
    let allowable = complete && body.len() <= MOST_PARTS;
    let mut parts = Vec::new();
    let shown = if allowable { body.as_slice() } else { body.get(..1).unwrap_or_default() };
    for (at, text) in shown.iter().enumerate() {
        let mut part = Text::default();
        match at {
            0 => head(&mut part, ask, reader),
            _ => part.bold(&format!("{} goes on, part {} of {}", ask.handle, at + 1, shown.len())),
        }
        part.block(text);
        if at + 1 < shown.len() {
            part.line(&format!("part {} of {}: the buttons are below the last", at + 1, shown.len()));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        let mut part = Text::default();
        head(&mut part, ask, reader);
        parts.push(part);
    }
    if let Some(last) = parts.last_mut() {
        if !allowable {
            let more = if complete { format!("{} more messages", body.len() - 1) } else { "more".to_owned() };
            last.line(&format!(
                "… {more}: too long to be allowed from here. See all of it with: askd show {}",
                ask.handle
            ));
        }
        foot(last, ask, stage, reader, now_ms);
    }
    Card { parts, buttons: buttons(ask, stage, allowable, key), allowable }
}

fn head(part: &mut Text, ask: &Ask, reader: &Reader) {
    part.bold(&format!(
        "{} · {}",
        words::plain(&ask.handle),
        cut(&words::one(&ask.action.tool), LONGEST_TOOL)
    ));
    let who: Vec<String> = reader.sessions.who(ask).into_iter().map(words::Part::text).collect();
    part.line(&cut(&who.join(" · "), 300));
}

fn foot(part: &mut Text, ask: &Ask, stage: Stage, reader: &Reader, now_ms: i64) {
    let mut lines = Vec::new();
    for (at, choice) in other_options(ask) {
        let grants = words::grants(choice).map(|grants| format!(": {grants}")).unwrap_or_default();
        let label = format!("{} “{}”{grants}", words::option_kind(choice.kind), words::one(&choice.label));
        lines.push(cut(&format!("{}. {label}", at + 1), 120));
    }
    let hidden = ask.options.len().saturating_sub(other_options(ask).count() + plain_count(ask));
    if hidden > 0 {
        lines.push(format!("more options ({hidden}): askd show {}", ask.handle));
    }
    if let Some(at) = ask.deadline.as_deref().and_then(millis) {
        let left = span(at - now_ms);
        lines.push(format!("{} (at {})", words::timed(ask.default, left), clock(at, reader)));
    }
    if let Some(at) = ask.gives_up_at.as_deref().and_then(millis) {
        let deadline = ask.deadline.as_deref().and_then(millis);
        lines.push(words::gives_up(span(at - now_ms), deadline.is_some_and(|deadline| at < deadline)));
    }
    let away = ask.requester.since.as_deref().and_then(millis).map(|since| ago(span(now_ms - since)));
    lines.extend(words::elsewhere(ask, away.as_deref()));
    if let Stage::Confirm(at) = stage
        && let Some(choice) = ask.options.get(usize::from(at))
    {
        lines.push(cut(&question(choice), LONGEST_QUESTION));
    }
    for line in lines {
        part.line(&line);
    }
}

/// What is asked before an option counts: all that it means.
fn question(choice: &Choice) -> String {
    let grants = words::grants(choice).map(|grants| format!(" It {grants}.")).unwrap_or_default();
    let kind = words::option_kind(choice.kind);
    format!("Really {kind}, “{}”?{grants}", words::one(&choice.label))
}

/// All of what the option means fits into the question; one that does not is not chosen here.
pub fn is_whole(choice: &Choice) -> bool {
    let question = question(choice);
    cut(&question, LONGEST_QUESTION) == question
}

fn plain_count(ask: &Ask) -> usize {
    words::plain_options(&ask.options).len()
}

/// Options that are more than a plain yes or no, with their places; only so many as there is room for.
fn other_options(ask: &Ask) -> impl Iterator<Item = (usize, &Choice)> {
    let plain = words::plain_options(&ask.options);
    let plain: Vec<String> = plain.into_iter().map(str::to_owned).collect();
    let others = ask.options.iter().enumerate().take(MOST_OPTIONS);
    others
        .filter(move |(_, choice)| !plain.contains(&choice.id))
        .filter(|(_, choice)| is_whole(choice))
        .take(MOST_OTHERS)
}

fn buttons(ask: &Ask, stage: Stage, allowable: bool, key: &Key) -> Keyboard {
    let button = |label: &str, verb| (label.to_owned(), seal(key, verb, ask));
    if let Stage::Confirm(at) = stage
        && let Some(choice) = ask.options.get(usize::from(at)).filter(|choice| is_whole(choice))
    {
        let label = format!("Yes: {}", words::option_kind(choice.kind));
        return vec![vec![button(&label, Verb::Confirmed(at)), button("Back", Verb::Back)]];
    }
    let once =
        ask.options.is_empty() || ask.options.iter().any(|choice| choice.kind == ChoiceKind::AllowOnce);
    let mut first = Vec::new();
    if allowable && once {
        first.push(button("✅ Allow once", Verb::Allow));
    }
    first.push(button("⛔ Deny", Verb::Deny));
    let mut rows = vec![first, vec![button("Deny with a message…", Verb::DenyWith)]];
    for (at, choice) in other_options(ask) {
        if words::allows(choice.kind) && !allowable {
            continue;
        }
        let Ok(place) = u8::try_from(at) else { continue };
        let label = format!("{}. {}…", at + 1, words::option_kind(choice.kind));
        rows.push(vec![button(&label, Verb::Option(place))]);
    }
    rows
}

/// The whole action in as many messages as it needs.
fn body(ask: &Ask, max: usize) -> Vec<String> {
    askd_text::messages(&fields(ask), max)
}

fn fields(ask: &Ask) -> Vec<askd_text::DisplayField> {
    ask.display
        .iter()
        .map(|field| askd_text::DisplayField {
            label: words::plain(&field.label),
            lines: field.lines.iter().map(|line| words::plain(line)).collect(),
            marked: field.marked,
            complete: field.complete,
        })
        .collect()
}

/// What became of an ask, with as much of it as tells which one it was.
fn over(ask: &Ask, reader: &Reader, now_ms: i64) -> Card {
    let mut part = Text::default();
    head(&mut part, ask, reader);
    let body = body(ask, KEPT);
    if let Some(first) = body.first() {
        part.block(first);
    }
    if body.len() > 1 {
        part.line("… (shortened)");
    }
    part.line(&became(ask));
    if ask.state == AskState::Open {
        let away = ask.requester.since.as_deref().and_then(millis).map(|since| ago(span(now_ms - since)));
        if let Some(line) = words::elsewhere(ask, away.as_deref()) {
            part.line(&line);
        }
    }
    Card { parts: vec![part], buttons: Vec::new(), allowable: false }
}

/// One line with a sign that can be told at a glance.
fn became(ask: &Ask) -> String {
    let Some(outcome) = &ask.outcome else { return String::new() };
    let sign = match outcome.outcome {
        askd_wire::OutcomeKind::Allowed => "✅",
        askd_wire::OutcomeKind::Denied => "⛔",
        askd_wire::OutcomeKind::Withdrawn => "⚪",
    };
    let mut line = format!("{sign} {}", cut(&words::settled(outcome), 600));
    if let Some(correction) = words::correction(ask.delivery) {
        let _ = write!(line, "\n{correction}");
    }
    line
}

#[cfg(test)]
mod tests {
    use askd_words::Sessions;
    use jiff::tz::TimeZone;

    use super::*;
    use crate::telegram::samples;

    /// Columns of a message on a small telephone.
    const PHONE: usize = 38;
    const KEY: Key = [7; 32];

    fn reader() -> Reader {
        Reader {
            sessions: Sessions::new(Some("/home/me".to_owned()), Some("here".to_owned())),
            zone: TimeZone::UTC,
        }
    }

    /// As it looks on a telephone.
    fn phone(card: &Card) -> String {
        let mut out = String::new();
        for part in &card.parts {
            out.push_str("────────\n");
            for line in part.plain.lines() {
                let mut width = 0;
                for c in line.chars() {
                    if width == PHONE {
                        out.push('\n');
                        width = 0;
                    }
                    out.push(c);
                    width += 1;
                }
                out.push('\n');
            }
        }
        for row in &card.buttons {
            let labels: Vec<String> = row.iter().map(|(label, _)| format!("[{label}]")).collect();
            let _ = writeln!(out, "{}", labels.join(" "));
        }
        out
    }

    fn now() -> i64 {
        millis("2026-11-30T08:00:48Z").unwrap()
    }

    #[test]
    fn s4_cards_at_the_width_of_a_telephone() {
        let ask = samples::ask("k7f");
        insta::assert_snapshot!("card_open", phone(&card(&ask, Stage::Choose, &KEY, &reader(), now())));
        insta::assert_snapshot!(
            "card_confirm",
            phone(&card(&ask, Stage::Confirm(2), &KEY, &reader(), now()))
        );

        let timed = samples::settled(&ask, "denied", "timed", "timed out: auto-denied after 6m0s");
        insta::assert_snapshot!("card_timed", phone(&card(&timed, Stage::Choose, &KEY, &reader(), now())));
        let mut overtaken = samples::settled(&ask, "denied", "person", "denied by Anna in Telegram");
        overtaken.delivery = askd_wire::Delivery::Overtaken;
        if let Some(outcome) = &mut overtaken.outcome {
            outcome.message = Some("not this folder".to_owned());
        }
        insta::assert_snapshot!(
            "card_overtaken",
            phone(&card(&overtaken, Stage::Choose, &KEY, &reader(), now()))
        );

        let mut back = ask.clone();
        back.requester.link = "handed_back".to_owned();
        back.requester.at = Some("terminal".to_owned());
        insta::assert_snapshot!(
            "card_handed_back",
            phone(&card(&back, Stage::Choose, &KEY, &reader(), now()))
        );

        let mut hook = samples::ask("m2c");
        hook.requester.kind = Some("hook".to_owned());
        hook.requester.at = Some("terminal".to_owned());
        hook.attendance = askd_wire::Attendance::Foreground;
        (hook.deadline, hook.default, hook.lineage.job, hook.lineage.subagent) = (None, None, None, None);
        hook.options.truncate(2);
        insta::assert_snapshot!("card_hook", phone(&card(&hook, Stage::Choose, &KEY, &reader(), now())));
    }

    #[test]
    fn s4_no_card_is_longer_than_a_message() {
        let mut ask = samples::ask("k7f");
        let long = "漢😀<&>".repeat(3000);
        ask.action.tool.clone_from(&long);
        ask.lineage.job = Some(long.clone());
        ask.lineage.agent.clone_from(&long);
        for at in 0..40 {
            let mut choice = ask.options[2].clone();
            (choice.id, choice.label, choice.grants) = (format!("o{at}"), long.clone(), Some(long.clone()));
            ask.options.push(choice);
        }
        for lines in [0, 1, 3, 200, 1000] {
            ask.display[0].lines = vec!["x😀 ".repeat(30); lines];
            for stage in [Stage::Choose, Stage::Confirm(5)] {
                for ask in [ask.clone(), samples::settled(&ask, "denied", "person", &long)] {
                    let card = card(&ask, stage, &KEY, &reader(), now());
                    for part in &card.parts {
                        let len = part.plain.encode_utf16().count();
                        assert!(
                            len <= LONGEST_MESSAGE && !part.plain.trim().is_empty(),
                            "{len}: {}",
                            part.plain
                        );
                    }
                    assert!(card.parts.len() <= MOST_PARTS);
                    let labels = card.buttons.iter().flatten();
                    assert!(labels.clone().all(|(label, data)| label.len() <= 64 && data.len() <= 64));
                    let allows = labels.filter(|(label, _)| label.to_lowercase().contains("allow")).count();
                    assert!(card.allowable || allows == 0 || stage != Stage::Choose, "{:?}", card.buttons);
                }
            }
        }
    }

    #[test]
    fn s4_what_was_cut_somewhere_has_no_yes() {
        let mut ask = samples::ask("k7f");
        ask.display[0].complete = false;
        let card = card(&ask, Stage::Choose, &KEY, &reader(), now());
        assert!(!card.allowable);
        assert!(card.parts[0].plain.contains("too long to be allowed from here"), "{}", card.parts[0].plain);
    }
}
