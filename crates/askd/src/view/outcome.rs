//! What will become of an ask by itself, and what became of it, by this clock.

use std::time::Duration;

use askd_wire::{Ask, Delivery};
use askd_words as words;

use crate::view::time::Clock;

/// A requester's own limit further away than this is told with the whole ask only.
const FAR: Duration = Duration::from_secs(900);

/// The timed answer of an open ask: `auto-deny in 5m12s`.
pub(crate) fn timed(ask: &Ask, clock: &Clock) -> Option<String> {
    if !words::is_answerable(ask) {
        return None;
    }
    let left = clock.until(ask.deadline.as_deref()?)?;
    let unrecorded = left.is_zero() && !clock.records();
    Some(if unrecorded { words::unrecorded(ask.default) } else { words::timed(ask.default, left) })
}

/// The requester's own limit: `its requester stops waiting in 55s`.
pub(crate) fn gives_up(ask: &Ask, clock: &Clock) -> Option<String> {
    if !words::is_answerable(ask) {
        return None;
    }
    let left = clock.until(ask.gives_up_at.as_deref()?)?;
    let deadline = ask.deadline.as_deref().and_then(|deadline| clock.until(deadline));
    Some(words::gives_up(left, deadline.is_some_and(|deadline| deadline > left)))
}

/// The same where it is near enough to matter in a list.
pub(crate) fn gives_up_soon(ask: &Ask, clock: &Clock) -> Option<String> {
    let left = clock.until(ask.gives_up_at.as_deref()?)?;
    if left <= FAR { gives_up(ask, clock) } else { None }
}

/// Where else an open ask may be answered, or may have been.
pub(crate) fn elsewhere(ask: &Ask, clock: &Clock) -> Option<String> {
    let away = ask.requester.since.as_deref().map(|since| clock.ago(since));
    words::elsewhere(ask, away.as_deref())
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
    ask.outcome.as_ref().map(words::settled)
}

/// What became of the outcome, where that is worth a word.
pub(crate) fn delivery(ask: &Ask) -> Option<&'static str> {
    words::correction(ask.delivery).or_else(|| words::delivery(ask.delivery))
}

/// Deliveries that change what a person must believe.
pub(crate) fn is_correction(delivery: Delivery) -> bool {
    words::correction(delivery).is_some()
}

/// A late answer that is kept.
pub(crate) fn late(ask: &Ask, clock: &Clock) -> Option<String> {
    ask.late.as_ref().map(|late| words::late(late, &clock.local(&late.until)))
}

#[cfg(test)]
mod tests {
    use askd_wire::Decision;

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
            timed(&ask, &Clock::fixed("2026-11-30T08:07:00Z").where_it_records(false)).as_deref(),
            Some("back to the agent's own prompt as soon as it can be recorded")
        );
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
}
