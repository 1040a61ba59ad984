//! `askd log`: the decision log.

use askd_wire::LogEntry;

use crate::cmd::list::json;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, Style};
use crate::view::{self, Clock};

pub(crate) fn log(desk: &Desk, since: Option<&str>, session: Option<&str>, as_json: bool) -> Done {
    let clock = Clock::system();
    let since = since.map(|since| clock.since(since)).transpose()?;
    let entries = desk.answers()?.log(since.as_deref(), session)?;
    let text = if as_json { json_lines(&entries)? } else { lines(&entries, &clock) };
    out::print(&text)?;
    Ok(status::OK)
}

fn json_lines(entries: &[LogEntry]) -> Result<String, Failure> {
    let mut text = String::new();
    for entry in entries {
        text.push_str(&json(entry)?);
        text.push('\n');
    }
    Ok(text)
}

fn lines(entries: &[LogEntry], clock: &Clock) -> String {
    if entries.is_empty() {
        return "nothing in the log\n".to_owned();
    }
    let style = Style::of_stdout();
    entries.iter().map(|entry| view::log_line(entry, clock, style) + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_of_the_log_is_one_entry_a_line() {
        let entry: LogEntry = serde_json::from_str(
            r#"{"position":7,"at":"2026-11-30T08:00:00.000Z","stream":"ask/01930a00","what":"asked","handle":"k7f",
            "text":"asked: Bash: cargo test","event":{"asked":{"x":1}}}"#,
        )
        .unwrap();
        insta::assert_snapshot!(json_lines(&[entry.clone(), entry]).unwrap());
    }
}
