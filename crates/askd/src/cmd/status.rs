//! `askd status`: one line for tmux or a shell prompt, in a few milliseconds. Starts nothing and never waits long.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use askd_client::Unavailable;
use askd_client::daemon::{Door, connect};
use askd_wire::{Ask, Health};

use crate::context::Desk;
use crate::failure::{Done, status};
use crate::out::{self, safe, short};

/// A status bar must not hang on a daemon that does.
const PATIENCE: Duration = Duration::from_millis(250);

pub(crate) fn line(desk: &Desk) -> Done {
    let (code, text) = look(desk);
    let text = if std::io::stdout().is_terminal() { text } else { inert(&text) };
    out::print_line(&text)?;
    Ok(code)
}

/// Bars and prompts take markup out of what a program prints: tmux `#[…]`, zsh and lemonbar `%`, Pango `<…>` and `&`, dzen2
/// `^…`. Names of agents and tools hold what an agent likes.
fn inert(text: &str) -> String {
    text.chars().map(|c| if "#%<>&^$`".contains(c) { '?' } else { c }).collect()
}

fn look(desk: &Desk) -> (u8, String) {
    let deadline = Some(Instant::now() + PATIENCE);
    let mut connection = match connect(&desk.places, Door::Answer, deadline) {
        Ok(connection) => connection,
        Err(Unavailable::NotRunning(_)) => {
            let stopped = desk.places.stopped_file().exists();
            let text = if stopped { "askd: stopped" } else { "askd: not running" };
            return (status::UNAVAILABLE, text.to_owned());
        }
        Err(Unavailable::Unsafe(why)) => {
            return (status::UNAVAILABLE, out::one_line(&format!("askd: refused: {why}")));
        }
        Err(_) => return (status::UNAVAILABLE, "askd: does not answer".to_owned()),
    };
    connection.set_deadline(deadline);
    let health: Health = match connection.call("GET", "/healthz", None::<&()>) {
        Ok(health) => health,
        Err(_) => return (status::UNAVAILABLE, "askd: does not answer".to_owned()),
    };
    // Of the asks only the first is told; the daemon need not send them all.
    let first: Vec<Ask> = match health.open {
        0 => Vec::new(),
        _ => connection.call("GET", "/v1/asks?state=open&limit=1", None::<&()>).unwrap_or_default(),
    };
    (status::OK, text(&health, first.first()))
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
    use askd_wire::Loosening;

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
        health.config_is_broken = true;
        health.not_recorded = Some("the disk is full".to_owned());
        let line = text(&health, None);
        let both = "askd: 2 waiting, nothing can be recorded: the disk is full, the config has an error: askd config check";
        assert!(line.starts_with(both), "{line}");
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
