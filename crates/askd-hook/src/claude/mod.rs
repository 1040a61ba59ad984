//! Claude Code: one program for all its hook events, told apart by `hook_event_name`.

mod around;
mod child;
mod decide;
mod doom;
mod event;
pub mod grants;
mod observe;
mod raise;
pub mod settings;
mod thread;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use askd_client::daemon::{self, Door};
use askd_client::{Asker, CallError, Connection, Places, Unavailable, random_hex};
use askd_wire::{Ask, LoopSeen, ObservationBatch, RaiseAsk, WithdrawByKey};

use crate::bytes;
use crate::claude::around::{Arguments, Around};
use crate::claude::child::Child;
use crate::claude::event::Event;
use crate::claude::raise::Subject;
pub use crate::claude::raise::kind;
use crate::claude::thread::{Then, Thread, signature};
use crate::home;
use crate::watch::AgentWatch;

/// Name of this agent in asks and observations.
pub const AGENT: &str = "claude-code";
/// Longest event that is read.
const MOST_STDIN: usize = 16 * 1024 * 1024;
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
    let read = bytes::read_to_end(io::stdin().as_fd(), MOST_STDIN + 1);
    let bytes = read.map_err(|error| format!("standard input: {error}"))?;
    if bytes.len() > MOST_STDIN {
        return Err("the event is larger than 16 MiB".to_owned());
    }
    let event =
        Event::parse(&bytes).map_err(|error| format!("the event is not what Claude sends: {error}"))?;
    let places = match &arguments.places {
        Some(places) => places.clone(),
        None => Places::from_vars(|name| std::env::var_os(name), home::of_user())
            .map_err(|error| error.to_string())?,
    };
    let thread = Thread::of(&event, &places);
    match event.hook_event_name.as_str() {
        // Nobody but the files of this thread is told.
        "PostToolBatch" => thread.map_or(Ok(()), |thread| doom::batch_ended(&event, &thread)),
        "PermissionRequest" => {
            let around = Around::look(&arguments);
            if around.owned || around.asks_our_tool() {
                return Ok(());
            }
            permission(&event, &around, places, thread.as_ref(), arguments.patience(began.elapsed()))
        }
        _ => {
            let around = Around::look(&arguments);
            match (event.hook_event_name.as_str(), &thread) {
                ("SubagentStop", Some(thread)) => thread.forget(),
                ("SessionEnd", Some(thread)) => thread.forget_session(),
                _ => {}
            }
            // Without a time-out of its own, in settings of an older askd, Claude would not wait for an answer.
            let may_ask = event.hook_event_name == "PreToolUse" && arguments.timeout_is_told;
            let gate = thread.filter(|_| may_ask);
            observe(&event, &around, places, gate.as_ref(), || arguments.patience(began.elapsed()))
        }
    }
}

/// `gate`: set for a call that can be asked about when it repeats itself.
fn observe(
    event: &Event<'_>,
    around: &Around,
    places: Places,
    gate: Option<&Thread>,
    patience_secs: impl Fn() -> u64,
) -> Result<(), String> {
    let name = event.hook_event_name.as_str();
    let child = if name == "PreToolUse" { Child::of(event) } else { Child::default() };
    let seen = observe::observations(event, &child, gate.map(Thread::running))
        .map_err(|field| format!("{name} without {field}"))?;
    if seen.is_empty() {
        return Ok(());
    }
    let batch = observe::batch(event, around, seen);
    let starts = matches!(name, "PreToolUse" | "SubagentStart");
    let mut connection = match open(&places, starts) {
        Ok(connection) => connection,
        // With no daemon there is nobody to tell, and nothing is wrong.
        Err(Unavailable::NotRunning(_) | Unavailable::Stopped) => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    connection.set_timeout(OBSERVE_PATIENCE);
    let repeated = tell(&mut connection, &batch).map_err(|error| error.to_string())?;
    match (repeated, gate) {
        (Some(seen), Some(thread)) if doom::is_loop(event, &seen, thread) => {
            drop(connection);
            doom::ask(event, around, places, &child, thread, &seen, patience_secs())
        }
        _ => Ok(()),
    }
}

/// Gives what the daemon says about the call that was announced.
fn tell(connection: &mut Connection, batch: &ObservationBatch) -> Result<Option<LoopSeen>, CallError> {
    let body = serde_json::to_vec(batch).map_err(CallError::Encode)?;
    let reply = connection.request("POST", "/v1/observations", Some(&body))?.into_success()?;
    Ok(serde_json::from_slice(&reply.body).ok())
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

fn permission(
    event: &Event<'_>,
    around: &Around,
    places: Places,
    thread: Option<&Thread>,
    patience_secs: u64,
) -> Result<(), String> {
    let missing = |field| format!("PermissionRequest without {field}");
    let repeated = thread.and_then(Thread::repeated).filter(|repeated| {
        let (tool, input) = (event.tool_name.as_deref(), event.tool_input);
        repeated.turn == event.prompt_id
            && tool.zip(input).is_some_and(|(tool, input)| repeated.signature == signature(tool, input.get()))
    });
    // Claude's own prompt is about to ask whether the repetition may go on. Nothing else may answer that.
    if repeated.as_ref().is_some_and(|repeated| repeated.then == Then::OwnPrompt) {
        return Ok(());
    }
    let (front, child) = (around.front(), Child::of(event));
    let call = repeated.map(|repeated| repeated.call);
    let subject = Subject::permission(event, front, &child, call).map_err(missing)?;
    let raise = raise::raise(event, around, front, &child, subject, nonce()?, patience_secs);
    // Claude's own dialog must not be held up by a daemon that does not answer.
    let limit = event.needs_own_prompt().then(|| Instant::now() + START_PATIENCE);
    let (result, mut asker) = wait(&raise, around, places, limit)?;
    match result {
        Ok(ask) => deliver(event, &ask, &mut asker),
        Err(Unavailable::GaveUp(Some(ask))) => hand_back(&ask, &mut asker),
        Err(Unavailable::Released) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

fn nonce() -> Result<String, String> {
    random_hex().map_err(|error| format!("no random bits: {error}"))
}

/// Raises the ask and waits for its end, for the agent's end, for the agent's word, or until `limit`.
fn wait(
    raise: &RaiseAsk,
    around: &Around,
    places: Places,
    limit: Option<Instant>,
) -> Result<(Result<Ask, Unavailable>, Asker), String> {
    let mut asker = Asker::beside_askd(places.clone()).map_err(|error| error.to_string())?;
    let (token, key) = (asker.token().to_owned(), raise.key.clone());
    let mut watch = AgentWatch::new(around.instance.pid, limit, || cancel(&places, &token, &key));
    let result = asker.ask_watched(raise, &mut watch);
    drop(watch);
    Ok((result, asker))
}

/// This hook's own time is over; Claude asks by itself.
fn hand_back(ask: &Ask, asker: &mut Asker) -> Result<(), String> {
    let told = asker.tell(&ask.id, "withdraw", Some(br#"{"cause":"handed_back"}"#), TELL_PATIENCE);
    told.map_err(|error| format!("the time limit passed, and handing the ask back failed: {error}"))
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
    bytes::write_all(io::stdout().as_fd(), line.as_bytes())
}
