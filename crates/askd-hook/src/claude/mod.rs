//! Claude Code: one program for all its hook events, told apart by `hook_event_name`.

mod around;
mod child;
mod decide;
mod event;
mod grants;
mod observe;
mod raise;
pub mod settings;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door};
use askd_client::{Asker, Connection, Places, Unavailable, random_hex};
use askd_wire::{Ask, WithdrawByKey};

use crate::claude::around::{Arguments, Around};
use crate::claude::child::Child;
use crate::claude::event::Event;
use crate::watch::AgentWatch;

/// Name of this agent in asks and observations.
pub const AGENT: &str = "claude-code";
/// Longest event that is read.
const MOST_STDIN: u64 = 16 * 1024 * 1024;
/// For a daemon that is there and does not answer: the agent must not notice.
const OBSERVE_PATIENCE: Duration = Duration::from_secs(1);
/// For a daemon that has to be started before it can be told something.
const START_PATIENCE: Duration = Duration::from_secs(3);
/// For telling the daemon what became of an outcome, while the agent waits for this process to end.
const TELL_PATIENCE: Duration = Duration::from_millis(500);

/// `askd hook claude-code`: an event on standard input, a decision or nothing on standard output. `args` are those
/// behind `claude-code`: the places (`--dir`, or `--config-home` with `--state-home`; they beat the environment),
/// `--timeout SECS` (as configured for this hook) and `--owner NAME`.
///
/// The exit status is always 0, also when something was wrong: then standard output stays empty, standard error says
/// what it was, and Claude asks by itself.
pub fn main_claude_code(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let began = Instant::now();
    if let Err(why) = run(args, began) {
        // The pipe may be closed, and a failed print must not become a panic.
        let _ = writeln!(io::stderr(), "askd hook: {why}");
    }
    ExitCode::SUCCESS
}

fn run(args: impl IntoIterator<Item = OsString>, began: Instant) -> Result<(), String> {
    let arguments = Arguments::parse(args).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MOST_STDIN + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("standard input: {error}"))?;
    if bytes.len() as u64 > MOST_STDIN {
        return Err("the event is larger than 16 MiB".to_owned());
    }
    let event =
        Event::parse(&bytes).map_err(|error| format!("the event is not what Claude sends: {error}"))?;
    let places = match &arguments.places {
        Some(places) => places.clone(),
        None => Places::from_env().map_err(|error| error.to_string())?,
    };
    let around = Around::look(&arguments);
    if event.hook_event_name == "PermissionRequest" {
        if around.owned {
            return Ok(());
        }
        ask(&event, &around, places, arguments.patience(began.elapsed()))
    } else {
        observe(&event, &around, &places)
    }
}

fn observe(event: &Event<'_>, around: &Around, places: &Places) -> Result<(), String> {
    let child = if event.hook_event_name == "PreToolUse" { Child::of(event) } else { Child::default() };
    let seen = observe::observations(event, &child)
        .map_err(|field| format!("{} without {field}", event.hook_event_name))?;
    if seen.is_empty() {
        return Ok(());
    }
    let batch = observe::batch(event, around, seen);
    let starts = matches!(event.hook_event_name.as_str(), "PreToolUse" | "SubagentStart");
    let mut connection = match open(places, starts) {
        Ok(connection) => connection,
        // With no daemon there is nobody to tell, and nothing is wrong.
        Err(Unavailable::NotRunning(_) | Unavailable::Stopped) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    connection.set_timeout(OBSERVE_PATIENCE);
    connection.command("POST", "/v1/observations", Some(&batch)).map_err(|error| error.to_string())
}

fn open(places: &Places, starts: bool) -> Result<Connection, Unavailable> {
    let found = daemon::connect(places, Door::Ask, Some(Instant::now() + OBSERVE_PATIENCE));
    match (&found, starts.then(daemon::own_exe).flatten()) {
        (Err(Unavailable::NotRunning(_)), Some(exe)) => {
            daemon::connect_or_start(places, Door::Ask, Some(&exe), Instant::now() + START_PATIENCE)
        }
        _ => found,
    }
}

fn ask(event: &Event<'_>, around: &Around, places: Places, patience_secs: u64) -> Result<(), String> {
    let missing = |field| format!("PermissionRequest without {field}");
    let child = Child::of(event);
    let key = random_hex().map_err(|error| format!("no random bits: {error}"))?;
    let raise = raise::raise(event, around, around.front(), &child, key, patience_secs).map_err(missing)?;
    // Claude's own dialog must not be held up by a daemon that does not answer.
    let limit = event.needs_own_prompt().then(|| Instant::now() + START_PATIENCE);
    let mut asker = Asker::new(places.clone(), daemon::own_exe()).map_err(|error| error.to_string())?;
    let (token, key) = (asker.token().to_owned(), raise.key.clone());
    let mut watch = AgentWatch::new(around.instance.pid, limit, || cancel(&places, &token, &key));
    match asker.ask_watched(&raise, &mut watch) {
        Ok(ask) => deliver(event, &ask, &mut asker),
        Err(Unavailable::GaveUp(Some(ask))) => {
            let body = br#"{"cause":"handed_back"}"#;
            let told = asker.tell(&ask.id, "withdraw", Some(body), TELL_PATIENCE);
            told.map_err(|error| format!("the time limit passed, and handing the ask back failed: {error}"))
        }
        Err(Unavailable::Released) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The agent ended this hook: its own dialog was refused or the turn interrupted. Said before the connection closes,
/// because a lost hook alone is no cancel. The id is not known yet: the first request is still held.
fn cancel(places: &Places, token: &str, key: &str) {
    let deadline = Instant::now() + TELL_PATIENCE;
    let Ok(mut connection) = daemon::connect(places, Door::Ask, Some(deadline)) else { return };
    connection.set_token(Some(token.to_owned()));
    connection.set_deadline(Some(deadline));
    let body = WithdrawByKey { key: key.to_owned(), cause: "cancelled".to_owned() };
    // When it cannot be told the closing connection still withdraws the ask.
    let _ = connection.command("POST", "/v1/asks/withdraw", Some(&body));
}

/// Prints the decision as the last thing that matters; only then is the outcome handed.
fn deliver(event: &Event<'_>, ask: &Ask, asker: &mut Asker) -> Result<(), String> {
    let Some(line) = decide::decision(event, ask)? else { return Ok(()) };
    print(&line).map_err(|error| format!("the decision could not be printed: {error}"))?;
    asker.tell(&ask.id, "handed", None, TELL_PATIENCE).map_err(|error| error.to_string())
}

/// One write, past the buffer of `Stdout`, which would cut it at line ends.
fn print(line: &str) -> io::Result<()> {
    let mut stdout = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}
