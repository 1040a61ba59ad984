//! `askd config`: what the settings are, whether they are right, and letting a loosened one into force.

use std::time::Duration;

use askd_client::{Answers, CallError, daemon};
use askd_config::{Config, Layers};
use askd_wire::{Health, Loosening};

use crate::cli::ConfigAction;
use crate::confirm;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::out::{self, safe};
use crate::silence;

/// Longer than a command for the bot's token may take.
const READ: Duration = Duration::from_secs(20);

pub(crate) fn command(desk: &Desk, action: Option<ConfigAction>) -> Done {
    match action {
        None => out::print(&askd_config::default_file())?,
        Some(ConfigAction::Schema) => out::print(&askd_config::schema())?,
        Some(ConfigAction::Check) => return check(desk),
        Some(ConfigAction::Explain { key }) => explain(desk, &key)?,
        Some(ConfigAction::Accept { key, yes }) => return accept(desk, key.as_deref(), yes),
    }
    Ok(status::OK)
}

/// The settings as a daemon started here would read them. Every error is a line.
pub(crate) fn load(desk: &Desk) -> Result<Config, Vec<String>> {
    let layers = Layers::new().file(desk.places.config_file()).env(std::env::vars_os());
    layers.load().map_err(|errors| errors.errors().iter().map(ToString::to_string).collect())
}

/// Whether the bell rings for a new ask; a config that cannot be read takes no bell away.
pub(crate) fn bell(desk: &Desk) -> bool {
    load(desk).map_or(true, |config| config.settings().notify.bell)
}

fn check(desk: &Desk) -> Done {
    let file = desk.places.config_file();
    let config = match load(desk) {
        Ok(config) => config,
        Err(errors) => {
            for error in errors {
                out::tell(&error);
            }
            return Err(Failure::quiet(status::DENIED));
        }
    };
    let named = safe(&file.to_string_lossy());
    let found = if file.exists() { "is right" } else { "does not exist: every setting has its default" };
    out::print_line(&format!("{named} {found}"))?;
    for warning in askd_config::warnings(config.settings()) {
        out::print_line(&format!("warning: {warning}"))?;
    }
    let mut waiting = health(desk).map(|health| health.waiting_loosenings);
    for loosening in askd_config::loosenings(config.settings()) {
        let is_it = |other: &Loosening| other.key == loosening.key && other.value == loosening.value;
        let text = match &waiting {
            // What the running daemon does not name any more was accepted.
            Some(waiting) if !waiting.iter().any(is_it) => {
                format!(
                    "{} = {} is loosened, and a person accepted it",
                    loosening.key,
                    safe(&loosening.value)
                )
            }
            _ => loosening.to_string(),
        };
        out::print_line(&text)?;
        if let Some(waiting) = &mut waiting {
            waiting.retain(|other| !is_it(other));
        }
    }
    // A token, which the config alone does not show, and what an edit or the daemon's own environment has.
    for other in waiting.into_iter().flatten() {
        let named = format!("{} = {}", safe(&other.key), safe(&other.value));
        let meaning = other.meaning.map(|meaning| format!(" ({})", safe(&meaning))).unwrap_or_default();
        out::print_line(&format!("{named} waits until a person accepts it{meaning}"))?;
    }
    Ok(status::OK)
}

fn explain(desk: &Desk, key: &str) -> Result<(), Failure> {
    // A wrong key is told even when the file has other errors.
    askd_config::keys::find(key).map_err(|error| Failure::wrong_use(error.to_string()))?;
    let config = load(desk).map_err(|errors| Failure::new(status::DENIED, errors.join("\n")))?;
    let explanation = config.explain(key).map_err(|error| Failure::wrong_use(error.to_string()))?;
    out::print_line(&explanation.to_string())?;
    let waits =
        health(desk).is_some_and(|health| health.waiting_loosenings.iter().any(|found| found.key == key));
    if waits {
        out::print_line(
            "  waits    it is looser than the default; a person lets it in with `askd config accept`",
        )?;
    }
    Ok(())
}

/// What the running daemon says; none when none runs.
fn health(desk: &Desk) -> Option<Health> {
    let mut connection = daemon::connect_answer(&desk.places).ok()?;
    let told = silence::health(&mut connection);
    if told.is_none() {
        let (what, todo) = silence::about(&desk.places);
        out::tell(&format!("askd: {what} ({todo})"));
    }
    told?.ok()
}

/// What the daemon says when it has read everything that the config leads to, or as it is after so long.
fn health_when_read(answers: &mut Answers, patience: Duration) -> Result<Health, CallError> {
    silence::when_read(patience, || answers.health(), |told| told.as_ref().ok())
}

fn accept(desk: &Desk, key: Option<&str>, yes: bool) -> Done {
    let mut answers = desk.answers()?;
    let mut first: Option<Vec<Loosening>> = None;
    let mut asked: Vec<Loosening> = Vec::new();
    let mut left = false;
    let mut by_command = false;
    loop {
        let waiting = health_when_read(&mut answers, READ)?.waiting_loosenings;
        let first = first.get_or_insert_with(|| waiting.clone());
        let is_next = |waits: &&Loosening| {
            key.is_none_or(|key| waits.key == key) && is_meant(waits, first, &asked, by_command)
        };
        let Some(loosening) = waiting.iter().find(is_next) else {
            if asked.is_empty() {
                return nothing_waits(key, &waiting);
            }
            return Ok(if left { status::DENIED } else { status::OK });
        };
        asked.push(loosening.clone());
        let named = format!("{} = {}", safe(&loosening.key), safe(&loosening.value));
        if !(yes || key.is_some() || confirm(&format!("{named}{}", meaning(&loosening.key)))?) {
            left = true;
            out::print_line(&format!("{named} still waits"))?;
            continue;
        }
        let mut connection = desk.running()?;
        connection.set_timeout(Duration::from_secs(30));
        connection.command("POST", "/v1/config/accept", Some(loosening))?;
        by_command |= loosening.key == "telegram.token_cmd";
        out::print_line(&format!("{named} is in force"))?;
    }
}

/// Whether a yes that was given at the start is for this too. What came into the config meanwhile is nobody's yes, and
/// neither is a token that turned up; one that a command gives is when this run accepted the command.
fn is_meant(waits: &Loosening, first: &[Loosening], asked: &[Loosening], by_command: bool) -> bool {
    let same = |other: &Loosening| other.key == waits.key && other.value == waits.value;
    let known = first.iter().any(same) || (by_command && waits.key == askd_config::TOKEN);
    known && !asked.iter().any(same)
}

fn nothing_waits(key: Option<&str>, waiting: &[Loosening]) -> Done {
    match key {
        Some(key) if !waiting.is_empty() => {
            let keys: Vec<String> = waiting.iter().map(|waits| safe(&waits.key)).collect();
            Err(Failure::wrong_use(format!("{} does not wait; {} does", safe(key), keys.join(", "))))
        }
        Some(key) => Err(Failure::wrong_use(format!("{} does not wait; no setting does", safe(key)))),
        None => {
            out::print_line("no setting waits for a person")?;
            Ok(status::OK)
        }
    }
}

fn meaning(key: &str) -> String {
    let known = askd_config::keys::find(key).ok();
    known.map(|key| format!(" ({})", key.meaning)).unwrap_or_default()
}

/// A person's own yes; a blank line is none.
fn confirm(what: &str) -> Result<bool, Failure> {
    if !confirm::is_attended() {
        return Err(Failure::wrong_use(format!(
            "waits: {what}. Nobody is at this terminal to say yes; name the key, or add --yes"
        )));
    }
    confirm::confirmed(&format!("{what}\naccept it? (yes/no) "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(key: &str, value: &str) -> Loosening {
        Loosening { key: key.to_owned(), value: value.to_owned(), meaning: None }
    }

    #[test]
    fn s2_a_yes_at_the_start_is_for_what_waits_then_and_for_the_token_of_a_command_that_it_was_for() {
        let first = [waits("telegram.token_cmd", "pass"), waits("telegram.user_ids", "11")];
        let (token, stranger) = (waits(askd_config::TOKEN, "bot 666"), waits("telegram.user_ids", "66"));
        assert!(is_meant(&first[0], &first, &[], false));
        assert!(!is_meant(&first[0], &first, &first[..1], false), "once");
        assert!(!is_meant(&token, &first, &first[1..], false), "it came from somewhere else");
        assert!(is_meant(&token, &first, &first[..1], true));
        assert!(!is_meant(&token, &first, std::slice::from_ref(&token), true), "once");
        assert!(!is_meant(&stranger, &first, &[], true));
        assert!(is_meant(&token, std::slice::from_ref(&token), &[], false), "it was there at the start");
    }
}
