//! One call: its ask, from the raise to what became of the outcome.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use askd_client::{Asker, Unavailable, Wake, Watch, random_hex, take_back};
use askd_wire::{Action, Ask, AskState, Class, RaiseAsk, RequesterKind, Verdict};
use serde_json::Map;
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::Options;
use crate::calls::{Heard, Said};

/// How long the ask stays open when the connection to the daemon is lost, or the server ended without a word.
const GRACE_SECS: u64 = 60;
/// How long a daemon that cannot be had is tried again before the ask was ever raised. A restart takes less.
const NO_DAEMON: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// For a result to be written to a client that reads.
const WRITTEN: Duration = Duration::from_secs(60);

const AGENT: &str = "claude-code";

/// What is asked about.
pub(crate) struct Subject {
    pub(crate) tool: String,
    /// The JSON text as it came.
    pub(crate) input: String,
    /// The agent's id of the tool call.
    pub(crate) call: Option<String>,
}

/// A text for Claude: the decision as it wants it, or why there is none.
pub(crate) type Result = std::result::Result<String, String>;

/// Asks on a thread of its own.
pub(crate) fn start(
    options: Arc<Options>,
    token: String,
    subject: Subject,
    heard: Heard,
    outcome: oneshot::Sender<Result>,
) -> io::Result<()> {
    let raise = raise(&options, subject)?;
    thread::Builder::new().name("call".to_owned()).stack_size(512 * 1024).spawn(move || {
        let call = Call { options, token, raise, heard, asker: None };
        call.run(outcome);
    })?;
    Ok(())
}

fn raise(options: &Options, subject: Subject) -> io::Result<RaiseAsk> {
    let key = match &subject.call {
        Some(call) => call.clone(),
        None => random_hex().map_err(io::Error::other)?,
    };
    Ok(RaiseAsk {
        key,
        action: Action {
            kind: kind(&subject.tool).map(str::to_owned),
            tool: subject.tool,
            title: None,
            input: Some(RawValue::from_string(subject.input).map_err(io::Error::other)?),
            cwd: std::env::current_dir().ok().map(|dir| dir.to_string_lossy().into_owned()),
        },
        class: Class::Tool,
        attendance: options.attendance,
        agent: AGENT.to_owned(),
        session: options.session.clone(),
        parent: None,
        root: None,
        subagent: None,
        job: None,
        tool_call: subject.call,
        turn: None,
        session_title: None,
        options: Vec::new(),
        deadline_secs: None,
        gives_up_secs: options.gives_up.map(|span| span.as_secs()).filter(|secs| *secs > 0),
        requester: RequesterKind::Proxy,
        grace_secs: GRACE_SECS,
        instance: Some(options.instance.clone()),
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: Map::new(),
    })
}

/// For display only.
fn kind(tool: &str) -> Option<&'static str> {
    match tool {
        "Bash" | "PowerShell" => Some("execute"),
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => Some("edit"),
        "Read" | "Glob" | "Grep" | "LS" | "NotebookRead" => Some("read"),
        "WebFetch" | "WebSearch" => Some("fetch"),
        _ => None,
    }
}

struct Call {
    options: Arc<Options>,
    token: String,
    raise: RaiseAsk,
    heard: Heard,
    asker: Option<Asker>,
}

impl Call {
    fn run(mut self, outcome: oneshot::Sender<Result>) {
        match self.ask() {
            Ok(ask) => {
                let (id, result) = (ask.id.clone(), result(&ask, &self.raise));
                let decided = result.is_ok();
                if outcome.send(result).is_ok() && decided {
                    self.after_the_outcome(&id);
                }
            }
            Err(Unavailable::Abandoned) => self.let_go(),
            Err(why) => {
                // The ask, if it came to be, is for nobody any more. A daemon that is away must not hold up Claude.
                let told = self.asker.as_ref().is_some_and(|asker| {
                    !asker.may_be_known() || asker.withdraw_key(&self.raise.key, "requester_limit").is_ok()
                });
                let _ = outcome.send(Err(format!(
                    "askd cannot have this answered: {why}. Nobody denied it; it was not run."
                )));
                if !told {
                    self.withdraw("requester_limit");
                }
            }
        }
    }

    /// Waits for the outcome. A daemon that is not there is tried again for a while: before the ask is raised nothing is
    /// lost by waiting, and a tool error cannot be taken back.
    fn ask(&mut self) -> std::result::Result<Ask, Unavailable> {
        let until = Instant::now() + NO_DAEMON;
        let mut pause = FIRST_PAUSE;
        loop {
            let raise = self.raise.clone();
            let asked = match self.take_asker() {
                Ok(mut asker) => {
                    let asked = asker.ask_watched(&raise, &mut self.heard.stop);
                    self.asker = Some(asker);
                    asked
                }
                Err(why) => Err(why),
            };
            let why = match asked {
                Ok(ask) => return Ok(ask),
                Err(why) => why,
            };
            let may_pass = matches!(
                why,
                Unavailable::NotRunning(_) | Unavailable::CannotStart(_) | Unavailable::Fault(_)
            ) || matches!(&why, Unavailable::Refused(problem)
                    if matches!(problem.code, askd_wire::Code::NotRecorded | askd_wire::Code::CapReached));
            if !may_pass || Instant::now() >= until {
                return Err(why);
            }
            (self.options.log)(&format!("{why}; trying again"));
            if let Ok(Wake::Stop) = self.heard.stop.wait(None, Instant::now() + pause) {
                return Err(Unavailable::Abandoned);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn take_asker(&mut self) -> std::result::Result<Asker, Unavailable> {
        match self.asker.take() {
            Some(asker) => Ok(asker),
            None => Ok(Asker::new(self.options.places.clone(), self.options.exe.clone())?
                .with_token(self.token.clone())),
        }
    }

    /// The result's line was written: then Claude has it. One that crossed a cancel reached nobody.
    fn after_the_outcome(&mut self, id: &str) {
        match self.heard.said.recv_timeout(WRITTEN) {
            Ok(Said::Written) => {
                if let Ok(mut asker) = self.take_asker()
                    && let Err(why) = asker.handed(id)
                {
                    (self.options.log)(&format!(
                        "the daemon was not told that the answer was handed over: {why}"
                    ));
                }
            }
            Ok(Said::Cancelled) => self.withdraw("cancelled"),
            // The connection ends here; the daemon keeps what was decided for its grace.
            Ok(Said::Lost) | Err(_) => {}
        }
    }

    /// Nobody waits for the outcome any more.
    fn let_go(&mut self) {
        match self.heard.said.try_recv() {
            Ok(Said::Cancelled) => self.withdraw("cancelled"),
            // The client has gone, or this process ends: its connection ends, and the ask is detached by that.
            _ => self.asker = None,
        }
    }

    fn withdraw(&mut self, cause: &str) {
        // Without an asker nothing was ever sent.
        let Some(mut asker) = self.asker.take() else { return };
        if let Err(why) = take_back(&mut asker, &self.raise, cause) {
            (self.options.log)(&format!("an ask that nobody waits for could not be withdrawn: {why}"));
        }
    }
}

/// The outcome as Claude reads it. `Err`: nobody decided, and why.
fn result(ask: &Ask, raised: &RaiseAsk) -> Result {
    let text = |input: &Option<Box<RawValue>>| input.as_deref().map(|raw| raw.get().to_owned());
    let Some(input) = text(&raised.action.input) else { return Err("there is no input".to_owned()) };
    // An outcome for other content than was asked about is no outcome.
    if ask.action.tool != raised.action.tool || text(&ask.action.input).as_deref() != Some(&*input) {
        return Err(
            "askd has an outcome for other content than was asked about; nobody decided this".to_owned()
        );
    }
    let Some(outcome) = ask.outcome.as_ref().filter(|_| ask.state == AskState::Settled) else {
        return Err("askd let this ask go; nobody denied it, and it was not run".to_owned());
    };
    match outcome.verdict {
        Verdict::Allow => Ok(format!("{{\"behavior\":\"allow\",\"updatedInput\":{input}}}")),
        Verdict::Deny => {
            let message = outcome.reason_for_model.as_deref().unwrap_or(&outcome.text);
            let message = serde_json::to_string(message).map_err(|error| error.to_string())?;
            let interrupt = if outcome.stop { ",\"interrupt\":true" } else { "" };
            Ok(format!("{{\"behavior\":\"deny\",\"message\":{message}{interrupt}}}"))
        }
        Verdict::None => Err(format!("nobody decided this call, and it was not run: {}", outcome.text)),
    }
}
