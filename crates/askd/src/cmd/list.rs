//! `askd ls`, `askd show`, `askd sessions`.

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
        view::asks(&asks, &who, &Clock::system(), out::width(), Style::of_stdout())
    };
    out::print(&text)?;
    Ok(status::OK)
}

pub(crate) fn show(desk: &Desk, id: &str, as_json: bool) -> Done {
    let mut answers = desk.answers()?;
    let ask = target::find(&mut answers, id)?;
    if as_json {
        out::print_line(&json(&ask)?)?;
    } else {
        let who = who(&mut answers);
        out::print(&view::card(&ask, &who, &Clock::system(), Style::of_stdout()))?;
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
