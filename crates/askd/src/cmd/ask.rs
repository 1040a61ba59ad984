//! `askd ask`: raises an ask from a script and waits for its outcome, whatever breaks in between.

use std::io::{self, IsTerminal, Read};
use std::os::fd::BorrowedFd;
use std::time::Instant;

use askd_client::daemon;
use askd_client::{Asker, Places, Unavailable, Wake, Watch, random_hex};
use askd_wire::{
    Action, Ask, Attendance, Class, Delivery, OutcomeKind, RaiseAsk, RequesterKind, Subagent, Verdict,
};
use serde::Serialize;
use serde_json::Map;
use serde_json::value::RawValue;

use crate::cli::AskArgs;
use crate::cmd::list::json;
use crate::cmd::run_watch;
use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::identity;
use crate::out;
use crate::silence;
use crate::view;
use crate::waiting::{CallerWatch, Ended};

/// Name of the agent in asks of scripts.
const AGENT: &str = "script";
/// How long the ask stays open when this process is lost; the same call made again with the same key finds it.
const GRACE_SECS: u64 = 60;
/// What the daemon takes at most.
const MOST_INPUT: u64 = 16 * 1024 * 1024;

pub(crate) fn ask(desk: &Desk, args: AskArgs) -> Done {
    let as_json = args.json;
    let key = args.key.clone();
    let raise = raise(args)?;
    let mut asker = Asker::new(desk.places.clone(), daemon::own_exe())?;
    if let Some(key) = &key {
        asker = asker.with_token(identity::token_of(&desk.places, key)?);
    }
    let caller = CallerWatch::new(false)
        .map_err(|error| Failure::unavailable(format!("signals cannot be received: {error}")))?;
    let mut watch = Telling { caller, places: &desk.places, told: false };
    if io::stderr().is_terminal() {
        out::tell(
            "askd: waiting for an answer: `askd ls` shows the ask, `askd allow` or `askd deny` answers it",
        );
    }
    if let Ok(mut connection) = daemon::connect_ask(&desk.places)
        && silence::health(&mut connection).is_none()
    {
        let (what, todo) = silence::about(&desk.places);
        out::tell(&format!("askd: {what}; waiting for it ({todo})"));
    }
    match asker.ask_watched(&raise, &mut watch) {
        Ok(ask) => settled(&mut asker, &ask, as_json),
        Err(Unavailable::Abandoned) if watch.caller.ended == Some(Ended::Signal) => {
            let taken_back = take_back(desk, &asker, &raise, "cancelled");
            let text = match taken_back {
                Ok(handle) => format!("interrupted: {handle} is withdrawn"),
                Err(failure) => format!("interrupted; the ask could not be withdrawn: {}", failure.text),
            };
            Err(Failure::new(status::WITHDRAWN, text))
        }
        Err(Unavailable::Abandoned) => {
            // With a key the caller may come back for it within the grace.
            Err(Failure::new(status::WITHDRAWN, "the calling process is gone; nobody waits any more"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Waits as the caller does, and says once on standard error what to type when no surface shows the ask.
struct Telling<'a> {
    caller: CallerWatch,
    places: &'a Places,
    told: bool,
}

impl Watch for Telling<'_> {
    fn wait(&mut self, socket: Option<BorrowedFd<'_>>, until: Instant) -> io::Result<Wake> {
        self.caller.wait(socket, until)
    }

    fn back(&mut self, ask: &Ask) {
        if self.told || !askd_words::is_answerable(ask) {
            return;
        }
        let health = daemon::connect_ask(self.places).ok().and_then(|mut door| silence::health(&mut door));
        if matches!(health, Some(Ok(health)) if health.surfaces == 0) {
            self.told = true;
            out::tell(&run_watch::line(ask));
        }
    }
}

/// Withdraws the ask, whose id may not have been told yet. Gives the handle.
pub(crate) fn take_back(
    desk: &Desk,
    asker: &Asker,
    raise: &RaiseAsk,
    cause: &str,
) -> Result<String, Failure> {
    // No daemon is started for it.
    let mut own = Asker::new(desk.places.clone(), None)?.with_token(asker.token().to_owned());
    let ask = match own.recall(&raise.key)?.filter(|ask| is_same(&ask.action, &raise.action)) {
        Some(ask) => ask,
        // A request that was not replied to may be on its way yet: asked again it is the same ask.
        None => own.raise(raise)?.ask,
    };
    own.withdraw(&ask.id, cause)?;
    Ok(ask.handle)
}

/// One key may be for several actions.
fn is_same(one: &Action, other: &Action) -> bool {
    let input = |action: &Action| action.input.as_ref().map(|raw| raw.get().to_owned());
    one.tool == other.tool && one.cwd == other.cwd && input(one) == input(other)
}

fn raise(args: AskArgs) -> Result<RaiseAsk, Failure> {
    let AskArgs {
        tool, input, title, session, parent, subagent, job, background, deadline, safety, key, ..
    } = args;
    for (name, value) in [("--tool", Some(&tool)), ("--key", key.as_ref()), ("--session", session.as_ref())] {
        if value.is_some_and(|value| value.is_empty()) {
            return Err(Failure::wrong_use(format!("{name} is empty")));
        }
    }
    let cwd = std::env::current_dir()
        .map_err(|error| Failure::unavailable(format!("the working directory: {error}")))?;
    let cwd = cwd
        .into_os_string()
        .into_string()
        .map_err(|cwd| Failure::wrong_use(format!("the working directory is not text: {}", cwd.display())))?;
    let title = match (safety.as_ref(), title) {
        (Some(reason), Some(title)) => Some(format!("{reason}: {title}")),
        (Some(reason), None) => Some(reason.clone()),
        (None, title) => title,
    };
    let key = match key {
        Some(key) => key,
        None => random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?,
    };
    Ok(RaiseAsk {
        key,
        action: Action {
            tool,
            kind: None,
            title,
            input: input.map(|given| read_input(&given)).transpose()?,
            cwd: Some(cwd.clone()),
        },
        class: if safety.is_some() { Class::Safety } else { Class::Tool },
        attendance: Some(if background { Attendance::Background } else { Attendance::Foreground }),
        agent: AGENT.to_owned(),
        session: session.unwrap_or_else(|| identity::own_session(&cwd)),
        parent,
        root: None,
        subagent: subagent.map(|name| Subagent {
            work_id: name.clone(),
            name: Some(name),
            kind: None,
            depth: None,
        }),
        job,
        tool_call: None,
        turn: None,
        session_title: None,
        options: Vec::new(),
        deadline_secs: deadline,
        gives_up_secs: None,
        requester: RequesterKind::Script,
        grace_secs: GRACE_SECS,
        // The agent is whoever runs this, which may be the person's own shell: nobody to be kept from answering.
        instance: None,
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: Map::new(),
    })
}

/// The input as JSON, byte for byte.
fn read_input(given: &str) -> Result<Box<RawValue>, Failure> {
    let text = if given == "-" {
        let mut text = String::new();
        let read = io::stdin().lock().take(MOST_INPUT + 1).read_to_string(&mut text);
        read.map_err(|error| Failure::wrong_use(format!("--input -: standard input: {error}")))?;
        text
    } else {
        given.to_owned()
    };
    if text.len() as u64 > MOST_INPUT {
        return Err(Failure::wrong_use("--input is larger than 16 MiB"));
    }
    serde_json::from_str(&text).map_err(|error| {
        Failure::wrong_use(format!(
            "--input is not JSON: {}; write it like '{{\"command\":\"ls\"}}'",
            out::one_line(&error.to_string())
        ))
    })
}

/// The settled ask as scripts get it; documented and stable.
#[derive(Debug, Serialize)]
struct Settled<'a> {
    id: &'a str,
    handle: &'a str,
    outcome: OutcomeKind,
    cause: &'a str,
    source: Option<&'a str>,
    surface: Option<&'a str>,
    by: Option<&'a str>,
    message: Option<&'a str>,
    option: Option<&'a str>,
    asked_at: &'a str,
    settled_at: &'a str,
}

impl<'a> Settled<'a> {
    fn of(ask: &'a Ask) -> Option<Self> {
        let outcome = ask.outcome.as_ref()?;
        Some(Self {
            id: &ask.id,
            handle: &ask.handle,
            outcome: outcome.outcome,
            cause: &outcome.cause,
            source: outcome.source.as_deref(),
            surface: outcome.surface.as_deref(),
            by: outcome.by.as_deref(),
            message: outcome.message.as_deref(),
            option: outcome.option.as_deref(),
            asked_at: &ask.asked_at,
            settled_at: &outcome.settled_at,
        })
    }
}

/// Tells the outcome. The exit status tells it too, so a closed standard output takes nothing from it.
fn settled(asker: &mut Asker, ask: &Ask, as_json: bool) -> Done {
    let Some(flat) = Settled::of(ask) else {
        return Err(Failure::unavailable(format!("{} was given back undecided", out::safe(&ask.handle))));
    };
    let text = if as_json { json(&flat)? } else { view::settled(ask).unwrap_or_default() };
    let _ = out::print_line(&text);
    let code = status_of(ask);
    if matches!(code, status::OK | status::DENIED | status::UNAVAILABLE) {
        // When the daemon cannot hear it now, the outcome waits for the same key and is then given up.
        let _ = asker.handed(&ask.id);
    }
    Ok(code)
}

fn status_of(ask: &Ask) -> u8 {
    let Some(outcome) = &ask.outcome else { return status::UNAVAILABLE };
    if ask.delivery == Delivery::Voided {
        return status::WITHDRAWN;
    }
    match (outcome.outcome, outcome.verdict) {
        (OutcomeKind::Allowed, Verdict::Allow) => status::OK,
        (OutcomeKind::Denied, _) if outcome.cause == "unreachable" => status::UNAVAILABLE,
        (OutcomeKind::Denied, Verdict::Deny) => status::DENIED,
        // Nobody decided for this caller.
        _ => status::WITHDRAWN,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::view::samples;

    fn given(args: &str) -> Result<RaiseAsk, Failure> {
        let args = ["askd", "ask"].into_iter().chain(args.split(' ').filter(|arg| !arg.is_empty()));
        match Cli::try_parse_from(args).unwrap().command {
            Some(Command::Ask(args)) => raise(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_flags_become_the_ask() {
        let raise = given(
            r#"--tool Bash --input {"command":"ls","n":1.0e2} --title T --session S --parent P --subagent a --job j --background --deadline 9 --key k"#,
        )
        .unwrap();
        assert_eq!(raise.action.input.as_deref().map(RawValue::get), Some(r#"{"command":"ls","n":1.0e2}"#));
        assert_eq!(
            (raise.key.as_str(), raise.session.as_str(), raise.parent.as_deref()),
            ("k", "S", Some("P"))
        );
        assert_eq!((raise.attendance, raise.deadline_secs), (Some(Attendance::Background), Some(9)));
        assert_eq!(raise.subagent.unwrap().name.as_deref(), Some("a"));
        assert_eq!((raise.class, raise.grace_secs), (Class::Tool, 60));
    }

    #[test]
    fn a_safety_ask_tells_its_reason_and_keys_are_random() {
        let one = given("--tool loop --safety doom_loop").unwrap();
        assert_eq!((one.class, one.action.title.as_deref()), (Class::Safety, Some("doom_loop")));
        assert_eq!(one.attendance, Some(Attendance::Foreground));
        let two = given("--tool loop --safety doom_loop --title T").unwrap();
        assert_eq!(two.action.title.as_deref(), Some("doom_loop: T"));
        assert_ne!(one.key, two.key);
    }

    #[test]
    fn input_that_is_no_json_is_wrong_use() {
        for input in ["{", "nope", "{'a':1}", "{}x"] {
            let failure = given(&format!("--tool T --input {input}")).unwrap_err();
            assert_eq!((failure.status, failure.text.contains("--input is not JSON")), (2, true), "{input}");
        }
        assert_eq!(given("--tool T --key=").unwrap_err().text, "--key is empty");
    }

    #[test]
    fn c12_the_settled_ask_is_flat() {
        let ask = samples::settled();
        insta::assert_snapshot!(json(&Settled::of(&ask).unwrap()).unwrap());
    }

    #[test]
    fn every_outcome_has_its_exit_status() {
        let code = |kind: OutcomeKind, cause: &str, verdict: Verdict| {
            let mut ask = samples::settled();
            let outcome = ask.outcome.as_mut().unwrap();
            (outcome.outcome, outcome.cause, outcome.verdict) = (kind, cause.to_owned(), verdict);
            status_of(&ask)
        };
        assert_eq!(code(OutcomeKind::Allowed, "person", Verdict::Allow), 0);
        assert_eq!(code(OutcomeKind::Denied, "person", Verdict::Deny), 1);
        assert_eq!(code(OutcomeKind::Denied, "timed", Verdict::Deny), 1);
        assert_eq!(code(OutcomeKind::Withdrawn, "cancelled", Verdict::None), 3);
        assert_eq!(code(OutcomeKind::Denied, "unreachable", Verdict::Deny), 4);
        // An allow that is not for this caller runs nothing.
        assert_eq!(code(OutcomeKind::Allowed, "agent", Verdict::None), 3);
        assert_eq!(status_of(&samples::background()), 4);
    }
}
