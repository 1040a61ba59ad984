//! Takes one step in the core and in the reference, and compares them.

use std::collections::{BTreeMap, BTreeSet};

use askd_core::ask::{Attendance, Class, RequesterKind};
use askd_core::event::{Event, Scope, SurfaceInfo};
use askd_core::state::Link;
use askd_core::{
    AskId, Command, Decision, LinkId, Observe, Raise, Refusal, Reply, Seen, SessionKey, Settings, Side,
    SurfaceId, Voice,
};

use super::{CallGiven, How, Other, Spec, Transition};
use crate::common::World;
use crate::common::make;
use crate::model::Model;

/// Session and subagent. The second session is a child of the first; `w2` a child of `w1` once it said so.
const THREADS: [(&str, Option<&str>); 6] =
    [("a", None), ("a", Some("w1")), ("a", Some("w2")), ("b", None), ("c", None), ("c", Some("w1"))];

/// Work id of the subagent that asks.
pub fn work(raise: &Raise) -> Option<&str> {
    raise.subagent.as_ref().map(|s| s.work_id.as_str())
}

pub struct Run {
    pub world: World,
    pub model: Model,
    /// As its requester gave it.
    pub raised: BTreeMap<AskId, Raise>,
    /// Answers that were taken, now or for later, in order.
    pub answered: Vec<(AskId, Decision)>,
    calls: Vec<(usize, String)>,
    count: u8,
}

fn word(reply: &Result<Reply, Refusal>) -> &'static str {
    match reply {
        Ok(Reply::Raised(_)) => "raised",
        Ok(Reply::Reattached(_)) => "reattached",
        Ok(Reply::Settled(_)) => "settled",
        // That a thread repeats itself is a hint to its adapter; what was announced is done.
        Ok(Reply::Done | Reply::Loop(_)) => "done",
        Err(Refusal::UnknownAsk) => "unknown",
        Err(Refusal::AlreadySettled(_)) => "settled already",
        Err(Refusal::Late { .. }) => "late",
        Err(Refusal::HandedBack { .. }) => "handed back",
        Err(Refusal::DigestMismatch(_)) => "mismatch",
        Err(Refusal::OptionNotOffered { .. }) => "not offered",
        Err(Refusal::NotPermitted(_)) => "not permitted",
        Err(Refusal::NotFullyShown(_)) => "not fully shown",
        Err(Refusal::CapReached(_)) => "cap",
        Err(Refusal::Malformed(_)) => "malformed",
        Err(Refusal::NotRecorded(_)) => "not recorded",
    }
}

impl Run {
    pub fn new(settings: Settings) -> Self {
        let world = World::new(settings.clone());
        let mut model = Model::default();
        model.settings = settings;
        model.wall = world.now.wall_ms;
        model.boot = world.now.boot.0.as_u128();
        model.parents.insert(make::session("b"), make::session("a"));
        Self { world, model, raised: BTreeMap::new(), answered: Vec::new(), calls: Vec::new(), count: 0 }
    }

    pub fn take(&mut self, step: &Transition) {
        match step {
            Transition::Pass(ms) => {
                self.settle();
                self.world.pass(*ms);
                let end = self.model.now + i64::try_from(*ms).unwrap();
                while let Some(due) = self.model.next_due().filter(|due| *due <= end) {
                    self.model.wall += due - self.model.now;
                    self.model.now = due;
                    self.model.run_due();
                }
                self.model.wall += end - self.model.now;
                self.model.now = end;
            }
            Transition::Stall(ms) => {
                self.world.stall(*ms);
                self.model.now += i64::try_from(*ms).unwrap();
                self.model.wall = self.world.now.wall_ms;
            }
            Transition::StepWall(ms) => {
                self.world.step_wall(*ms);
                self.model.wall += ms;
            }
            Transition::Suspend(ms) => {
                self.world.suspend(*ms);
                self.model.now += i64::try_from(*ms).unwrap();
                self.model.wall = self.world.now.wall_ms;
                self.model.woke();
            }
            Transition::Restart => {
                self.world.restart();
                self.model.restart();
            }
            Transition::Reboot(ms) => {
                self.world.reboot(*ms);
                self.model.now += i64::try_from(*ms).unwrap();
                self.model.wall = self.world.now.wall_ms;
                self.model.boot = self.world.now.boot.0.as_u128();
                self.model.restart();
            }
            other => {
                if let Some(command) = self.command(other) {
                    self.command_in_both(&command);
                }
            }
        }
        if !matches!(step, Transition::Stall(_)) {
            self.settle();
            self.check_time();
        }
        self.check();
    }

    fn settle(&mut self) {
        self.world.settle();
        self.model.run_due();
    }

    fn command_in_both(&mut self, command: &Command) {
        let outcomes: Vec<_> = self.world.state.asks().map(|(id, a)| (id, a.outcome.clone())).collect();
        self.model.held = outcomes.iter().map(|(id, _)| *id).collect();
        let records = self.world.history.len();
        let reply = self.world.run(command);
        let asked = self.world.history[records..].iter().find_map(|record| match &record.event {
            Event::Asked { ask } => Some((**ask).clone()),
            _ => None,
        });
        let expected = self.model.step(command, asked.as_ref());
        assert_eq!(word(&reply), expected, "{command:?}");
        if reply.is_err() {
            for (id, outcome) in outcomes {
                assert_eq!(self.world.ask(id).outcome, outcome, "a refusal changed an outcome");
            }
        }
        match (command, &reply) {
            (Command::Raise(raise), Ok(Reply::Raised(id))) => {
                assert_eq!(*id, raise.id);
                self.raised.insert(*id, (**raise).clone());
                self.check_record(&asked.unwrap(), raise);
            }
            (Command::Raise(raise), Ok(Reply::Reattached(id))) => {
                let was = &self.raised[id];
                assert_eq!(
                    (&was.key, was.token),
                    (&raise.key, raise.token),
                    "attached to somebody else's ask"
                );
                assert_eq!(was.action.digest(), raise.action.digest());
            }
            (Command::Answer(answer), Ok(_) | Err(Refusal::Late { .. })) => {
                self.answered.push((answer.ask, answer.decision));
            }
            _ => {}
        }
    }

    fn pick(&self, n: usize) -> Option<AskId> {
        let ids: Vec<_> = self.raised.keys().rev().collect();
        (!ids.is_empty()).then(|| *ids[n % ids.len()])
    }

    fn fresh_call(&mut self, thread: usize) -> String {
        let call = format!("call-{}", self.calls.len());
        self.calls.push((thread, call.clone()));
        call
    }

    fn observe(thread: usize, seen: Seen) -> Command {
        let name = THREADS[thread].0;
        let parent = (name == "b").then(|| make::session("a"));
        let session = make::session(name);
        Command::Observe(Box::new(Observe {
            by: Voice::All,
            owner: None,
            session,
            parent,
            title: None,
            cwd: None,
            instance: None,
            place: None,
            seen,
        }))
    }

    fn observe_of(session: &SessionKey, seen: Seen) -> Command {
        let thread = THREADS.iter().position(|t| t.0 == session.session).unwrap();
        Self::observe(thread, seen)
    }

    fn new_raise(&mut self, spec: &Spec) -> Raise {
        self.count += 1;
        let (name, work) = THREADS[spec.thread];
        let call = match spec.call {
            CallGiven::No => None,
            CallGiven::Fresh => Some(self.fresh_call(spec.thread)),
            CallGiven::OfAnotherAsk => {
                self.calls.iter().rev().find(|c| c.0 == spec.thread).map(|c| c.1.clone())
            }
        };
        let background = spec.background_ms.is_some();
        Raise {
            id: make::id(u128::from(self.count)),
            key: format!("key-{}", spec.key),
            token: make::token(spec.token),
            link: LinkId(u64::from(self.count)),
            kind: if spec.hook { RequesterKind::Hook } else { RequesterKind::Library },
            action: make::action(["ls", "rm"][usize::from(spec.digest)]),
            class: if spec.safety { Class::Safety } else { Class::Tool },
            attendance: Some(if background { Attendance::Background } else { Attendance::Foreground }),
            parent: (name == "b").then(|| make::session("a")),
            subagent: work.map(make::child),
            call,
            turn: spec.turn.map(|n| format!("turn-{n}")),
            options: if spec.many_options { make::many_options() } else { Vec::new() },
            deadline_ms: spec.background_ms.flatten(),
            gives_up_ms: spec.gives_up_ms,
            grace_ms: if spec.hook { 0 } else { spec.grace_ms },
            instance: spec.instance.map(|n| make::instance(u32::from(n))),
            owner: (spec.token > 0).then(|| make::owner(u32::from(spec.token))),
            own_prompt: spec.own_prompt.then(|| make::own_prompt(false)),
            needs_own_prompt: spec.needs_own_prompt,
            supersedes: spec.supersedes.and_then(|n| self.pick(n)),
            ..make::raise(0, name)
        }
    }

    fn command(&mut self, step: &Transition) -> Option<Command> {
        use Transition as T;
        let surface = |n: &u8| SurfaceId(format!("s{n}"));
        let work = |thread: &usize| THREADS[*thread].1.map(str::to_owned);
        let token = |run: &Self, ask: AskId, own: &bool| {
            if *own { run.raised[&ask].token } else { make::token(99u32) }
        };
        Some(match step {
            T::Raise(spec) => Command::Raise(Box::new(self.new_raise(spec))),
            T::Again { ask, other } => {
                let mut raise = self.raised[&self.pick(*ask)?].clone();
                self.count += 1;
                (raise.id, raise.link) = (make::id(u128::from(self.count)), LinkId(u64::from(self.count)));
                raise.supersedes = None;
                match other {
                    Other::Nothing => {}
                    Other::Token => raise.token = make::token(7u32),
                    Other::Digest => raise.action = make::action("another"),
                    Other::Instance => raise.instance = Some(make::instance(9)),
                    Other::Key => raise.key = format!("key-of-{}", self.count),
                }
                Command::Raise(Box::new(raise))
            }
            T::Answer { ask, how, surface, stop } => {
                let id = self.pick(*ask)?;
                let ask = self.world.ask(id).ask.clone();
                let decision = match how {
                    How::Plain(d) | How::UnknownOption(d) | How::WrongDigest(d) => *d,
                    How::OptionOfTheOther(d) | How::FromTheAgent(d) => *d,
                    How::Option(n) => ask.options[n % ask.options.len()].kind.decision(),
                };
                let mut answer = make::answer(id, ask.digest, decision);
                (answer.remote, answer.stop) = (*surface > 1, *stop);
                answer.surface = format!("s{surface}");
                answer.option = match how {
                    How::Option(n) => Some(ask.options[n % ask.options.len()].id.clone()),
                    How::UnknownOption(_) => Some("no such option".to_owned()),
                    How::OptionOfTheOther(_) => {
                        ask.options.iter().find(|c| c.kind.decision() != decision).map(|c| c.id.clone())
                    }
                    _ => None,
                };
                if let How::WrongDigest(_) = how {
                    answer.digest = make::action("something else").digest();
                }
                answer.refused = matches!(how, How::FromTheAgent(_)).then(|| "inside the agent".to_owned());
                Command::Answer(answer)
            }
            T::Withdraw { ask, cause, own } => {
                let ask = self.pick(*ask)?;
                Command::Withdraw { ask, token: token(self, ask, own), cause: *cause }
            }
            T::Dismiss(ask) => Command::Dismiss { ask: self.pick(*ask)?, by: "ana".to_owned() },
            T::Handed { ask, own } => {
                let ask = self.pick(*ask)?;
                Command::Handed { ask, token: token(self, ask, own) }
            }
            T::Confirmed { ask, own } => {
                let ask = self.pick(*ask)?;
                Command::Confirmed { ask, token: token(self, ask, own) }
            }
            T::Refused { ask, own } => {
                let ask = self.pick(*ask)?;
                Command::DeliveryRefused { ask, token: token(self, ask, own), reason: "404".to_owned() }
            }
            T::Decided { ask, decision, went_on, own } => {
                let ask = self.pick(*ask)?;
                let (token, by) = (token(self, ask, own), Some("hook".to_owned()));
                Command::DecidedByAgent { ask, token, decision: *decision, by, went_on: *went_on }
            }
            T::Heard(ask) => Command::Heard { ask: self.pick(*ask)? },
            T::LinkClosed(ask) => match self.world.ask(self.pick(*ask)?).link {
                Link::Attached(link) => Command::LinkClosed { link },
                _ => return None,
            },
            T::CallStarted { thread, digest } => {
                let call = self.fresh_call(*thread);
                let digest = make::action(["ls", "rm"][usize::from(*digest)]).digest();
                Self::observe(*thread, make::call_started(&call, THREADS[*thread].1, digest))
            }
            T::CallEnded(ask) => {
                let ask = self.world.ask(self.pick(*ask)?).ask.clone();
                Self::observe_of(&ask.lineage.session, make::call_ended(ask.lineage.call.as_deref()?))
            }
            T::OwnPrompt { ask, allowed } => {
                let ask = self.world.ask(self.pick(*ask)?).ask.clone();
                let call = ask.lineage.call.clone()?;
                let seen = Seen::OwnPromptAnswered { call, allowed: *allowed };
                Self::observe_of(&ask.lineage.session, seen)
            }
            T::SubagentStarted(thread) => {
                let work = THREADS[*thread].1?;
                let parent = (work == "w2").then_some("w1");
                Self::observe(*thread, make::subagent_started(work, None, parent))
            }
            T::SubagentEnded(thread) => {
                Self::observe(*thread, Seen::SubagentEnded { work_id: work(thread)? })
            }
            T::TurnCancelled { thread, whole } => {
                let subagent = work(thread).filter(|_| !whole);
                Self::observe(*thread, Seen::TurnCancelled { subagent })
            }
            T::TurnEnded(thread) => Self::observe(*thread, Seen::TurnEnded { subagent: work(thread) }),
            T::SessionStarted(thread) => Self::observe(*thread, Seen::SessionStarted),
            T::SessionEnded(thread) => Self::observe(*thread, Seen::SessionEnded),
            T::By { ask, session, what } => {
                let told = self.raised[&self.pick(*ask)?].clone();
                let mut command = self.command(what)?;
                if let Command::Observe(seen) = &mut command {
                    let mut side = Side { session: *session, ..Side::default() };
                    if !session {
                        side.tokens.insert(told.token);
                        side.instances.extend(told.instance);
                    }
                    seen.by = Voice::Of(side);
                }
                command
            }
            T::AgentGone(n) => Command::AgentGone { instance: make::instance(u32::from(*n)) },
            T::Attach { surface: n, remote } => Command::AttachSurface {
                surface: surface(n),
                info: SurfaceInfo {
                    name: format!("s{n}"),
                    remote: *remote,
                    scope: Scope::All,
                    capacity: remote.then_some(2),
                },
            },
            T::Detach(n) => Command::DetachSurface { surface: surface(n) },
            T::Shown { ask, surface } => {
                Command::Shown { ask: self.pick(*ask)?, surface: format!("s{surface}"), remote: *surface > 0 }
            }
            T::SurfaceFailed { ask, surface } => Command::SurfaceFailed {
                ask: self.pick(*ask)?,
                surface: format!("s{surface}"),
                reason: "gone".to_owned(),
            },
            T::RemotePolled(n) => Command::RemotePolled { surface: surface(n) },
            T::Revoke(ask) => Command::RevokeLate { ask: self.pick(*ask)?, by: "ana".to_owned() },
            T::Stopping => Command::Stopping,
            _ => return None,
        })
    }

    /// Sessions that were ever seen.
    pub fn sessions(&self) -> BTreeSet<SessionKey> {
        THREADS.iter().map(|t| make::session(t.0)).collect()
    }
}
