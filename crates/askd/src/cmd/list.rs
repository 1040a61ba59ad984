//! `askd ls`, `askd show`, `askd sessions`.

use askd_client::Answers;
use askd_wire::{Ask, AskState};

use crate::context::{Desk, who};
use crate::failure::{Done, Failure, status};
use crate::out::{self, Style};
use crate::target;
use crate::view::{self, Clock};

/// JSON of the wire types, on one line.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value)
        .map_err(|error| Failure::unavailable(format!("cannot be written as JSON: {error}")))
}

pub(crate) fn ls(desk: &Desk, all: bool, as_json: bool) -> Done {
    let mut answers = desk.answers()?;
    let asks = answers.list(all)?;
    if as_json {
        out::print_line(&json(&asks)?)?;
        return Ok(status::OK);
    }
    let who = if asks.is_empty() { view::Who::default() } else { who(&mut answers) };
    let text = if asks.is_empty() && all {
        "no asks\n".to_owned()
    } else {
        let clock = clock_for(&mut answers, &asks);
        view::asks(&asks, &who, &clock, out::width(), Style::of_stdout())
    };
    out::print(&text)?;
    Ok(status::OK)
}

/// The clock for these asks. Where one is due and open all the same, the daemon says whether it can be recorded.
fn clock_for(answers: &mut Answers, asks: &[Ask]) -> Clock {
    let clock = Clock::system();
    let is_due = |ask: &Ask| {
        let left = ask.deadline.as_deref().and_then(|deadline| clock.until(deadline));
        ask.state == AskState::Open && left.is_some_and(|left| left.is_zero())
    };
    let fails = asks.iter().any(is_due) && answers.health().is_ok_and(|health| health.not_recorded.is_some());
    clock.where_it_records(!fails)
}

pub(crate) fn show(desk: &Desk, id: &str, as_json: bool) -> Done {
    let mut answers = desk.answers()?;
    let ask = target::find(&mut answers, id)?;
    if as_json {
        out::print_line(&json(&ask)?)?;
    } else {
        let who = who(&mut answers);
        let clock = clock_for(&mut answers, std::slice::from_ref(&ask));
        out::print(&view::card(&ask, &who, &clock, Style::of_stdout()))?;
    }
    Ok(status::OK)
}

pub(crate) fn sessions(desk: &Desk, as_json: bool) -> Done {
    let sessions = desk.answers()?.sessions()?;
    if as_json {
        out::print_line(&json(&sessions)?)?;
    } else {
        let who = view::Who::new(Vec::new());
        out::print(&view::sessions(&sessions, &who, &Clock::system(), Style::of_stdout()))?;
    }
    Ok(status::OK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::samples;

    #[test]
    fn c13_the_json_of_asks_keeps_the_input_byte_for_byte() {
        let text = json(&[samples::background(), samples::settled()]).unwrap();
        assert!(text.contains(r#""input":{"command":"cargo test\nrm x","n": 1.0e2}"#), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn c8_the_json_of_sessions_has_the_waiting_count() {
        insta::assert_snapshot!(json(&[samples::session()]).unwrap());
    }
}
