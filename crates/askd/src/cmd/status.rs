//! `askd status`: one line for tmux or a shell prompt, in a few milliseconds. Starts nothing and never waits long.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use askd_client::Unavailable;
use askd_client::daemon::{Door, connect};
use askd_wire::{Ask, Health};
use serde::Serialize;

use crate::cmd::list;
use crate::context::Desk;
use crate::failure::{Done, status};
use crate::out::{self, safe, short};

/// A status bar must not hang on a daemon that does.
const PATIENCE: Duration = Duration::from_millis(250);

/// What `--json` prints: the same for a program.
#[derive(Debug, Serialize)]
struct Status {
    state: State,
    /// The line for people. Names in it are safe to show.
    text: String,
    /// As the daemon tells it; absent where none answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    health: Option<Health>,
    /// The ask that waits longest.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<Ask>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Running,
    NotRunning,
    /// By a person; nothing starts it but a person.
    Stopped,
    DoesNotAnswer,
    /// Its place is not safe to use.
    Refused,
}

pub(crate) fn line(desk: &Desk, as_json: bool) -> Done {
    let status = look(desk);
    if as_json {
        out::print_line(&list::json(&status)?)?;
    } else {
        let text = if std::io::stdout().is_terminal() { status.text } else { inert(&status.text) };
        out::print_line(&text)?;
    }
    Ok(if status.state == State::Running { status::OK } else { status::UNAVAILABLE })
}

/// Bars and prompts take markup out of what a program prints: tmux `#[…]`, zsh and lemonbar `%`, Pango `<…>` and `&`, dzen2
/// `^…`. Names of agents and tools hold what an agent likes.
fn inert(text: &str) -> String {
    text.chars().map(|c| if "#%<>&^$`".contains(c) { '?' } else { c }).collect()
}

fn look(desk: &Desk) -> Status {
    let without = |state, text: String| Status { state, text, health: None, first: None };
    let silent = || without(State::DoesNotAnswer, "askd: does not answer".to_owned());
    let deadline = Some(Instant::now() + PATIENCE);
    let mut connection = match connect(&desk.places, Door::Answer, deadline) {
        Ok(connection) => connection,
        Err(Unavailable::NotRunning(_)) if desk.places.stopped_file().exists() => {
            return without(State::Stopped, "askd: stopped".to_owned());
        }
        Err(Unavailable::NotRunning(_)) => {
            return without(State::NotRunning, "askd: not running".to_owned());
        }
        Err(Unavailable::Unsafe(why)) => {
            return without(State::Refused, out::one_line(&format!("askd: refused: {why}")));
        }
        Err(_) => return silent(),
    };
    connection.set_deadline(deadline);
    let health: Health = match connection.call("GET", "/healthz", None::<&()>) {
        Ok(health) => health,
        Err(_) => return silent(),
    };
    // Of the asks only the first is told; the daemon need not send them all.
    let first: Vec<Ask> = match health.open {
        0 => Vec::new(),
        _ => connection.call("GET", "/v1/asks?state=open&limit=1", None::<&()>).unwrap_or_default(),
    };
    let first = first.into_iter().next();
    Status { state: State::Running, text: text(&health, first.as_ref()), health: Some(health), first }
}

fn text(health: &Health, first: Option<&Ask>) -> String {
    let mut text = format!("askd: {} waiting", health.open);
    if let Some(ask) = first {
        text.push_str(&format!(
            " ({} {} {})",
            short(&ask.lineage.agent, 20),
            safe(&ask.handle),
            short(&ask.action.tool, 20)
        ));
    }
    // Why nothing asks comes before why something does not work.
    if let Some(skipping) = health.skipping.text() {
        text.push_str(&format!(", {}", short(&skipping, 80)));
    }
    if let Some(why) = &health.not_recorded {
        text.push_str(&format!(", nothing can be recorded: {}", short(why, 100)));
    }
    for remote in &health.remotes {
        let name = short(&remote.name, 20);
        match (&remote.trouble, remote.attached) {
            (Some(trouble), _) => {
                text.push_str(&format!(", {name} does not work: {}", short(trouble, 60)));
            }
            (None, true) => text.push_str(&format!(", {name} works")),
            (None, false) => text.push_str(&format!(", {name} begins")),
        }
    }
    if health.config_is_broken {
        text.push_str(", the config has an error: askd config check");
    }
    if !health.waiting_loosenings.is_empty() {
        text.push_str(", settings wait: askd config accept");
    }
    text
}

#[cfg(test)]
mod tests {
    use askd_wire::{Loosening, Skipping};

    use super::*;
    use crate::view::samples;

    #[test]
    fn one_line_says_how_many_wait_and_for_what() {
        let mut health = Health {
            ok: true,
            pid: 1,
            version: "0".to_owned(),
            api: 1,
            open: 0,
            surfaces: 0,
            journal: "sqlite".to_owned(),
            not_recorded: None,
            config_is_broken: false,
            waiting_loosenings: Vec::new(),
            reading: false,
            skipping: Skipping::default(),
            notices: Vec::new(),
            remotes: Vec::new(),
        };
        assert_eq!(text(&health, None), "askd: 0 waiting");
        health.open = 2;
        assert_eq!(text(&health, Some(&samples::background())), "askd: 2 waiting (claude-code k7f Bash)");
        health.waiting_loosenings.push(Loosening {
            key: "k".to_owned(),
            value: "v".to_owned(),
            meaning: None,
        });
        assert!(text(&health, None).ends_with("askd config accept"));
        health.skipping.everywhere = true;
        assert!(
            text(&health, None).starts_with("askd: 2 waiting, skip-permissions is on everywhere, settings")
        );
        health.skipping = Skipping { on: vec!["a/\u{1b}[2Js".to_owned()], ..Skipping::default() };
        let line = text(&health, None);
        assert!(line.contains("skip-permissions is on in a/\\u{1b}[2Js, "), "{line}");
        health.skipping = Skipping::default();
        health.config_is_broken = true;
        health.not_recorded = Some("the disk is full".to_owned());
        let line = text(&health, None);
        let both = "askd: 2 waiting, nothing can be recorded: the disk is full, the config has an error: askd config check";
        assert!(line.starts_with(both), "{line}");
    }

    #[test]
    fn the_json_of_the_status_keeps_its_shape() {
        let text = "askd: not running".to_owned();
        let status = Status { state: State::NotRunning, text, health: None, first: None };
        assert_eq!(list::json(&status).unwrap(), r#"{"state":"not_running","text":"askd: not running"}"#);
        let health = Health {
            skipping: Skipping { everywhere: true, ..Skipping::default() },
            remotes: Vec::new(),
            ..serde_json::from_str(
                r#"{"ok":true,"pid":1,"version":"0","api":1,"open":1,"surfaces":0,"journal":"sqlite"}"#,
            )
            .unwrap()
        };
        let first = Some(samples::background());
        let status =
            Status { state: State::Running, text: text_of(&health, &first), health: Some(health), first };
        insta::assert_snapshot!(list::json(&status).unwrap());
    }

    fn text_of(health: &Health, first: &Option<Ask>) -> String {
        text(health, first.as_ref())
    }

    #[test]
    fn s4_names_are_no_markup_of_the_bar_that_shows_them() {
        for (name, shown) in [
            ("#[fg=black,bg=black]", "?[fg=black,bg=black]"),
            ("#{host}#(id)", "?{host}?(id)"),
            ("%{F#000}%F{black}", "?{F?000}?F{black}"),
            ("<span>&lt;^fg()$x`y", "?span??lt;?fg()?x?y"),
            ("mcp__git-hub.x/y:z (1)", "mcp__git-hub.x/y:z (1)"),
        ] {
            assert_eq!(inert(name), shown);
        }
    }
}
