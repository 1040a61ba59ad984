//! What will become of an ask by itself, and what became of it.

use std::time::Duration;

use askd_text::duration;
use askd_wire::{Ask, AskState, Decision, Delivery};

use crate::out::{one_line, safe};
use crate::view::time::Clock;

/// A requester's own limit further away than this is told with the whole ask only.
const FAR: Duration = Duration::from_secs(900);

/// The timed answer of an open ask: `auto-deny in 5m12s`.
pub(crate) fn timed(ask: &Ask, clock: &Clock) -> Option<String> {
    if !is_answerable(ask) {
        return None;
    }
    let left = clock.until(ask.deadline.as_deref()?)?;
    let what = match ask.default {
        Some(Decision::Deny) => "auto-deny",
        Some(Decision::Allow) => "auto-allow",
        None => "back to the agent's own prompt",
    };
    Some(if left.is_zero() { format!("{what} now") } else { format!("{what} in {}", duration(left)) })
}

/// The requester's own limit: `its requester stops waiting in 55s`.
pub(crate) fn gives_up(ask: &Ask, clock: &Clock) -> Option<String> {
    if !is_answerable(ask) {
        return None;
    }
    let left = clock.until(ask.gives_up_at.as_deref()?)?;
    let late = match ask.deadline.as_deref().and_then(|deadline| clock.until(deadline)) {
        Some(deadline) if deadline > left => " (before the timed answer)",
        _ => "",
    };
    Some(format!("its requester stops waiting in {}{late}", duration(left)))
}

/// The same where it is near enough to matter in a list.
pub(crate) fn gives_up_soon(ask: &Ask, clock: &Clock) -> Option<String> {
    let left = clock.until(ask.gives_up_at.as_deref()?)?;
    if left <= FAR { gives_up(ask, clock) } else { None }
}

/// Open, and askd's to answer.
pub(crate) fn is_answerable(ask: &Ask) -> bool {
    ask.state == AskState::Open && ask.requester.link != "handed_back"
}

/// Where else an open ask may be answered, or may have been.
pub(crate) fn elsewhere(ask: &Ask, clock: &Clock) -> Option<String> {
    if ask.state != AskState::Open {
        return None;
    }
    match ask.requester.link.as_str() {
        "handed_back" => {
            let at = ask.requester.at.as_deref().unwrap_or("agent");
            Some(format!("handed back: answer it in the {}'s own prompt", safe(at)))
        }
        "detached" => {
            let since = ask.requester.since.as_deref().map(|since| clock.ago(since));
            let since = since.map(|since| format!(" {since}")).unwrap_or_default();
            Some(format!("its requester went away{since}; it may come back for the answer"))
        }
        _ if ask.requester.kind.as_deref() == Some("hook") => {
            Some("may already be answered in the terminal".to_owned())
        }
        _ => None,
    }
}

/// What an answer did: `allowed by you …`, and when nobody is there to take it `; its requester is gone; kept until
/// 12:01:30 for it to come back`.
pub(crate) fn answered(ask: &Ask, clock: &Clock) -> String {
    let how = settled(ask).unwrap_or_else(|| "answered".to_owned());
    if ask.delivery != Delivery::Pending || ask.requester.link != "detached" {
        return how;
    }
    let until = ask.requester.until.as_deref().map(|until| clock.local(until));
    let until = until.map(|until| format!(" until {until}")).unwrap_or_default();
    format!("{how}; its requester is gone; kept{until} for it to come back")
}

/// How a settled ask was settled, and what the person said: `denied by you in the terminal: not this folder`.
pub(crate) fn settled(ask: &Ask) -> Option<String> {
    let outcome = ask.outcome.as_ref()?;
    let text = one_line(&outcome.text);
    let words = outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty());
    let said = match words.filter(|_| outcome.cause == "person") {
        Some(words) => format!("{text}: {}", safe(words)),
        None => text,
    };
    Some(if outcome.stop { format!("{said} (and stop)") } else { said })
}

/// What became of the outcome, where that is worth a word.
pub(crate) fn delivery(ask: &Ask) -> Option<&'static str> {
    match ask.delivery {
        Delivery::None => None,
        Delivery::Pending => Some("not fetched by its requester yet"),
        Delivery::Handed => Some("given to the agent"),
        Delivery::Confirmed => Some("the agent acted on it"),
        Delivery::Refused => Some("the agent did not take it"),
        Delivery::Overtaken => Some("corrected: the agent had already gone on by another answer"),
        Delivery::Voided => Some("void: the agent was cancelled before it got the answer"),
        Delivery::Expired => Some("its requester never fetched it"),
    }
}

/// Deliveries that change what a person must believe.
pub(crate) fn is_correction(delivery: Delivery) -> bool {
    matches!(delivery, Delivery::Refused | Delivery::Overtaken | Delivery::Voided | Delivery::Expired)
}

/// A late answer that is kept: `a late allow is kept until 12:01:30 for the same call asking again`.
pub(crate) fn late(ask: &Ask, clock: &Clock) -> Option<String> {
    let late = ask.late.as_ref()?;
    let decision = match late.decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    };
    Some(format!(
        "a late {decision} will be used if the same call asks again before {}",
        clock.local(&late.until)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn t11_the_timed_answer_is_told_with_its_countdown() {
        let mut ask = samples::background();
        let clock = Clock::fixed("2026-11-30T08:00:48Z");
        assert_eq!(timed(&ask, &clock).as_deref(), Some("auto-deny in 5m12s"));
        ask.default = Some(Decision::Allow);
        assert_eq!(timed(&ask, &clock).as_deref(), Some("auto-allow in 5m12s"));
        ask.default = None;
        assert_eq!(timed(&ask, &clock).as_deref(), Some("back to the agent's own prompt in 5m12s"));
        assert_eq!(
            timed(&ask, &Clock::fixed("2026-11-30T08:07:00Z")).as_deref(),
            Some("back to the agent's own prompt now")
        );
        assert_eq!(timed(&samples::settled(), &clock), None);
    }

    #[test]
    fn a_requesters_own_limit_is_told_and_one_before_the_deadline_is_a_warning() {
        let mut ask = samples::background();
        ask.gives_up_at = Some("2026-11-30T08:01:48Z".to_owned());
        let clock = Clock::fixed("2026-11-30T08:00:48Z");
        assert_eq!(
            gives_up(&ask, &clock).as_deref(),
            Some("its requester stops waiting in 1m0s (before the timed answer)")
        );
        ask.deadline = None;
        assert_eq!(gives_up_soon(&ask, &clock).as_deref(), Some("its requester stops waiting in 1m0s"));
        ask.gives_up_at = Some("2026-12-07T08:01:48Z".to_owned());
        assert_eq!(gives_up_soon(&ask, &clock), None);
    }

    #[test]
    fn c11_asks_of_a_hook_and_handed_back_ones_say_where_else() {
        let clock = Clock::fixed("2026-11-30T08:00:48Z");
        let mut ask = samples::background();
        assert_eq!(elsewhere(&ask, &clock).as_deref(), Some("may already be answered in the terminal"));
        ask.requester.link = "handed_back".to_owned();
        ask.requester.at = Some("terminal".to_owned());
        assert_eq!(
            elsewhere(&ask, &clock).as_deref(),
            Some("handed back: answer it in the terminal's own prompt")
        );
        assert_eq!(timed(&ask, &clock), None);
    }

    #[test]
    fn the_words_of_a_person_follow_and_are_inert() {
        let mut ask = samples::settled();
        assert_eq!(settled(&ask).as_deref(), Some("denied by you in the terminal: not this folder"));
        ask.outcome.as_mut().unwrap().message = Some("a\u{1b}]0;b".to_owned());
        ask.outcome.as_mut().unwrap().stop = true;
        assert_eq!(settled(&ask).as_deref(), Some("denied by you in the terminal: a\\u{1b}]0;b (and stop)"));
    }
}
