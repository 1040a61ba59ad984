//! `askd allow`, `askd deny`, `askd withdraw`: one line for each id, the worst status of all.

use askd_client::Answers;
use askd_wire::{Answer, Ask, Choice, ChoiceKind, Code, Decision};

use crate::context::Desk;
use crate::failure::{Done, Failure, status, status_of};
use crate::out::{self, one_line, safe};
use crate::target;
use crate::view::{self, Clock};

/// How answers of the command line are named in outcomes.
pub(crate) const SURFACE: &str = "the command line";

/// What a person said about one or several asks.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) decision: Decision,
    pub(crate) option: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) stop: bool,
}

/// What an answer is bound to: the ask as it was shown.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) handle: String,
    pub(crate) digest: String,
    pub(crate) options: Vec<Choice>,
    /// Nothing of it was cut.
    pub(crate) complete: bool,
}

impl Shown {
    pub(crate) fn of(ask: &Ask) -> Self {
        Self {
            id: ask.id.clone(),
            handle: ask.handle.clone(),
            digest: ask.digest.clone(),
            options: ask.options.clone(),
            complete: ask.display.iter().all(|field| field.complete),
        }
    }
}

pub(crate) fn answer(desk: &Desk, ids: &[String], said: &Said) -> Done {
    let mut answers = desk.answers()?;
    each(ids, |id| {
        let ask = target::find(&mut answers, id)?;
        give(&mut answers, &Shown::of(&ask), said, SURFACE)
    })
}

pub(crate) fn withdraw(desk: &Desk, ids: &[String]) -> Done {
    let mut answers = desk.answers()?;
    each(ids, |id| {
        let ask = target::find(&mut answers, id)?;
        match answers.withdraw(&ask.id, "cancelled") {
            Ok(()) => Ok(format!("{}: withdrawn; nobody decided it", safe(&ask.handle))),
            Err(error) => Err(refused(&ask.handle, error, &Clock::system())),
        }
    })
}

/// Answers one ask as it was shown: the digest goes with the answer. `Ok` is what happened, in one line.
pub(crate) fn give(
    answers: &mut Answers,
    ask: &Shown,
    said: &Said,
    surface: &str,
) -> Result<String, Failure> {
    check_option(ask, said)?;
    if said.decision == Decision::Allow && !ask.complete {
        let text = "not all of it can be shown here, so it cannot be allowed here; deny can be said";
        return Err(Failure::new(status::NOT_PERMITTED, format!("{}: {text}", safe(&ask.handle))));
    }
    let answer = Answer {
        decision: said.decision,
        digest: ask.digest.clone(),
        option: said.option.clone(),
        message: said.message.clone(),
        stop: said.stop,
        surface: Some(surface.to_owned()),
    };
    match answers.answer(&ask.id, &answer) {
        Ok(settled) => {
            let how = view::outcome::answered(&settled, &Clock::system());
            Ok(format!("{}: {how}", safe(&ask.handle)))
        }
        Err(error) => Err(refused(&ask.handle, error, &Clock::system())),
    }
}

/// An option says by its kind whether it allows; saying the opposite is a slip, and not to be guessed about.
fn check_option(ask: &Shown, said: &Said) -> Result<(), Failure> {
    let Some(id) = &said.option else { return Ok(()) };
    let handle = safe(&ask.handle);
    let Some(choice) = ask.options.iter().find(|choice| choice.id == *id) else {
        let ids: Vec<String> = ask.options.iter().map(|choice| safe(&choice.id)).collect();
        return Err(Failure::wrong_use(format!(
            "{handle} has no option {}; it has {}",
            safe(id),
            ids.join(", ")
        )));
    };
    let allows = matches!(choice.kind, ChoiceKind::AllowOnce | ChoiceKind::AllowAlways);
    match (said.decision, allows) {
        (Decision::Allow, false) => {
            Err(Failure::wrong_use(format!("{handle}: the option {} denies; use deny with it", safe(id))))
        }
        (Decision::Deny, true) => {
            Err(Failure::wrong_use(format!("{handle}: the option {} allows; use allow with it", safe(id))))
        }
        _ => Ok(()),
    }
}

/// Why this call settled nothing, in the words of who did.
pub(crate) fn refused(handle: &str, error: askd_client::CallError, clock: &Clock) -> Failure {
    let handle = safe(handle);
    let Some(problem) = error.problem() else { return Failure::from(error).while_doing(handle) };
    let ask = problem.ask.as_deref();
    let how = ask.and_then(view::settled);
    let text = match (problem.code, how) {
        (Code::AlreadySettled, Some(how)) => {
            let at = ask.and_then(|ask| ask.outcome.as_ref()).map(|outcome| clock.ago(&outcome.settled_at));
            let at = at.map(|at| format!(", {at}")).unwrap_or_default();
            let late = ask.and_then(|ask| view::outcome::late(ask, clock));
            match late.filter(|_| problem.recorded.as_deref() == Some("late")) {
                Some(late) => format!("too late: {how}{at}; {late}"),
                None => format!("already settled: {how}{at}"),
            }
        }
        (Code::HandedBack, _) => {
            let at = ask.and_then(|ask| ask.requester.at.as_deref()).unwrap_or("agent");
            format!("handed back: only the {}'s own prompt can answer it now", safe(at))
        }
        (Code::DigestMismatch, _) => {
            "its content is not what was shown; look at it again with `askd show`".to_owned()
        }
        _ => one_line(&error.to_string()),
    };
    Failure::new(status_of(problem), format!("{handle}: {text}"))
}

/// Does it for every id and prints a line for each; the worst status counts.
fn each(ids: &[String], mut act: impl FnMut(&str) -> Result<String, Failure>) -> Done {
    let mut worst = status::OK;
    let mut seen: Vec<&String> = Vec::new();
    for id in ids {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        match act(id) {
            Ok(line) => out::print_line(&line)?,
            Err(failure) => {
                out::tell(&format!("askd: {}", failure.text));
                worst = worse(worst, failure.status);
            }
        }
    }
    Ok(worst)
}

/// The status that matters more. An id that nobody knows is worse than one that was settled before; not being
/// permitted, or having no daemon, is worse than both.
pub(crate) fn worse(one: u8, other: u8) -> u8 {
    const ORDER: [u8; 6] = [
        status::OK,
        status::ALREADY,
        status::UNKNOWN,
        status::WRONG_USE,
        status::UNAVAILABLE,
        status::NOT_PERMITTED,
    ];
    let rank = |status| ORDER.iter().position(|known| *known == status).unwrap_or(ORDER.len());
    if rank(other) > rank(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use askd_client::CallError;
    use askd_wire::Problem;

    use super::*;
    use crate::view::samples;

    fn said(decision: Decision, option: Option<&str>) -> Said {
        Said { decision, option: option.map(str::to_owned), message: None, stop: false }
    }

    fn problem(code: Code, ask: Option<Ask>) -> CallError {
        CallError::Refused(Box::new(Problem {
            kind: "about:blank".to_owned(),
            title: "title".to_owned(),
            status: 409,
            detail: None,
            code,
            recorded: None,
            ask: ask.map(Box::new),
        }))
    }

    #[test]
    fn an_option_that_says_the_opposite_is_refused() {
        let ask = Shown::of(&samples::background());
        assert!(check_option(&ask, &said(Decision::Allow, Some("always_1"))).is_ok());
        assert!(check_option(&ask, &said(Decision::Deny, Some("reject_once"))).is_ok());
        let text = |decision, option| check_option(&ask, &said(decision, Some(option))).unwrap_err().text;
        assert!(text(Decision::Allow, "reject_once").contains("denies"));
        assert!(text(Decision::Deny, "always_1").contains("allows"));
        assert!(text(Decision::Deny, "nope").contains("allow_once, always_1, reject_once"));
    }

    #[test]
    fn c5_who_was_first_is_told_and_the_status_says_it() {
        let clock = Clock::fixed("2026-11-30T07:02:30Z");
        let failure = refused("q2m", problem(Code::AlreadySettled, Some(samples::settled())), &clock);
        assert_eq!(
            failure.text,
            "q2m: already settled: denied by you in the terminal: not this folder, 2m ago"
        );
        assert_eq!(failure.status, 5);
        let mut handed = samples::background();
        handed.requester.at = Some("terminal".to_owned());
        let failure = refused("k7f", problem(Code::HandedBack, Some(handed)), &clock);
        assert_eq!((failure.status, failure.text.contains("terminal's own prompt")), (5, true));
        assert_eq!(refused("k7f", problem(Code::NotPermitted, None), &clock).status, 7);
        assert_eq!(refused("k7f", problem(Code::UnknownAsk, None), &clock).status, 6);
    }

    #[test]
    fn the_worst_status_counts() {
        assert_eq!([0, 5, 0].into_iter().fold(0, worse), 5);
        assert_eq!([6, 5, 0].into_iter().fold(0, worse), 6);
        assert_eq!([7, 6, 5].into_iter().fold(0, worse), 7);
        assert_eq!([5, 4].into_iter().fold(0, worse), 4);
    }
}
