//! What is said about asks, in words: who asks, what will happen by itself, what became of it. Every line is safe to show.

use std::time::Duration;

use askd_text::{duration, safe};
use askd_wire::{
    Ask, AskState, Choice, ChoiceKind, Code, Decision, Delivery, LateAnswer, Outcome, OutcomeKind, Problem,
    Subagent,
};
use unicode_width::UnicodeWidthChar;

/// Foreign text for one line.
pub(crate) fn one(text: &str) -> String {
    safe(text).text
}

/// Text that was made safe already: its marks stay as they are, and what should not be in it is marked now.
pub(crate) fn plain(text: &str) -> String {
    if text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    // A letter and what is drawn onto it are looked at together: a few accents are writing, many are none.
    let mut letter = String::new();
    for c in text.chars() {
        if c.width() == Some(0) && !letter.is_empty() {
            letter.push(c);
            continue;
        }
        out.push_str(&one(&std::mem::take(&mut letter)));
        match c {
            ' '..='~' | '⇥' | '↵' if !c.is_alphanumeric() => out.push(c),
            _ => letter.push(c),
        }
    }
    out.push_str(&one(&letter));
    out
}

/// `explore (general-purpose, depth 1)`
pub(crate) fn subagent(child: &Subagent) -> String {
    let name = child.name.as_deref().filter(|name| !name.is_empty());
    let kind = child.kind.as_deref().filter(|kind| !kind.is_empty());
    let first = one(name.or(kind).unwrap_or(&child.work_id));
    let mut rest: Vec<String> = Vec::new();
    rest.extend(name.and(kind).map(one));
    rest.extend(child.depth.map(|depth| format!("depth {depth}")));
    if rest.is_empty() { first } else { format!("{first} ({})", rest.join(", ")) }
}

/// Open, and askd's to answer.
pub(crate) fn is_answerable(ask: &Ask) -> bool {
    ask.state == AskState::Open && !is_handed_back(ask)
}

pub(crate) fn is_handed_back(ask: &Ask) -> bool {
    ask.requester.link == "handed_back"
}

/// The timed answer: `auto-deny in 5m12s`.
pub(crate) fn timed(default: Option<Decision>, left: Duration) -> String {
    let what = match default {
        Some(Decision::Deny) => "auto-deny",
        Some(Decision::Allow) => "auto-allow",
        None => "back to the agent's own prompt",
    };
    when(what, left)
}

/// The same where there is little room: `deny 5m12s`.
pub(crate) fn timed_short(default: Option<Decision>, left: Duration) -> String {
    let what = match default {
        Some(Decision::Deny) => "deny",
        Some(Decision::Allow) => "allow",
        None => "back",
    };
    if left.is_zero() { format!("{what} now") } else { format!("{what} {}", duration(left)) }
}

fn when(what: &str, left: Duration) -> String {
    if left.is_zero() { format!("{what} now") } else { format!("{what} in {}", duration(left)) }
}

/// The requester's own limit: `its requester stops waiting in 55s`.
pub(crate) fn gives_up(left: Duration, before_deadline: bool) -> String {
    let late = if before_deadline { " (before the timed answer)" } else { "" };
    format!("{}{late}", when("its requester stops waiting", left))
}

/// Where else an open ask may be answered, or may have been.
pub(crate) fn elsewhere(ask: &Ask) -> Option<String> {
    match ask.requester.link.as_str() {
        "handed_back" => {
            let at = ask.requester.at.as_deref().unwrap_or("agent");
            Some(format!("handed back: answer it in the {}'s own prompt", one(at)))
        }
        "detached" => Some("its requester went away; it may come back for the answer".to_owned()),
        _ if ask.requester.kind.as_deref() == Some("hook") => {
            Some("may already be answered in the terminal".to_owned())
        }
        _ => None,
    }
}

/// What an option does, in our words: its label is the agent's.
pub(crate) fn option_kind(kind: ChoiceKind) -> &'static str {
    match kind {
        ChoiceKind::AllowOnce => "allow once",
        ChoiceKind::AllowAlways => "allow always",
        ChoiceKind::RejectOnce => "deny once",
        ChoiceKind::RejectAlways => "deny always",
    }
}

pub(crate) fn allows(kind: ChoiceKind) -> bool {
    matches!(kind, ChoiceKind::AllowOnce | ChoiceKind::AllowAlways)
}

/// The options that a plain yes and a plain no stand for: the first `allow_once`; the first `reject_once`, else the first
/// `reject_always`.
pub(crate) fn plain_options(options: &[Choice]) -> Vec<&str> {
    let first = |kind| options.iter().find(|choice| choice.kind == kind).map(|choice| choice.id.as_str());
    let yes = first(ChoiceKind::AllowOnce);
    let no = first(ChoiceKind::RejectOnce).or_else(|| first(ChoiceKind::RejectAlways));
    yes.into_iter().chain(no).collect()
}

/// Exactly what an option would grant, or that the agent does not say.
pub(crate) fn grants(choice: &Choice) -> Option<String> {
    match (&choice.grants, choice.kind) {
        (Some(grants), ChoiceKind::AllowOnce | ChoiceKind::AllowAlways) => {
            Some(format!("grants {}", one(grants)))
        }
        (Some(forbids), _) => Some(format!("forbids {}", one(forbids))),
        (None, ChoiceKind::AllowAlways | ChoiceKind::RejectAlways) => {
            Some("the agent does not say for what".to_owned())
        }
        (None, _) => None,
    }
}

/// How an ask ended that this screen did not answer, as the one line that it leaves:
/// `(answered elsewhere: allowed in Telegram)`, `(timed out: auto-denied)`, `(cancelled by the agent)`.
pub(crate) fn ended(outcome: &Outcome) -> String {
    let decided = decided(outcome.outcome);
    let text = match outcome.cause.as_str() {
        "person" => {
            let by = outcome.by.as_deref().filter(|by| *by != "you");
            let by = by.map(|by| format!(" by {}", one(by))).unwrap_or_default();
            let place = outcome.surface.as_deref().map(|at| format!(" in {}", one(at))).unwrap_or_default();
            format!("answered elsewhere: {decided}{by}{place}{}", said(outcome))
        }
        "agent" => format!("answered elsewhere: {decided} in the agent's own prompt"),
        "timed" => format!("timed out: auto-{decided}"),
        _ => plain(&outcome.text),
    };
    format!("({text})")
}

/// How an ask ended that was answered here: `denied by you in the terminal: not this folder (and stop)`.
pub(crate) fn answered_here(outcome: &Outcome) -> String {
    format!("{}{}", plain(&outcome.text), said(outcome))
}

/// The person's own words and whether the turn stops too.
fn said(outcome: &Outcome) -> String {
    let words = outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let words = words.map(|words| format!(": {}", one(words))).unwrap_or_default();
    format!("{words}{}", if outcome.stop { " (and stop)" } else { "" })
}

fn decided(kind: OutcomeKind) -> &'static str {
    match kind {
        OutcomeKind::Allowed => "allowed",
        OutcomeKind::Denied => "denied",
        OutcomeKind::Withdrawn => "withdrawn",
    }
}

/// Deliveries that change what a person must believe.
pub(crate) fn correction(ask: &Ask) -> Option<&'static str> {
    match ask.delivery {
        Delivery::Overtaken => Some("corrected: the agent had already gone on by another answer"),
        Delivery::Voided => Some("corrected: void, the agent was cancelled before it got the answer"),
        Delivery::Refused => Some("corrected: the agent did not take the answer"),
        Delivery::Expired => Some("corrected: its requester never fetched the answer"),
        Delivery::None | Delivery::Pending | Delivery::Handed | Delivery::Confirmed => None,
    }
}

/// A late answer that is kept; `until` is a local time.
pub(crate) fn late(late: &LateAnswer, until: &str) -> String {
    let decision = match late.decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    };
    format!("your {decision} came late; it will be used if the same call asks again before {until}")
}

/// Why an answer from here settled nothing.
pub(crate) fn refusal(problem: &Problem) -> String {
    let ask = problem.ask.as_deref();
    match (problem.code, ask.and_then(|ask| ask.outcome.as_ref())) {
        (Code::AlreadySettled, Some(outcome)) => format!("your answer came too late {}", ended(outcome)),
        (Code::HandedBack, _) => {
            let at = ask.and_then(|ask| ask.requester.at.as_deref()).unwrap_or("agent");
            format!("handed back: only the {}'s own prompt can answer it now", one(at))
        }
        (Code::UnknownAsk, _) => "no such ask any more".to_owned(),
        (Code::DigestMismatch, _) => "its content is not what was shown; nothing was answered".to_owned(),
        _ => match &problem.detail {
            Some(detail) => plain(&format!("{}: {detail}", problem.title)),
            None => plain(&problem.title),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn outcome(json: &str) -> Outcome {
        let mut whole: serde_json::Value = serde_json::from_str(json).unwrap();
        whole["settled_at"] = "2026-11-30T08:01:00.000Z".into();
        whole["verdict"] = "none".into();
        whole["text"] = "withdrawn: the session ended".into();
        serde_json::from_value(whole).unwrap()
    }

    #[test]
    fn t15_the_one_line_is_true_to_its_cause() {
        let cases = [
            (
                r#"{"outcome":"allowed","cause":"person","surface":"Telegram","by":"you"}"#,
                "(answered elsewhere: allowed in Telegram)",
            ),
            (
                r#"{"outcome":"denied","cause":"person","surface":"web","by":"eve\u001b","message":"no\nway","stop":true}"#,
                "(answered elsewhere: denied by eve\\u{1b} in web: no↵way (and stop))",
            ),
            (r#"{"outcome":"denied","cause":"timed"}"#, "(timed out: auto-denied)"),
            (r#"{"outcome":"allowed","cause":"timed"}"#, "(timed out: auto-allowed)"),
            (
                r#"{"outcome":"allowed","cause":"agent"}"#,
                "(answered elsewhere: allowed in the agent's own prompt)",
            ),
            (r#"{"outcome":"withdrawn","cause":"session_ended"}"#, "(withdrawn: the session ended)"),
        ];
        for (json, line) in cases {
            assert_eq!(ended(&outcome(json)), line);
        }
    }

    #[test]
    fn s4_what_was_made_safe_stays_and_what_was_not_is_marked() {
        assert_eq!(plain("a\\u{202e}b e\u{301}⇥ 漢"), "a\\u{202e}b e\u{301}⇥ 漢");
        assert_eq!(plain("a\u{202e}b\u{1b}\u{9b}\u{200b}"), "a\\u{202e}b\\u{1b}\\u{9b}\\u{200b}");
    }

    #[test]
    fn t11_countdowns_print_as_documented() {
        let secs = Duration::from_secs;
        assert_eq!(timed(Some(Decision::Deny), secs(312)), "auto-deny in 5m12s");
        assert_eq!(timed(Some(Decision::Allow), secs(360)), "auto-allow in 6m0s");
        assert_eq!(timed(None, secs(3600)), "back to the agent's own prompt in 1h0m");
        assert_eq!(timed(Some(Decision::Deny), secs(0)), "auto-deny now");
        assert_eq!(timed_short(Some(Decision::Deny), secs(312)), "deny 5m12s");
        assert_eq!(gives_up(secs(55), true), "its requester stops waiting in 55s (before the timed answer)");
    }

    #[test]
    fn c14_a_subagent_is_told_with_name_type_and_depth() {
        let child = |name: Option<&str>, kind: Option<&str>, depth| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            subagent(&Subagent { name: own(name), kind: own(kind), work_id: "a1".into(), depth })
        };
        assert_eq!(
            child(Some("explore"), Some("general-purpose"), Some(2)),
            "explore (general-purpose, depth 2)"
        );
        assert_eq!(child(None, Some("general-purpose"), None), "general-purpose");
        assert_eq!(child(Some(""), None, Some(1)), "a1 (depth 1)");
        assert_eq!(child(Some("\u{202e}x"), None, None), "\\u{202e}x");
    }

    #[test]
    fn an_ask_says_where_else_it_can_be_answered() {
        let mut ask = samples::bash("k7f", "ls");
        assert_eq!(elsewhere(&ask), None);
        ask.requester.kind = Some("hook".into());
        assert_eq!(elsewhere(&ask).as_deref(), Some("may already be answered in the terminal"));
        ask.requester.link = "handed_back".into();
        ask.requester.at = Some("terminal\u{7}".into());
        assert_eq!(
            elsewhere(&ask).as_deref(),
            Some("handed back: answer it in the terminal\\u{7}'s own prompt")
        );
        assert!(!is_answerable(&ask));
    }
}
