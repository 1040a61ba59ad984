//! `pi --mode rpc` behind a proxy: lines pass byte for byte, the permission dialogs of pi's extension are shown
//! everywhere else too, and the first real answer wins. It never decides, and never waits for the daemon while it reads.
//!
//! Read [`Machine`] (the protocol, no I/O and no clock) and [`run()`] (processes, threads, the daemon) first.
//!
//! | line | from | what is done besides passing it on |
//! |---|---|---|
//! | `tool_execution_start`, `tool_execution_end` | pi | what a dialog is about; a call that is over ends its asks |
//! | `extension_ui_request`, a permission `select` | pi | an ask; a subagent's is told as such |
//! | the `input` or `select` that follows an answer | pi | ours are answered here; the host's own pass |
//! | `extension_ui_response` to an ask | host | settled at askd first, then its own bytes go on; late ones are swallowed |
//! | `extension_ui_response` with `cancelled` | host | the host leaves the race, or (nobody else there) it goes on |
//! | `abort`, `new_session`, `switch_session`, `fork`, `clone` | host | every ask ends; pi's open dialogs are cancelled, as it would wait for them for ever |
//! | response to our own `get_state` or `abort` | pi | which session this is; not passed on |
//! | end of file | both | host: asks stay open elsewhere for a grace, and pi's input with them; pi: asks are withdrawn |
//! | anything else, JSON or not | both | nothing |

mod dialog;
mod lines;
mod run;
mod settle;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use askd_wire::{Attendance, Instance, Observation, ObservationBatch, RaiseAsk, Subagent};
use serde_json::value::RawValue;

use self::dialog::{Dialog, Host, Labels, Stand, State};
use self::lines::{FromAgent, FromHost, Reply};
use self::settle::Fate;
use super::AGENT;
use crate::acp::Dismiss;
use crate::proxy::{Action, AskNo, Errand, News, plain_ask};

pub use run::{Options, run};

/// How long an answer of the host waits for the journal.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(2);
/// Seconds that an ask stays open when the connection to the daemon broke.
const LINK_GRACE_SECS: u64 = 60;

/// How one proxy is set up.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What a dialog means that the host cancelled.
    pub dismiss: Dismiss,
    /// How long asks stay open elsewhere after the host is gone.
    pub grace: Duration,
    /// Random text in the ids of our own lines.
    pub mark: String,
    /// Where pi works.
    pub cwd: Option<String>,
    /// The host, for people.
    pub host: String,
    /// pi's process.
    pub instance: Option<Instance>,
    /// The daemon serves pi's forwarding directory: a subagent's request is an ask by that already, and what pi shows
    /// of it is the host's alone.
    pub served: bool,
}

/// A tool call that runs.
#[derive(Debug)]
struct Call {
    id: String,
    tool: String,
    /// JSON text.
    input: Option<String>,
    /// A dialog about it was shown already.
    asked: bool,
}

/// The dialog that follows an answer, in the order of the answers.
#[derive(Debug)]
struct FollowUp {
    /// An `input` for a reason, else a `select` for the scope of a grant.
    is_reason: bool,
    /// What we answer; none: the host's own.
    ours: Option<String>,
}

/// See the table above.
#[derive(Debug)]
pub struct Machine {
    settings: Settings,
    /// pi's id of its session, once it told.
    session: Option<String>,
    calls: Vec<Call>,
    dialogs: BTreeMap<AskNo, Dialog>,
    /// By pi's own id.
    by_id: HashMap<String, AskNo>,
    /// Ids of dialogs that are over, for late answers of the host.
    over: HashSet<String>,
    follow_ups: VecDeque<FollowUp>,
    next: u64,
    /// Between `agent_start` and `agent_settled`.
    works: bool,
    host_gone: bool,
    /// The host is gone, and pi's input stays open until then at most.
    closing: Option<Duration>,
    agent_closed: bool,
    now: Duration,
    out: Vec<Action>,
}

impl Machine {
    pub fn new(settings: Settings) -> Self {
        let mut machine = Self {
            settings,
            session: None,
            calls: Vec::new(),
            dialogs: BTreeMap::new(),
            by_id: HashMap::new(),
            over: HashSet::new(),
            follow_ups: VecDeque::new(),
            next: 0,
            works: false,
            host_gone: false,
            closing: None,
            agent_closed: false,
            now: Duration::ZERO,
            out: Vec::new(),
        };
        machine.ask_for_state();
        machine
    }

    /// What is to be done now, in order.
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.out)
    }

    /// A line of the host, with its line end.
    pub fn host_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        match lines::from_host(&line) {
            FromHost::Reply { id, reply } => match self.by_id.get(&id).copied() {
                Some(no) => self.host_answered(no, reply, line),
                None if self.is_ours(&id) => {}
                None if self.over.contains(&id) => {
                    self.log("a late answer of the host is dropped".to_owned())
                }
                None => self.tell_agent(line),
            },
            FromHost::Abort => {
                self.tell_agent(line);
                self.cancel_all();
            }
            FromHost::Other => self.tell_agent(line),
        }
        self.consider_closing();
    }

    /// A line of pi, with its line end.
    pub fn agent_line(&mut self, line: Vec<u8>, now: Duration) {
        self.now = now;
        match lines::from_agent(&line) {
            FromAgent::Select(select) => self.selected(select, line),
            FromAgent::Input { id, title } => self.asked_for_text(&id, &title, line),
            FromAgent::Response { id, session, switched } => {
                if id.is_some_and(|id| self.is_ours(&id)) {
                    if let Some(session) = session {
                        self.is_session(session);
                    }
                } else {
                    self.tell_host(line);
                    if switched {
                        self.ask_for_state();
                    }
                }
            }
            FromAgent::CallStarted { id, tool, input } => {
                self.calls.push(Call { id, tool, input, asked: false });
                self.tell_host(line);
            }
            FromAgent::CallEnded { id, ok } => {
                self.calls.retain(|call| call.id != id);
                self.call_over(&id, ok);
                self.tell_host(line);
            }
            FromAgent::Started => {
                self.works = true;
                self.tell_host(line);
            }
            FromAgent::Settled => {
                self.works = false;
                self.calls.clear();
                self.tell_host(line);
            }
            FromAgent::Other => self.tell_host(line),
        }
        self.consider_closing();
    }

    /// askd said something.
    pub fn news(&mut self, news: News, now: Duration) {
        self.now = now;
        self.heard(news);
        self.consider_closing();
    }

    /// End of file from the host.
    pub fn host_closed(&mut self, now: Duration) {
        self.now = now;
        self.host_gone = true;
        for dialog in self.dialogs.values_mut().filter(|dialog| !dialog.is_done()) {
            dialog.host_is_gone();
        }
        // What the host said last is written down all the same.
        if let Some(session) = self.session.clone() {
            self.errand(Errand::Detach { session });
        }
        let waits = self.open().any(|(_, dialog)| dialog.stand != Stand::Off);
        self.closing = Some(if waits { now + self.settings.grace } else { now });
        self.consider_closing();
    }

    /// End of file from pi: whoever waits for it waits in vain.
    pub fn agent_closed(&mut self, now: Duration) {
        self.now = now;
        if std::mem::replace(&mut self.agent_closed, true) {
            return;
        }
        for no in self.open_asks() {
            self.settle(no, Fate::Ended { cause: "requester_gone", tell_agent: false });
        }
        self.observe(vec![Observation::SessionEnded {}]);
    }

    /// Time passed.
    pub fn tick(&mut self, now: Duration) {
        self.now = now;
        for no in self.open_asks() {
            let Some(dialog) = self.dialogs.get(&no) else { continue };
            if dialog.gives_up.is_some_and(|at| now >= at) {
                self.settle(no, Fate::Ended { cause: "requester_limit", tell_agent: false });
            } else if dialog.deciding_since().is_some_and(|since| now >= since + JOURNAL_PATIENCE) {
                self.log(format!("ask {no}: askd did not write the answer down in time; it goes on"));
                self.settle_by_host(no, settle::Proof::Waiting);
            }
        }
        self.consider_closing();
    }

    /// When [`Self::tick`] has something to do, on the clock of `now`.
    pub fn next_tick(&self) -> Option<Duration> {
        let dialogs = self.open().flat_map(|(_, dialog)| {
            [dialog.deciding_since().map(|since| since + JOURNAL_PATIENCE), dialog.gives_up]
        });
        dialogs.chain([self.closing]).flatten().min()
    }

    /// With the host gone: pi's input is closed when nothing can be answered any more and nothing is worked on, or when
    /// the grace is over.
    fn consider_closing(&mut self) {
        let Some(until) = self.closing else { return };
        let waits = self.open().any(|(_, dialog)| dialog.stand != Stand::Off);
        if self.now < until && (waits || self.works) && !self.agent_closed {
            return;
        }
        self.closing = None;
        for no in self.open_asks() {
            // What the host said before it went counts.
            self.settle_by_host(no, settle::Proof::Waiting);
            self.settle(no, Fate::Ended { cause: "requester_gone", tell_agent: true });
        }
        self.out.push(Action::CloseAgent);
    }

    /// The turn, or the session, is cancelled. Nothing allows anything of it afterwards; pi itself would wait for its
    /// open dialogs for ever.
    fn cancel_all(&mut self) {
        for no in self.open_asks() {
            self.settle(no, Fate::Ended { cause: "cancelled", tell_agent: true });
        }
        self.observe(vec![Observation::TurnCancelled { subagent: None }]);
    }

    /// A `select` of an extension.
    fn selected(&mut self, select: lines::Select, line: Vec<u8>) {
        if select.options.len() == 2 && self.follow_ups.front().is_some_and(|next| !next.is_reason) {
            let next = self.follow_ups.pop_front();
            return match next.and_then(|next| next.ours) {
                // The narrowest scope: this subagent only.
                Some(_) => {
                    let first = select.options.first().cloned().unwrap_or_default();
                    self.tell_agent(lines::value(&select.id, &first));
                }
                None => self.tell_host(line),
            };
        }
        let Some(labels) = Labels::of(&select) else { return self.tell_host(line) };
        if self.by_id.contains_key(&select.id) || (self.settings.served && select.child().is_some()) {
            return self.tell_host(line);
        }
        let no = self.next;
        self.next += 1;
        let raise = self.question(no, &select, &labels);
        let dialog = Dialog {
            id: select.id.clone(),
            title: select.title.lines().nth(1).unwrap_or_default().chars().take(200).collect(),
            forwarded: select.child().is_some(),
            labels,
            call: raise.tool_call.clone(),
            host: if self.host_gone { Host::Gone } else { Host::Asked },
            stand: Stand::Raising,
            state: State::Open,
            gives_up: select.timeout.map(|timeout| self.now + timeout),
        };
        self.dialogs.insert(no, dialog);
        self.by_id.insert(select.id, no);
        self.tell_host(line);
        self.errand(Errand::Raise { ask: no, raise: Box::new(raise) });
    }

    /// An `input` of an extension: ours when we answered with a reason.
    fn asked_for_text(&mut self, id: &str, title: &str, line: Vec<u8>) {
        if lines::is_permission(title) && self.follow_ups.front().is_some_and(|next| next.is_reason) {
            let next = self.follow_ups.pop_front();
            if let Some(reason) = next.and_then(|next| next.ours) {
                return self.tell_agent(lines::value(id, &reason));
            }
        }
        self.tell_host(line);
    }

    /// The ask as askd gets it. Nothing that matters is read out of the dialog's text: the call is the one that runs.
    fn question(&mut self, no: AskNo, select: &lines::Select, labels: &Labels) -> RaiseAsk {
        let child = select.child();
        let message = select.title.split_once('\n').map_or(&*select.title, |(_, rest)| rest);
        let call = self.calls.last_mut().filter(|_| child.is_none());
        let (tool, input, call) = match call {
            Some(call) => {
                let input = call.input.clone().unwrap_or_else(|| "{}".to_owned());
                // A call may have several gates; what each asks is another question.
                let again = std::mem::replace(&mut call.asked, true);
                let input =
                    if again { lines::object(&[("asked", message)], Some(("input", &input))) } else { input };
                (call.tool.clone(), input, Some(call.id.clone()))
            }
            None if child.is_some() => {
                ("subagent".to_owned(), lines::object(&[("request", message)], None), None)
            }
            None => ("pi".to_owned(), lines::object(&[("request", message)], None), None),
        };
        let root = self.session_name();
        let action = askd_wire::Action {
            kind: kind_of(&tool).map(str::to_owned),
            tool,
            title: Some(message.to_owned()),
            input: RawValue::from_string(input).ok(),
            cwd: self.settings.cwd.clone(),
        };
        let session = child.as_ref().map_or_else(|| root.clone(), |child| child.session.clone());
        RaiseAsk {
            attendance: Some(if self.host_gone { Attendance::Background } else { Attendance::Foreground }),
            parent: child.is_some().then_some(root),
            subagent: child.map(|child| Subagent {
                name: Some(child.name),
                kind: None,
                work_id: child.session,
                depth: None,
            }),
            tool_call: call,
            options: labels.choices(),
            gives_up_secs: select.timeout.map(|timeout| timeout.as_secs().max(1)),
            grace_secs: LINK_GRACE_SECS,
            instance: self.settings.instance.clone(),
            ..plain_ask(format!("{}-{no}", self.settings.mark), AGENT, &session, action)
        }
    }

    /// The host said something about one of pi's dialogs.
    fn host_answered(&mut self, no: AskNo, reply: Reply, line: Vec<u8>) {
        let now = self.now;
        let Some(dialog) = self.dialogs.get_mut(&no) else { return };
        if !matches!(dialog.state, State::Open) || !matches!(dialog.host, Host::Asked) {
            return self.log(format!("ask {no}: a late answer of the host is dropped"));
        }
        let chosen = match reply {
            Reply::Value(value) => dialog.labels.choice(&value),
            Reply::Cancelled | Reply::Wrong => None,
        };
        match (chosen, dialog.stand) {
            (Some((option, decision)), stand) => {
                dialog.state = State::Deciding { line, option, decision, since: now, sent: false };
                match stand {
                    Stand::Raising => {}
                    Stand::Raised => self.send_answer(no),
                    Stand::Off => self.settle_by_host(no, settle::Proof::None),
                }
            }
            // Cancelled, or not an answer to this dialog: nobody decided.
            (None, stand) => {
                dialog.host = Host::Left(line);
                match (self.settings.dismiss, stand) {
                    (Dismiss::Cancel, _) | (_, Stand::Off) => self.settle(no, Fate::Left),
                    (Dismiss::Ignore, Stand::Raised) => self.count_others(no),
                    (Dismiss::Ignore, Stand::Raising) => {}
                }
            }
        }
    }

    /// pi says which session it has now.
    fn is_session(&mut self, session: String) {
        if self.session.as_ref() == Some(&session) {
            return;
        }
        if let Some(old) = self.session.take() {
            self.errand(Errand::Detach { session: old });
        }
        self.session = Some(session.clone());
        self.observe(vec![Observation::SessionStarted {}]);
        if !self.host_gone {
            let client = self.settings.host.clone();
            self.errand(Errand::Attach { agent: AGENT.to_owned(), session, client });
        }
    }

    fn ask_for_state(&mut self) {
        let line = lines::command(&self.own_id(), "get_state");
        self.tell_agent(line);
    }

    fn own_id(&mut self) -> String {
        self.next += 1;
        format!("askd-{}-{}", self.settings.mark, self.next)
    }

    fn is_ours(&self, id: &str) -> bool {
        id.strip_prefix("askd-").is_some_and(|rest| rest.starts_with(&*self.settings.mark))
    }

    fn session_name(&self) -> String {
        self.session.clone().unwrap_or_else(|| format!("pi-{}", self.settings.mark))
    }

    fn open(&self) -> impl Iterator<Item = (AskNo, &Dialog)> {
        self.dialogs.iter().map(|(no, dialog)| (*no, dialog)).filter(|(_, dialog)| !dialog.is_done())
    }

    fn open_asks(&self) -> Vec<AskNo> {
        self.open().map(|(no, _)| no).collect()
    }

    fn observe(&mut self, observations: Vec<Observation>) {
        let batch = ObservationBatch {
            agent: AGENT.to_owned(),
            session: self.session_name(),
            parent: None,
            session_title: None,
            cwd: self.settings.cwd.clone(),
            instance: self.settings.instance.clone(),
            place: None,
            observations,
        };
        self.errand(Errand::Observe(Box::new(batch)));
    }

    fn tell_agent(&mut self, line: Vec<u8>) {
        self.out.push(Action::ToAgent(line));
    }

    fn tell_host(&mut self, line: Vec<u8>) {
        self.out.push(Action::ToClient(line));
    }

    fn errand(&mut self, errand: Errand) {
        self.out.push(Action::Daemon(errand));
    }

    fn log(&mut self, text: String) {
        self.out.push(Action::Log(text));
    }
}

/// Kinds of pi's own tools.
fn kind_of(tool: &str) -> Option<&'static str> {
    Some(match tool {
        "bash" => "execute",
        "read" => "read",
        "edit" | "write" => "edit",
        "grep" | "find" | "ls" => "search",
        _ => return None,
    })
}
