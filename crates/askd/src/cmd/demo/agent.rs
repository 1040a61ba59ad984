//! The scripted agent: a process of its own that asks before it acts, does what it is allowed to, and takes back what
//! it still asks for when it has to end.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use askd_client::daemon::Door;
use askd_client::{Asker, CallError, Unavailable, Wake, Watch, daemon, random_hex};
use askd_wire::{
    Action, Ask, Attendance, Class, LoopSeen, Observation, ObservationBatch, Outcome, OutcomeKind, RaiseAsk,
    RequesterKind, Subagent, Verdict,
};
use serde_json::Map;

use crate::context::Desk;
use crate::failure::{Done, Failure, status};
use crate::identity;
use crate::out;
use crate::waiting::CallerWatch;

use super::actions::{Call, Effect};
use super::{AGENT, script, tidy};

/// For telling the daemon something while nobody waits for an answer.
const TELL_PATIENCE: Duration = Duration::from_secs(5);
/// Between a word and the ask that it is about.
const BREATH: Duration = Duration::from_millis(200);
/// An agent that was killed does not come back for its answers.
const GRACE_SECS: u64 = 10;

/// What the agent is told when it is started.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// Everything it does, it does in here.
    pub(super) dir: PathBuf,
    pub(super) session: String,
    /// Background asks that wait behind the one in front; 0: any number.
    pub(super) queue_cap: u32,
    /// Timed answers come later.
    pub(super) slow: bool,
}

/// Who of the agent asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    /// Name and type.
    pub(super) subagent: Option<(&'static str, &'static str)>,
    pub(super) job: Option<&'static str>,
    pub(super) attendance: Attendance,
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    On,
    End,
}

/// How an ask was settled.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) cause: String,
    pub(super) allowed: bool,
}

/// One ask to be made.
#[derive(Debug)]
pub(super) struct Asked {
    thread: Thread,
    call: Call,
    class: Class,
    deadline_secs: Option<u64>,
    after: Duration,
    quiet: bool,
}

impl Asked {
    pub(super) fn of(thread: Thread, call: Call) -> Self {
        Self { thread, call, class: Class::Tool, deadline_secs: None, after: Duration::ZERO, quiet: false }
    }

    /// The timed answer comes after so many seconds.
    pub(super) fn within(self, secs: u64) -> Self {
        Self { deadline_secs: Some(secs), ..self }
    }

    /// Only so much later than the others.
    pub(super) fn after(self, after: Duration) -> Self {
        Self { after, ..self }
    }

    /// A single outcome is not worth a sentence.
    pub(super) fn quietly(self) -> Self {
        Self { quiet: true, ..self }
    }

    pub(super) fn safety(self) -> Self {
        Self { class: Class::Safety, ..self }
    }
}

/// The agent while it plays.
pub(super) struct Agent<'a> {
    desk: &'a Desk,
    pub(super) part: Part,
    watch: CallerWatch,
}

/// Plays the script and leaves nothing open behind it.
pub(super) fn play(desk: &Desk, part: Part, all: bool) -> Done {
    let mut agent = Agent { desk, part, watch: watch()? };
    let played = if all { script::all(&mut agent) } else { script::short(&mut agent) };
    agent.observe(vec![Observation::SessionEnded {}]);
    if !matches!(played, Ok(Flow::On)) {
        // Whoever started it may be gone.
        tidy(&agent.part.dir);
    }
    match played? {
        Flow::On => {
            agent.say("I am done.")?;
            if all {
                script::last_rest(&mut agent)?;
            }
            Ok(status::OK)
        }
        Flow::End => Ok(status::WITHDRAWN),
    }
}

fn watch() -> Result<CallerWatch, Failure> {
    CallerWatch::new(true)
        .map_err(|error| Failure::unavailable(format!("signals cannot be received: {error}")))
}

impl Agent<'_> {
    /// A line for the person, a moment before what it is about; when nobody reads any more the next wait notices.
    pub(super) fn say(&mut self, text: &str) -> Result<(), Failure> {
        out::print_line(text)?;
        self.rest(BREATH).map(drop)
    }

    /// Waits, unless nobody wants the demo any more.
    pub(super) fn rest(&mut self, span: Duration) -> Result<Flow, Failure> {
        match self.watch.wait(None, Instant::now() + span) {
            Ok(Wake::Stop) => Ok(Flow::End),
            Ok(_) => Ok(Flow::On),
            Err(error) => Err(Failure::unavailable(format!("waiting: {error}"))),
        }
    }

    pub(super) fn ask(&mut self, thread: Thread, call: Call) -> Result<Flow, Failure> {
        self.ask_all(vec![Asked::of(thread, call)], |_| ())
    }

    /// Asks for all of them, waits for every outcome, and does what was allowed.
    pub(super) fn ask_all(&mut self, all: Vec<Asked>, mut hear: impl FnMut(&Heard)) -> Result<Flow, Failure> {
        let (desk, part) = (self.desk, &self.part);
        std::thread::scope(|scope| {
            let (sender, ended) = mpsc::channel();
            for asked in all {
                let sender = sender.clone();
                scope.spawn(move || {
                    // The receiver waits for every one.
                    let _ = sender.send(one(desk, part, &asked));
                });
            }
            drop(sender);
            let mut flow = Flow::On;
            let mut failed = None;
            for result in ended {
                match result {
                    Ok((how, heard)) => {
                        heard.iter().for_each(&mut hear);
                        flow = if how == Flow::End { how } else { flow };
                    }
                    Err(failure) => failed = Some(failure),
                }
            }
            failed.map_or(Ok(flow), Err)
        })
    }

    /// Says which subagents there are, so that they are known by name everywhere.
    pub(super) fn start(&self, threads: &[Thread]) {
        let started = threads.iter().filter_map(|thread| thread.subagent).map(|(name, kind)| {
            Observation::SubagentStarted {
                work_id: name.to_owned(),
                kind: Some(kind.to_owned()),
                name: Some(name.to_owned()),
                parent: None,
                call: None,
            }
        });
        self.observe(started.collect());
    }

    /// The same call three times in a row, as the daemon sees it; what it says of the third.
    pub(super) fn repeat(&self, thread: Thread, call: &Call) -> Result<Option<LoopSeen>, Failure> {
        let subagent = thread.subagent.map(|(name, _)| name.to_owned());
        for number in 1..=3 {
            let id = format!("{}-{number}", call.tool);
            let started = Observation::CallStarted {
                call: id.clone(),
                tool: call.tool.to_owned(),
                input_digest: None,
                input_json: Some(call.input.to_string()),
                batch: Some(format!("message-{number}")),
                subagent: subagent.clone(),
                turn: None,
                spawn: None,
            };
            let body = serde_json::to_vec(&self.batch(vec![started])).map_err(CallError::Encode)?;
            let mut connection = self.desk.start(Door::Ask)?;
            connection.set_timeout(TELL_PATIENCE);
            let reply = connection.request("POST", "/v1/observations", Some(&body));
            let reply = reply.map_err(CallError::from)?.into_success()?;
            if number == 3 {
                // With nothing to say of the call, it says nothing at all.
                return Ok(serde_json::from_slice(&reply.body).ok());
            }
            self.observe(vec![Observation::CallEnded { call: id, ok: true, subagent: subagent.clone() }]);
        }
        Ok(None)
    }

    fn batch(&self, observations: Vec<Observation>) -> ObservationBatch {
        ObservationBatch {
            agent: AGENT.to_owned(),
            session: self.part.session.clone(),
            parent: None,
            session_title: Some("askd demo".to_owned()),
            cwd: Some(self.part.dir.to_string_lossy().into_owned()),
            instance: Some(identity::own_instance()),
            place: None,
            observations,
        }
    }

    /// A daemon that cannot hear it notices by itself that the agent is gone.
    fn observe(&self, observations: Vec<Observation>) {
        if let Ok(mut connection) = daemon::connect_ask(&self.desk.places) {
            connection.set_timeout(TELL_PATIENCE);
            let _ = connection.command("POST", "/v1/observations", Some(&self.batch(observations)));
        }
    }
}

/// One ask from its beginning to its end, on a thread of its own.
fn one(desk: &Desk, part: &Part, asked: &Asked) -> Result<(Flow, Option<Heard>), Failure> {
    let mut watch = watch()?;
    if matches!(watch.wait(None, Instant::now() + asked.after), Ok(Wake::Stop)) {
        return Ok((Flow::End, None));
    }
    let mut asker = Asker::new(desk.places.clone(), daemon::own_exe())?;
    let raise = raise(part, asked)?;
    match asker.ask_watched(&raise, &mut watch) {
        Ok(ask) => act(&mut asker, &ask, part, asked),
        Err(Unavailable::Abandoned) => Ok((Flow::End, None)),
        Err(error) => {
            out::print_line(&format!("I got no answer ({error}), so I do nothing."))?;
            Err(error.into())
        }
    }
}

fn act(asker: &mut Asker, ask: &Ask, part: &Part, asked: &Asked) -> Result<(Flow, Option<Heard>), Failure> {
    let words = &asked.call.words;
    let Some(outcome) = &ask.outcome else {
        out::print_line(&format!("Nobody decided, so I do not {words}."))?;
        return Ok((Flow::On, None));
    };
    let mut flow = Flow::On;
    let allowed = (outcome.outcome, outcome.verdict) == (OutcomeKind::Allowed, Verdict::Allow);
    let text = if allowed {
        // An outcome that is handed twice does no harm; one that is not handed would look undelivered.
        let _ = asker.handed(&ask.id);
        let done = carry_out(&part.dir, &asked.call)?;
        let _ = asker.confirmed(&ask.id);
        format!("I was allowed and have {done}.")
    } else if outcome.verdict == Verdict::Deny {
        let _ = asker.handed(&ask.id);
        let _ = asker.confirmed(&ask.id);
        if outcome.stop {
            flow = Flow::End;
        }
        let reason = out::safe(&reason(outcome, &asked.call));
        let stop = if outcome.stop { " I was told to stop, so I stop." } else { "" };
        let not = refrained(&asked.call);
        format!("I was not allowed, so {not}. I was told: {reason}{stop}")
    } else {
        format!("Nobody decided, so I do not {words}.")
    };
    if !asked.quiet {
        out::print_line(&text)?;
    }
    Ok((flow, Some(Heard { cause: outcome.cause.clone(), allowed })))
}

/// Does it, and says what was done.
fn carry_out(dir: &Path, call: &Call) -> Result<String, Failure> {
    let failed = |path: &Path, error| Failure::unavailable(format!("{}: {error}", path.display()));
    match call.effect {
        Effect::Write(name, content) => {
            let path = dir.join(name);
            fs::write(&path, format!("{content}\n")).map_err(|error| failed(&path, error))?;
            Ok(format!("written {name}"))
        }
        Effect::Edit(name, (old, new)) => {
            let path = dir.join(name);
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, error))?;
            fs::write(&path, text.replacen(old, new, 1)).map_err(|error| failed(&path, error))?;
            Ok(format!("edited {name}"))
        }
        Effect::Pretend => Ok("done as if: the demo runs no command".to_owned()),
        Effect::Continue => Ok("gone on; counting begins anew".to_owned()),
    }
}

fn refrained(call: &Call) -> String {
    match call.effect {
        Effect::Write(name, _) => format!("{name} is not written"),
        Effect::Edit(name, _) => format!("{name} is not edited"),
        Effect::Pretend => format!("I do not {}", call.words),
        Effect::Continue => "the subagent's turn ends".to_owned(),
    }
}

/// What the model is told. Whoever asks whether a loop may go on hears which of the four results it was.
fn reason(outcome: &Outcome, call: &Call) -> String {
    let told = outcome.reason_for_model.as_deref().unwrap_or("no reason was given");
    if !matches!(call.effect, Effect::Continue) {
        return told.to_owned();
    }
    match outcome.cause.as_str() {
        "person" => match outcome.message.as_deref().map(str::trim).filter(|words| !words.is_empty()) {
            Some(words) => format!("the user declined to let it continue: {words}"),
            None => "the user declined to let it continue".to_owned(),
        },
        "timed" | "overflow" | "remote_timeout" => "no answer arrived before the deadline".to_owned(),
        "unreachable" => "this context has no way to ask for confirmation".to_owned(),
        _ => told.to_owned(),
    }
}

fn raise(part: &Part, asked: &Asked) -> Result<RaiseAsk, Failure> {
    let Asked { thread, call, class, deadline_secs, .. } = asked;
    let key = random_hex().map_err(|error| Failure::unavailable(format!("no random bits: {error}")))?;
    let input = serde_json::value::to_raw_value(&call.input)
        .map_err(|error| Failure::unavailable(format!("cannot be written as JSON: {error}")))?;
    Ok(RaiseAsk {
        key,
        action: Action {
            tool: call.tool.to_owned(),
            kind: call.kind.map(str::to_owned),
            title: call.title.clone(),
            input: Some(input),
            cwd: Some(part.dir.to_string_lossy().into_owned()),
        },
        class: *class,
        attendance: Some(thread.attendance),
        agent: AGENT.to_owned(),
        session: part.session.clone(),
        parent: None,
        root: None,
        subagent: thread.subagent.map(|(name, kind)| Subagent {
            name: Some(name.to_owned()),
            kind: Some(kind.to_owned()),
            work_id: name.to_owned(),
            depth: Some(1),
        }),
        job: thread.job.map(str::to_owned),
        tool_call: None,
        turn: None,
        session_title: Some("askd demo".to_owned()),
        options: call.options.clone(),
        deadline_secs: *deadline_secs,
        gives_up_secs: None,
        requester: RequesterKind::Library,
        grace_secs: GRACE_SECS,
        instance: Some(identity::own_instance()),
        own_prompt: None,
        needs_own_prompt: false,
        supersedes: None,
        place: None,
        extra: Map::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::demo::actions;
    use crate::view::samples;

    #[test]
    fn t8_the_end_of_a_loop_says_which_of_the_four_results_it_was() {
        let seen = LoopSeen { call: "c".to_owned(), times: 3, since: "2026-11-30T08:00:00Z".to_owned() };
        let question = actions::doom_loop(&actions::again(), &seen);
        let mut outcome = samples::settled().outcome.unwrap();
        let told = |outcome: &Outcome| reason(outcome, &question);
        assert_eq!(told(&outcome), "the user declined to let it continue: not this folder");
        outcome.message = None;
        assert_eq!(told(&outcome), "the user declined to let it continue");
        outcome.cause = "timed".to_owned();
        assert_eq!(told(&outcome), "no answer arrived before the deadline");
        outcome.cause = "unreachable".to_owned();
        assert_eq!(told(&outcome), "this context has no way to ask for confirmation");
        // Every other call is told what the daemon says.
        assert_eq!(reason(&outcome, &actions::again()), "not this folder");
    }
}
