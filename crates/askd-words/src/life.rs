//! What will happen to an ask by itself, and what became of it.

use std::time::Duration;

use askd_text::duration;
use askd_wire::{Ask, AskState, Code, Decision, Delivery, LateAnswer, Outcome, OutcomeKind, Problem};

use crate::{one, plain};

/// Open, and askd's to answer.
pub fn is_answerable(ask: &Ask) -> bool {
    ask.state == AskState::Open && !is_handed_back(ask)
}

pub fn is_handed_back(ask: &Ask) -> bool {
    ask.requester.link == "handed_back"
}

/// The timed answer: `auto-deny in 5m12s`.
pub fn timed(default: Option<Decision>, left: Duration) -> String {
    let what = match default {
        Some(Decision::Deny) => "auto-deny",
        Some(Decision::Allow) => "auto-allow",
        None => "back to the agent's own prompt",
    };
    when(what, left)
}

/// The timed answer of an ask that is due while nothing can be recorded: it stands when it can be.
pub fn unrecorded(default: Option<Decision>) -> String {
    let what = match default {
        Some(Decision::Deny) => "auto-deny",
        Some(Decision::Allow) => "auto-allow",
        None => "back to the agent's own prompt",
    };
    format!("{what} as soon as it can be recorded")
}

/// The same where there is little room: `deny 5m12s`.
pub fn timed_short(default: Option<Decision>, left: Duration) -> String {
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
pub fn gives_up(left: Duration, before_deadline: bool) -> String {
    let late = if before_deadline { " (before the timed answer)" } else { "" };
    format!("{}{late}", when("its requester stops waiting", left))
}

/// Where else an open ask may be answered, or may have been. `away`: since when its requester is away, as `2m ago`.
pub fn elsewhere(ask: &Ask, away: Option<&str>) -> Option<String> {
    if ask.state != AskState::Open {
        return None;
    }
    match ask.requester.link.as_str() {
        "handed_back" => {
            let at = ask.requester.at.as_deref().unwrap_or("agent");
            Some(format!("handed back: answer it in the {}'s own prompt", one(at)))
        }
        "detached" => {
            let away = away.map(|away| format!(" {away}")).unwrap_or_default();
            Some(format!("its requester went away{away}; it may come back for the answer"))
        }
        // A hook that knows of no prompt beside it names none.
        _ if ask.requester.kind.as_deref() == Some("hook") => {
            let at = ask.requester.at.as_deref()?;
            Some(format!("may already be answered in the {}", one(at)))
        }
        _ => None,
    }
}

/// How an ask ended that this screen did not answer, as the one line that it leaves:
/// `(answered elsewhere: allowed in Telegram)`, `(timed out: auto-denied)`, `(cancelled by the agent)`.
pub fn ended(outcome: &Outcome) -> String {
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

/// How an ask was settled, with what the person said: `denied by you in the terminal: not this folder (and stop)`.
pub fn settled(outcome: &Outcome) -> String {
    format!("{}{}", plain(&outcome.text), said(outcome))
}

/// The person's own words and whether the turn stops too.
fn said(outcome: &Outcome) -> String {
    let words = outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let words = words.filter(|_| outcome.cause == "person");
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

/// What became of an outcome where nothing went wrong with it.
pub fn delivery(delivery: Delivery) -> Option<&'static str> {
    match delivery {
        Delivery::Pending => Some("not fetched by its requester yet"),
        Delivery::Handed => Some("given to the agent"),
        Delivery::Confirmed => Some("the agent acted on it"),
        _ => None,
    }
}

/// Deliveries that change what a person must believe.
pub fn correction(delivery: Delivery) -> Option<&'static str> {
    match delivery {
        Delivery::Overtaken => Some("corrected: the agent had already gone on by another answer"),
        Delivery::Voided => Some("corrected: void, the agent was cancelled before it got the answer"),
        Delivery::Refused => Some("corrected: the agent did not take the answer"),
        Delivery::Expired => Some("corrected: its requester never fetched the answer"),
        Delivery::None | Delivery::Pending | Delivery::Handed | Delivery::Confirmed => None,
    }
}

/// A late answer that is kept; `until` is a local time.
pub fn late(late: &LateAnswer, until: &str) -> String {
    format!("a late {} will be used if the same call asks again before {until}", verb(late.decision))
}

/// The same to whoever gave it.
pub fn late_of_yours(late: &LateAnswer, until: &str) -> String {
    let decision = verb(late.decision);
    format!("your {decision} came late; it will be used if the same call asks again before {until}")
}

fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    }
}

/// Why an answer from here settled nothing.
pub fn refusal(problem: &Problem) -> String {
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
    fn t11_countdowns_print_as_documented() {
        let secs = Duration::from_secs;
        assert_eq!(timed(Some(Decision::Deny), secs(312)), "auto-deny in 5m12s");
        assert_eq!(timed(Some(Decision::Allow), secs(360)), "auto-allow in 6m0s");
        assert_eq!(timed(None, secs(3600)), "back to the agent's own prompt in 1h0m");
        assert_eq!(timed(Some(Decision::Deny), secs(0)), "auto-deny now");
        let due = "auto-deny as soon as it can be recorded";
        assert_eq!(unrecorded(Some(Decision::Deny)), due);
        assert_eq!(timed_short(Some(Decision::Deny), secs(312)), "deny 5m12s");
        assert_eq!(gives_up(secs(55), true), "its requester stops waiting in 55s (before the timed answer)");
    }

    fn sample() -> Ask {
        let text = serde_json::json!({
            "id": "0193", "handle": "k7f", "state": "open", "digest": "sha256:0", "class": "tool",
            "attendance": "foreground", "action": {"tool": "Bash"}, "display": [],
            "lineage": {"agent": "a", "session": "s", "root": "s"}, "options": [],
            "asked_at": "2026-11-30T08:00:00.000Z", "deadline": null, "default": null, "gives_up_at": null,
            "requester": {"link": "attached", "kind": "library"}, "outcome": null, "delivery": "none",
        });
        serde_json::from_str(&text.to_string()).unwrap()
    }

    #[test]
    fn an_ask_says_where_else_it_can_be_answered() {
        let mut ask = sample();
        assert_eq!(elsewhere(&ask, None), None);
        ask.requester.kind = Some("hook".into());
        assert_eq!(elsewhere(&ask, None), None, "no prompt is beside it");
        ask.requester.at = Some("host".into());
        assert_eq!(elsewhere(&ask, None).as_deref(), Some("may already be answered in the host"));
        ask.requester.at = Some("terminal".into());
        assert_eq!(elsewhere(&ask, None).as_deref(), Some("may already be answered in the terminal"));
        ask.requester.link = "handed_back".into();
        ask.requester.at = Some("terminal\u{7}".into());
        assert_eq!(
            elsewhere(&ask, None).as_deref(),
            Some("handed back: answer it in the terminal\\u{7}'s own prompt")
        );
        assert!(!is_answerable(&ask));
        ask.requester.link = "detached".into();
        let away = "its requester went away 2m ago; it may come back for the answer";
        assert_eq!(elsewhere(&ask, Some("2m ago")).as_deref(), Some(away));
        ask.state = AskState::Settled;
        assert_eq!(elsewhere(&ask, None), None);
    }
    #[test]
    fn the_words_of_a_person_follow_and_are_inert() {
        let said =
            r#"{"outcome":"denied","cause":"person","surface":"web","message":"a\u001b]0;b","stop":true}"#;
        assert_eq!(settled(&outcome(said)), "withdrawn: the session ended: a\\u{1b}]0;b (and stop)");
        let nobody = r#"{"outcome":"denied","cause":"timed","message":"x"}"#;
        assert_eq!(settled(&outcome(nobody)), "withdrawn: the session ended");
    }
}
